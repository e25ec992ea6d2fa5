"""`audit` on data directories and exports: good histories verify, of bad ones the first bad index is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from log_world import CLUSTER, IDENTITY, Scribe, altered, short_history, stored
from typer.testing import CliRunner

from veridical.cli.audit import disagreement_of, verified
from veridical.cli.failures import DAMAGED, INVALID
from veridical.cli.main import application
from veridical.cli.sources import Place, places
from veridical.log.export import ExportHeader, write_export
from veridical.log.store import LogStore
from veridical.memory.errors import Invalid


def run(*arguments: str) -> tuple[int, Any]:
    """Exit code and JSON answer of `veridical audit …`."""
    result = CliRunner().invoke(application(), ["audit", *arguments, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.stderr


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """The data directory of a stopped node with seven entries."""
    return made(tmp_path, short_history())


def made(directory: Path, scribe: Scribe) -> Path:
    """A data directory with this history, all of it committed."""
    log = LogStore.open(directory / "log.db")
    log.identify(IDENTITY)
    stored(log, scribe)
    log.write(commit_index=scribe.end.index)
    log.close()
    return directory


def flipped(path: Path, around: bytes) -> None:
    """Change one bit of the first place where the file holds these bytes."""
    raw = bytearray(path.read_bytes())
    place = raw.find(around)
    assert place >= 0
    raw[place + len(around) // 2] ^= 1
    path.write_bytes(raw)


def test_a_good_directory_verifies(directory: Path) -> None:
    code, answer = run("verify", str(directory))
    [history] = answer["histories"]
    assert (code, answer["good"], history["good"]) == (0, True, True)
    assert (history["cluster_id"], history["last_index"], history["unsealed"]) == (CLUSTER, 7, 0)


def test_a_log_file_can_be_named_itself(directory: Path) -> None:
    assert run("verify", str(directory / "log.db"))[0] == 0


@pytest.mark.parametrize(("text", "index"), [(b"the sky is blue", 3), (b"fire is hot", 4), (b"snow is white", 7)])
def test_a_flipped_body_is_named_by_its_index(directory: Path, text: bytes, index: int) -> None:
    flipped(directory / "log.db", text)
    code, answer = run("verify", str(directory))
    assert (code, answer["good"]) == (DAMAGED, False)
    assert answer["histories"][0]["bad_index"] == index


def test_damage_is_told_to_people_too(directory: Path) -> None:
    flipped(directory / "log.db", b"the sky is blue")
    result = CliRunner().invoke(application(), ["audit", "verify", str(directory)])
    assert result.exit_code == DAMAGED
    assert ": BAD: log.db, entry 3: " in result.stdout


def test_a_history_of_another_cluster_is_not_the_one_wanted(directory: Path) -> None:
    assert run("verify", str(directory), "--cluster-id", CLUSTER)[0] == 0
    code, answer = run("verify", str(directory), "--cluster-id", "0" * 32)
    assert code == DAMAGED
    assert "not of 00000" in answer["histories"][0]["what"]


def test_two_histories_that_part_are_not_one(tmp_path: Path) -> None:
    """Each verifies by itself: the same leader signed both."""
    named: list[Place] = []
    for text in ("snow is white", "snow is black"):
        scribe = short_history()
        scribe.say(text)
        directory = tmp_path / text.split()[-1]
        directory.mkdir()
        made(directory, scribe)
        named.append(Place(directory=directory))
    found = [verified(place, "", quiet=True) for place in named]
    assert all(finding.good for finding in found)
    assert disagreement_of(named, found) == "the histories are not the same up to entry 8, which all hold for committed"
    assert disagreement_of(named[:1] * 2, found[:1] * 2) == ""


def test_an_export_verifies_without_the_directory(directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "history.vlog"
    code, answer = run("export", str(directory), "--out", str(file))
    assert (code, answer["index"], answer["cluster_id"]) == (0, 7, CLUSTER)
    code, answer = run("verify", str(file))
    assert (code, answer["histories"][0]["last_index"]) == (0, 7)


def test_an_export_is_never_written_over_a_file(directory: Path, tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_text("keep me")
    assert run("export", str(directory), "--out", str(file))[0] != 0
    assert file.read_text() == "keep me"


def test_a_forged_export_is_named_by_its_index(tmp_path: Path) -> None:
    scribe = short_history()
    scribe.entries[4] = altered(scribe.entries[4], time_us=scribe.entries[4].time_us + 1)
    file = tmp_path / "forged.vlog"
    with file.open("wb") as stream:
        write_export(stream, ExportHeader(CLUSTER, "example"), scribe.history)
    code, answer = run("verify", str(file))
    assert (code, answer["histories"][0]["bad_index"]) == (DAMAGED, 5)


def test_a_file_that_is_no_history_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("nothing of the kind")
    code, said = run("verify", str(file))
    assert code == 31
    assert "not an export" in said


def test_an_index_beyond_the_end_is_refused(directory: Path, tmp_path: Path) -> None:
    code, said = run("show", "8", str(directory))
    assert (code, "history ends at 7" in said) == (INVALID, True)
    code, said = run("replay", str(directory), "--to", "8", "--out", str(tmp_path / "out"))
    assert (code, "history ends at entry 7" in said) == (INVALID, True)


def test_a_replay_writes_into_new_directories_only(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "precious").write_text("keep me")
    code, said = run("replay", str(directory), "--to", "2", "--out", str(tmp_path / "out"))
    assert (code, "is not empty" in said) == (INVALID, True)


def test_an_entry_is_shown_with_its_commands_and_its_seal(directory: Path) -> None:
    code, entry = run("show", "2", str(directory))
    assert (code, entry["index"], entry["sealed_by"]) == (0, 2, "node-1")
    assert [command["kind"] for command in entry["commands"]] == ["leader.elected"]


def test_places_are_found_by_what_lies_there(directory: Path, tmp_path: Path) -> None:
    assert places(directory, None, None) == [Place(directory=directory)]
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(Invalid, match="neither a log nor a local cluster"):
        places(empty, None, None)
