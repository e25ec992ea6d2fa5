"""What a drill holds against a cluster, and how it reports it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veridical.cli import drilling
from veridical.cli.main import application
from veridical.cli.stepped import stepped, write_offset
from veridical.drills.exercises import EXERCISES
from veridical.drills.load import Account
from veridical.drills.proxies import Links
from veridical.drills.report import as_fields, as_markdown
from veridical.drills.run import FAILED, HELD, NOT_HELD, Moment, Result, objection
from veridical.drills.site import Means

ROOT = Path(__file__).parents[2]
KILL = EXERCISES["kill"]


def test_a_cluster_that_kept_everything_meets_no_objection() -> None:
    """The positive control of the next test."""
    assert objection(KILL, Account(), 1.0, [], []) == ""


def test_each_thing_that_is_owed_is_objected_to_when_it_is_missing() -> None:
    """A lost fact, a state that differs, a call that outlived its time-out, a silence that was too long."""
    assert "subject 7" in objection(KILL, Account(), 1.0, ["subject 7"], [])
    assert "n2" in objection(KILL, Account(), 1.0, [], ["n2"])
    assert "by 3.50 s" in objection(KILL, Account(overdue_s=[3.5]), 1.0, [], [])
    assert "for 3.10 s" in objection(KILL, Account(), 3.1, [], [])


def test_an_account_knows_the_longest_silence() -> None:
    """From the beginning to the first acknowledgement, between two, and from the last to the end."""
    account = Account(moments=[1.0, 2.5, 3.0])
    assert account.longest_gap_s(0.0, 3.2) == 1.5
    assert account.longest_gap_s(0.9, 6.0) == 3.0
    assert account.first_after(1.0) == 1.5
    assert account.first_after(3.0) == float("inf")


def test_a_report_says_what_was_done_and_what_was_lost() -> None:
    """A failed exercise fails the drill; one that could not be held does not, and is named."""
    held = Result(
        "kill", "the leader's process is killed", HELD, "", 3.0, (Moment(0.5, "n1 was killed"),), 100, 0.8, 3.0
    )
    lost = Result(
        "wipe", "a follower loses its disk", FAILED, "1 fact is gone", 3.0, lost=("subject 7",), differing=("n2",)
    )
    apart = Result("disk-full", "the leader's disk is full", NOT_HELD, "takes root", 0.0)
    page = as_markdown([held, lost, apart], "home", "today")
    assert "| kill | held | 100 | 0.80 s of 3 | 0 | 0 | equal |" in page
    assert "| wipe | failed | 0 | 0.00 s of 0 | 0 | 1 | differ: n2 |" in page
    assert "**not held**: takes root" in page
    assert "- 0.50 s: n1 was killed" in page
    assert as_fields([held, apart], "home", "today")["passed"]
    assert not as_fields([held, lost], "home", "today")["passed"]


def test_a_link_carries_what_is_sent_and_holds_it_while_it_is_cut() -> None:
    """One way is cut: what goes there waits, and arrives when the link is mended."""

    async def scenario() -> None:
        heard: asyncio.Queue[bytes] = asyncio.Queue()

        async def hear(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while chunk := await reader.read(100):
                heard.put_nowait(chunk)
            writer.close()

        target = await asyncio.start_server(hear, "127.0.0.1", 0)
        holder = await asyncio.start_server(hear, "127.0.0.1", 0)
        port = holder.sockets[0].getsockname()[1]
        holder.close()
        links = Links({("a", "b"): port}, {"b": target.sockets[0].getsockname()[1]})
        assert links.reached_from("a") == {"b": f"127.0.0.1:{port}"}
        await links.listen()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"one")
        assert await asyncio.wait_for(heard.get(), 5) == b"one"
        links.cut("b", hears=True, speaks=False)
        writer.write(b"two")
        assert await asyncio.wait_for(heard.get(), 5) == b"two", "b still hears"
        links.cut("a", hears=True, speaks=False)
        writer.write(b"three")
        await writer.drain()
        await asyncio.wait({asyncio.ensure_future(heard.get())}, timeout=0.05)
        assert heard.empty()
        links.mend()
        writer.write(b"!")
        await writer.drain()
        writer.close()
        del reader
        await links.close()
        target.close()

    asyncio.run(scenario())


# --- what the verb says of itself -------------------------------------------------------------------------------------


def test_the_verb_names_every_exercise_and_all_means_all() -> None:
    """In its help and in the page of the verbs; and `all` leaves none out."""
    assert [exercise.name for exercise in drilling.chosen([drilling.ALL])] == list(EXERCISES)
    helped = CliRunner().invoke(application(), ["drill", "--help"], env={"COLUMNS": "400"}).stdout
    page = (ROOT / "docs" / "command-line.md").read_text()
    for name in EXERCISES:
        assert name in helped
        assert f"`{name}`" in page


def test_each_cluster_of_a_drill_has_the_means_that_its_exercises_take() -> None:
    """A full disk takes small ones, a stepped clock one that can be stepped; nothing else takes anything."""
    takes = {name: exercise.takes for name, exercise in EXERCISES.items() if exercise.takes is not Means.NOTHING}
    assert takes == {"disk-full": Means.SMALL_DISKS, "clock": Means.CLOCKS}


# --- a clock that is stepped ------------------------------------------------------------------------------------------


def test_a_stepped_clock_follows_its_file(tmp_path: Path) -> None:
    """While it runs, forth and back, and only by what the file says."""
    file = tmp_path / "n1.clock"
    write_offset(file, 0)
    wall_us = stepped(file, lambda: 5_000_000_000)
    assert wall_us() == 5_000_000_000
    write_offset(file, 3600)
    assert wall_us() == 5_000_000_000 + 3600 * 1_000_000
    write_offset(file, -3600)
    assert wall_us() == 5_000_000_000 - 3600 * 1_000_000
    with pytest.raises(FileNotFoundError):
        stepped(tmp_path / "n2.clock", lambda: 0)
