"""Erased text is in no file of any node, also of one that was down meanwhile, and stays away whatever happens."""

from __future__ import annotations

import asyncio
import random
import shutil
import sqlite3
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
from node_cluster import CLOCK, ENTROPY, NOBODY, SECOND_US, Cluster, cluster, read, write, write_command

from veridical.log.identifier import uuid7
from veridical.log.store import LogStore
from veridical.memory.changes import Cursor
from veridical.memory.commands import encode_body
from veridical.memory.errors import Unavailable
from veridical.memory.trust_commands import ERASE, EraseBody
from veridical.node.erasing import Eraser
from veridical.node.feed import WatchRequest
from veridical.node.ports import BareCommand, Verb
from veridical.node.runtime import Node
from veridical.node.settings import Limits
from veridical.projection.projection import BESIDE

SECRET = b"xyzzyplugh"
SEEDS = (1, 2, 3)
STEPS = 14


def holding(made: Cluster, text: bytes = SECRET) -> set[str]:
    """The nodes of which some file holds the text."""
    files = (file for file in made.data.rglob("*") if file.is_file())
    return {file.relative_to(made.data).parts[0] for file in files if text in _bytes(file)}


def _bytes(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except FileNotFoundError:  # a journal that was just removed
        return b""


async def erase(node: Node, id: bytes) -> None:
    """Destroy what was ever said under that id."""
    command = BareCommand(uuid7(CLOCK.wall_us(), ENTROPY.bytes(8)), ERASE, encode_body(ERASE, EraseBody(id, "asked")))
    done = await node.submit_anonymous([command], 5 * SECOND_US)
    assert done.outcomes[0].code == "erased"


def rot(path: Path, index: int) -> None:
    """An entry's row is no longer what was written."""
    with closing(sqlite3.connect(path, timeout=10)) as connection:
        connection.execute("UPDATE entries SET time_us = time_us + 1 WHERE entry_index = ?", (index,))
        connection.commit()


class Holding:
    """Keeps the erasers of some nodes from their work: a member that has not destroyed yet what others have."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.names: set[str] = set()
        self._look = Eraser.look

        def look(eraser: Eraser) -> None:
            self._looked(eraser)

        patch.setattr(Eraser, "look", look)

    def _looked(self, eraser: Eraser) -> None:
        path = eraser._store._database.path  # pyright: ignore[reportPrivateUsage]
        if path is None or path.parent.name not in self.names:
            self._look(eraser)

    def let_go(self, made: Cluster) -> None:
        """All of them get on with it."""
        self.names.clear()
        for node in made.nodes.values():
            if (engine := node._situation.engine) is not None:  # pyright: ignore[reportPrivateUsage]
                engine._eraser.look()  # pyright: ignore[reportPrivateUsage]


@asynccontextmanager
async def told(data: Path) -> AsyncGenerator[tuple[Cluster, bytes, int]]:
    """Three nodes that hold the secret; the record's id and its entry."""
    async with cluster(data) as made:
        leader = await made.leader()
        result = await write(leader, "vault", f"the code is {SECRET.decode()}")
        for number in range(8):
            await write(leader, f"other {number}", "something else")
        await made.level()
        assert holding(made) == set(made.names)
        yield made, result.outcomes[0].record_id, result.index


async def look_through(node: Node) -> None:
    """One pass over all files, which ends with what it finds damaged."""
    with pytest.raises(Unavailable, match="damaged"):
        async for _ in node.antientropy(run=True):
            pass


async def whole(made: Cluster, name: str) -> None:
    """Wait until that node takes part again."""
    await made.until(lambda: made.nodes[name].status().condition == "" and made.leaders())
    await made.level()


def test_erased_text_is_in_no_file(tmp_path: Path) -> None:
    """Log, journals, rows, full text and free pages of three nodes, one of which missed it."""

    async def story() -> None:
        async with told(tmp_path) as (made, id, _):
            leader = await made.leader()
            away = next(name for name, node in made.nodes.items() if node is not leader)
            await made.stop(away)
            await erase(leader, id)
            await made.until(lambda: holding(made) == {away})
            await made.start(away)
            await made.until(lambda: not holding(made))
            assert len(await made.digests()) == 1
            await made.stop(*list(made.nodes))
            await made.start(*made.names)
            assert len(await made.digests()) == 1
            assert not holding(made)

    asyncio.run(story())


def test_a_repair_brings_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry rots where its body is erased, and the only others to ask have not erased it yet."""
    held = Holding(monkeypatch)

    async def story() -> None:
        async with told(tmp_path) as (made, id, index):
            [node, *others] = [*made.followers(), await made.leader()]
            name = node.status().name
            held.names.update(other.status().name for other in others)
            await erase(await made.leader(), id)
            await made.level()
            await made.until(lambda: holding(made) == held.names)
            rot(tmp_path / name / "log.db", index)
            await look_through(node)
            await whole(made, name)
            assert holding(made) == held.names
            with closing(LogStore.open(tmp_path / name / "log.db", read_only=True)) as store:
                entry = store.entry(index)
                assert entry is not None
                assert (entry.bodies, entry.erased_by > index) == ((None,), True)
            held.let_go(made)
            await made.until(lambda: not holding(made))

    asyncio.run(story())


@pytest.mark.parametrize("knows", ["nothing", "the entry", "the entry, not folded"])
def test_an_entry_that_all_others_have_erased_is_taken_without_its_body(tmp_path: Path, knows: str) -> None:
    """What erased it is proven by its seal where this log ends before it, and read where it does not."""

    async def story() -> None:
        async with told(tmp_path) as (made, id, index):
            node = made.followers()[0]
            name = node.status().name
            if knows == "nothing":
                await made.stop(name)
            await erase(await made.leader(), id)
            if knows != "nothing":
                await made.level()
                await made.stop(name)
            await made.until(lambda: holding(made) <= {name})
            rot(tmp_path / name / "log.db", index)
            if knows == "the entry, not folded":
                for file in (tmp_path / name).glob("projection.db*"):
                    file.unlink()
            await made.start(name)
            await whole(made, name)
            await made.until(lambda: not holding(made))
            assert b'veridical_repairs_total{kind="log"} 1.0' in made.nodes[name].metrics.exposition()
            assert len(await made.digests()) == 1

    asyncio.run(story())


def test_what_was_left_by_a_fold_that_did_not_end_is_removed(tmp_path: Path) -> None:
    """A process that dies while it folds the log again beside leaves a file that nobody reads, with all texts in it."""

    async def story() -> None:
        async with told(tmp_path) as (made, id, _):
            node = made.followers()[0]
            name = node.status().name
            await made.stop(name)
            projection = tmp_path / name / "projection.db"
            shutil.copy(projection, f"{projection}{BESIDE}")
            await erase(await made.leader(), id)
            await made.start(name)
            await made.until(lambda: not holding(made))

    asyncio.run(story())


def test_rows_copied_over_those_that_are_cleaned_are_cleaned_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy was folded from bodies that were still there: what it brings along is not what was cleaned before."""
    held = Holding(monkeypatch)

    async def story() -> None:
        async with told(tmp_path) as (made, id, index):
            node = made.followers()[0]
            name = node.status().name
            held.names.add(name)
            await erase(await made.leader(), id)
            await made.level()
            engine = node._situation.engine  # pyright: ignore[reportPrivateUsage]
            assert engine is not None
            upkeep, eraser = engine.upkeep, engine._eraser  # pyright: ignore[reportPrivateUsage]
            again = upkeep._projection.beside()  # pyright: ignore[reportPrivateUsage]
            again.catch_up(upkeep._store, index)  # pyright: ignore[reportPrivateUsage]
            clean, copied = eraser._clean, False  # pyright: ignore[reportPrivateUsage]

            async def cleaned(table: str) -> None:
                nonlocal copied
                await clean(table)
                if not copied:
                    copied = True
                    await engine._applier.call(lambda: upkeep._settle(again, True))  # pyright: ignore[reportPrivateUsage]
                    again.discard()

            monkeypatch.setattr(eraser, "_clean", cleaned)
            held.let_go(made)
            await made.until(lambda: copied and not holding(made))
            assert len(await made.digests()) == 1

    asyncio.run(story())


async def changes(node: Node) -> bytes:
    """All that the feed tells from the beginning, as bytes."""
    found: list[bytes] = []
    cursor = Cursor("", 0)
    async for page in node.watch(WatchRequest(cursor, caller=NOBODY)):
        found += [change.row for change in page.changes]
        if page.cursor.index >= page.applied_index:
            break
    return b"".join(found)


class Story:
    """Anything may happen to three nodes, in any order, to a record that is erased at some time."""

    def __init__(self, made: Cluster, id: bytes, index: int, chance: random.Random) -> None:
        self.made = made
        self.id = id
        self.index = index
        self.chance = chance
        self.is_erased = False
        self.told = 0

    async def step(self) -> str:
        """One thing that may happen; its name."""
        happens: Callable[[], Awaitable[None]] = self.chance.choice(
            [self.erase, self.rot, self.rot, self.restart, self.refold, self.forget_rows, self.back_up]
        )
        await happens()
        await self.made.level()
        return happens.__name__

    async def erase(self) -> None:
        """Once; the others go on saying something."""
        leader = await self.made.leader()
        if not self.is_erased:
            await erase(leader, self.id)
            self.is_erased = True
        self.told += 1
        await write(leader, f"more {self.told}", "nothing special")

    async def rot(self) -> None:
        """The secret's entry, or another, rots at some node, and it notices."""
        node = self.chance.choice(list(self.made.nodes.values()))
        name = node.status().name
        rot(self.made.data / name / "log.db", self.chance.choice([self.index, self.index, self.index + 1]))
        await look_through(node)
        await whole(self.made, name)

    async def restart(self) -> None:
        """Some node, or all of them."""
        names = self.chance.choice([[self.chance.choice(self.made.names)], self.made.names])
        await self.made.stop(*names)
        await self.made.start(*names)

    async def refold(self) -> None:
        """Some node's rows are not what they should be."""
        node = self.chance.choice(list(self.made.nodes.values()))
        path = self.made.data / node.status().name / "projection.db"
        with closing(sqlite3.connect(path, timeout=10)) as connection:
            connection.execute("UPDATE content SET body = zeroblob(40) WHERE number = 4")
            connection.commit()
        async for _ in node.antientropy(run=True):
            pass

    async def forget_rows(self) -> None:
        """Some node has to fold all of its log at its start."""
        name = self.chance.choice(self.made.names)
        await self.made.stop(name)
        for file in (self.made.data / name).glob("projection.db*"):
            file.unlink()
        await self.made.start(name)

    async def back_up(self) -> None:
        """Some node's history is read from its beginning; one that came after the erasing says nothing of it."""
        node = self.chance.choice(list(self.made.nodes.values()))
        first, found = 1, list[bytes]()
        while page := (await node.export(first, 1 << 20))[0]:
            found += [body for entry in page for body in entry.bodies if body is not None]
            first = page[-1].index + 1
        if self.is_erased and not holding(self.made):
            assert SECRET not in b"".join(found)


@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_happens_the_secret_is_gone_at_the_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """Erasing, rot and repair, restarts, folds and reads of history in any order, some erasers late."""
    held, chance = Holding(monkeypatch), random.Random(seed)

    async def story() -> None:
        async with told(tmp_path) as (made, id, index):
            play = Story(made, id, index, chance)
            happened: list[str] = []
            for _ in range(STEPS):
                held.names = set(chance.sample(made.names, 2))
                happened.append(await play.step())
            if not play.is_erased:
                await play.erase()
            await made.level()
            held.let_go(made)
            await made.until(lambda: not holding(made))
            assert len(await made.digests()) == 1
            for node in made.nodes.values():
                assert SECRET not in await changes(node)
                assert (await read(node, Verb.RECALL, query="code xyzzyplugh", k=5)).value is not None
            await made.stop(*list(made.nodes))
            assert not holding(made), happened
            await made.start(*made.names)
            await made.level()
            assert not holding(made), happened

    asyncio.run(story())


def erasure(id: bytes) -> BareCommand:
    body = encode_body(ERASE, EraseBody(id, "asked to"))
    return BareCommand(uuid7(CLOCK.wall_us(), ENTROPY.bytes(8)), ERASE, body)


def is_done(projection: Path) -> bool:
    """Whether that node is through with its one erasure."""
    with closing(sqlite3.connect(projection)) as connection:
        return connection.execute("SELECT is_done FROM erasure").fetchall() == [(1,)]


def test_what_came_before_it_in_its_envelope_goes_too(tmp_path: Path) -> None:
    """Said and erased in one envelope, and said again behind it: only what came before is destroyed."""

    async def story() -> None:
        async with cluster(tmp_path, limits=Limits(tail_bytes=1 << 16)) as made:
            leader = await made.leader()
            known = await write(leader, "vault", "nothing yet")
            away = next(name for name, node in made.nodes.items() if node is not leader)
            await made.stop(away)
            envelope = [
                write_command("vault", "the code is xyzzyplugh"),
                erasure(known.outcomes[0].record_id),
                write_command("vault", "there is no plover"),
            ]
            done = await leader.submit_anonymous(envelope, 5 * SECOND_US)
            assert [outcome.code for outcome in done.outcomes] == ["superseded", "erased", "asserted"]
            await made.until(lambda: not holding(made, b"xyzzyplugh"))
            for number in range(20):  # more than the leader keeps in memory: the late one gets what is left on disk
                await write(leader, f"other {number}", "something else " * 300)
            await made.start(away)
            await made.level()
            assert holding(made, b"there is no plover") == {"n1", "n2", "n3"}
            for name in made.names:
                await made.stop(name)
                (made.data / name / "projection.db").unlink()
                await made.start(name)
            assert len(await made.digests()) == 1

    asyncio.run(story())


def test_an_earlier_copy_of_the_log_brings_nothing_back(tmp_path: Path) -> None:
    """Put in place beside a projection that has done its erasing: what the copy holds is erased once it is whole."""

    async def story() -> None:
        async with cluster(tmp_path) as made:
            leader = await made.leader()
            result = await write(leader, "vault", "the code is xyzzyplugh")
            await made.level()
            name = next(name for name, node in made.nodes.items() if node is not leader)
            await made.stop(name)
            data, earlier = made.data / name, tmp_path / "earlier"
            shutil.copytree(data, earlier, ignore=shutil.ignore_patterns("projection*"))
            await made.start(name)
            await leader.submit_anonymous([erasure(result.outcomes[0].record_id)], 5 * SECOND_US)
            await made.until(lambda: all(is_done(made.data / name / "projection.db") for name in made.nodes))
            await made.stop(name)
            for file in data.glob("log*"):
                file.unlink()
            shutil.copytree(earlier, data, dirs_exist_ok=True)
            shutil.rmtree(earlier)
            assert holding(made, b"xyzzyplugh") == {name}
            await made.start(name)
            await made.until(lambda: not holding(made, b"xyzzyplugh"))
            assert len(await made.digests()) == 1

    asyncio.run(story())
