"""A node that is set back to an older copy of its disk is lost, and comes back as a new member."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from node_cluster import QUICK, Cluster, cluster, read, write

from veridical.node.identity import ASIDE
from veridical.node.ports import Verb

READMITTING = QUICK.model_copy(update={"readmit_after_ms": 300})


async def filled(made: Cluster, first: int, last: int) -> None:
    """Facts of these numbers."""
    for number in range(first, last):
        await write(await made.leader(), f"s{number}", f"value {number}")
    await made.level()


async def lost(made: Cluster, name: str) -> str:
    """Start a node on a disk that is older than what others saw of it; what it says when it gives up."""
    await made.start(name)
    await made.until(lambda: name in made.fatal)
    assert made.nodes[name].is_lost
    await made.stop(name)
    return made.fatal.pop(name)


def stored(made: Cluster, name: str) -> bool:
    """Whether every other node has stored how far that one has come by now."""
    engines = [node._situation.engine for other, node in made.nodes.items() if other != name]  # pyright: ignore[reportPrivateUsage]
    return all(engine is not None and engine.replica.kernel.sightings.store_at_us > 1 << 61 for engine in engines)


@pytest.mark.parametrize("others", ["stay up", "restart too"])
def test_an_older_copy_comes_back_as_a_new_member(tmp_path: Path, others: str) -> None:
    """It grants and acknowledges nothing under its old id, its files are kept, and nothing is lost."""

    async def story() -> None:
        async with cluster(tmp_path / "data", timings=READMITTING) as made:
            await filled(made, 0, 5)
            follower = made.followers()[0]
            name, id = follower.status().name, follower.node_id
            await made.stop(name)
            shutil.copytree(tmp_path / "data" / name, tmp_path / "copy")
            await made.start(name)
            await filled(made, 5, 10)
            await made.until(lambda: stored(made, name))
            await made.stop(*(made.names if others == "restart too" else [name]))
            shutil.rmtree(tmp_path / "data" / name)
            shutil.copytree(tmp_path / "copy", tmp_path / "data" / name)
            await made.start(*(other for other in made.names if other not in made.nodes and other != name))
            reason = await lost(made, name)
            assert "is an older copy" in reason
            kept = tmp_path / "data" / name / f"{ASIDE}-{id}"
            assert str(kept) in reason
            assert {"identity.json", "log.db", "node.key"} <= {file.name for file in kept.iterdir()}
            await made.start(name)
            assert made.nodes[name].node_id != id
            leader = await made.leader()
            await made.until(
                lambda: (
                    {member.id for member in leader.status().members if member.voting}
                    == {node.node_id for node in made.nodes.values()}
                )
            )
            await filled(made, 10, 12)
            assert len(await made.digests()) == 1
            assert (await read(made.nodes[name], Verb.COUNTS)).value.records == 12

    asyncio.run(story())


def test_a_leader_that_is_set_back_is_lost_too(tmp_path: Path) -> None:
    """Also where its copy was made while it ran, and is put back with no start in between."""

    async def story() -> None:
        async with cluster(tmp_path / "data", timings=READMITTING) as made:
            await filled(made, 0, 5)
            leader = await made.leader()
            name = leader.status().name
            shutil.copytree(tmp_path / "data" / name, tmp_path / "copy")
            await filled(made, 5, 10)
            await made.until(lambda: stored(made, name))
            await made.stop(name)
            shutil.rmtree(tmp_path / "data" / name)
            shutil.copytree(tmp_path / "copy", tmp_path / "data" / name)
            assert "is an older copy" in await lost(made, name)
            await made.start(name)
            await filled(made, 10, 12)

    asyncio.run(story())


def test_a_directory_from_before_the_first_write_is_an_older_copy_too(tmp_path: Path) -> None:
    """It has an id that others know, and a log with nothing in it."""

    async def story() -> None:
        async with cluster(tmp_path / "data", timings=READMITTING) as made:
            await filled(made, 0, 3)
            name = made.followers()[0].status().name
            await made.until(lambda: stored(made, name))
            await made.stop(name)
            for file in (tmp_path / "data" / name).iterdir():
                if file.name.startswith(("log.db", "projection.db")):
                    file.unlink()
            assert "is an older copy" in await lost(made, name)
            await made.start(name)
            await filled(made, 3, 5)
            assert len(await made.digests()) == 1

    asyncio.run(story())


def test_a_disk_as_it_was_left_is_no_older_copy(tmp_path: Path) -> None:
    """Single nodes and all of them restart, again and again."""

    async def story() -> None:
        async with cluster(tmp_path / "data", timings=READMITTING) as made:
            for number in range(4):
                await filled(made, 3 * number, 3 * number + 3)
                names = made.names if number % 2 else [made.names[number % 3]]
                await made.stop(*names)
                await made.start(*names)
            await filled(made, 12, 13)
            assert len(await made.digests()) == 1

    asyncio.run(story())
