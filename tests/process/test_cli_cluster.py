"""The command line against real local clusters: up, use, lose nodes, damage, prove, down."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cli_shell import Done, Shell

from veridical.cli.failures import DAMAGED
from veridical.log.entry import Entry
from veridical.log.seal import Seal
from veridical.log.store import LogStore

pytestmark = [pytest.mark.process, pytest.mark.timeout(240)]

MODES = ("local", "session", "strong", "quorum")
INVALID = 10
REFUSED = 12
CONFLICT = 13
UNAVAILABLE = 23


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """A cluster of the test's own; it does not outlive it."""
    shell = Shell(tmp_path / "cluster")
    yield shell
    shell("down")


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    """A running cluster for tests that leave it whole."""
    shell = Shell(tmp_path_factory.mktemp("shared") / "cluster")
    shell.up()
    yield shell
    shell("down")


def kill(pid: int) -> None:
    """`kill -9`."""
    os.kill(pid, signal.SIGKILL)


def roles(status: Done) -> list[str]:
    """The members' roles, sorted."""
    return sorted(member["role"] for member in status.answer["members"])


# --- clusters --------------------------------------------------------------------------------------------------------


def test_a_cluster_goes_up_loses_nodes_and_goes_down(shell: Shell) -> None:
    """The exit codes of `status` on the way: 0 healthy, 1 degraded, 2 no quorum, 3 cannot tell."""
    nodes = shell.up()
    assert [node["name"] for node in nodes] == ["n1", "n2", "n3"]
    assert all(node["id"] and node["pid"] and Path(node["data"]).is_dir() for node in nodes)
    assert shell.up() == nodes, "what runs already stays as it is"

    status = shell("status")
    assert (status.code, roles(status)) == (0, ["follower", "follower", "leader"])
    assert {member["id"]: member["pid"] for member in status.answer["members"]} == {n["id"]: n["pid"] for n in nodes}

    kill(nodes[0]["pid"])
    status = shell("status")
    assert (status.code, "down" in roles(status), len(roles(status))) == (1, True, 3)

    kill(nodes[1]["pid"])
    status = shell("status")
    assert (status.code, roles(status).count("down")) == (2, 2)
    assert shell("remember", "nobody hears this", "--timeout", "1").code in (22, UNAVAILABLE)

    again = shell.up()
    assert (again[2]["pid"], shell("status").code) == (nodes[2]["pid"], 0)
    for node in again:
        kill(node["pid"])
    assert shell("status").code == 3

    shell.up()
    assert shell("down").answer["stopped"] == ["n1", "n2", "n3"]
    assert shell("down").answer["stopped"] == []
    assert not any(_exists(node["pid"]) for node in again)


def test_a_cluster_is_found_again_by_any_other_number_of_nodes(shared: Shell) -> None:
    """Options that do not fit what is there are refused, not ignored."""
    assert "has 3 nodes, not 5" in shared("up", "--nodes", "5").said
    assert "not 7999" in shared("up", "--base-port", "7999").said


def test_leadership_is_handed_over(shared: Shell) -> None:
    before = shared("status").answer
    other = next(member for member in before["members"] if member["role"] == "follower")
    assert shared.well("transfer", "--to", other["name"]) == {"from": before["leader"], "to": other["id"]}
    assert "no member" in shared("transfer", "--to", "n9").said


# --- memory ----------------------------------------------------------------------------------------------------------


def test_the_past_is_asked_for_and_a_recall_says_why(shared: Shell) -> None:
    """By a time with its zone; one without is refused, and what to write is said."""
    old = shared.well("remember", "Ula", "home", "a flat in Lisbon")
    shared.well("remember", "Ula", "home", "a house in Porto")
    then = old["updated_at"]
    assert shared.well("get", "Ula", "home", "--as-of", then)["text"] == "a flat in Lisbon"
    recalled = shared.well("recall", "Ula Lisbon", "--as-of", then, "--explain")
    assert [record["text"] for record in recalled["records"]] == ["a flat in Lisbon"]
    assert list(recalled["explain"][0]["lanes"]) == ["former words"]
    assert shared.well("recall", "Ula", "--valid-at", then)["records"][0]["text"] == "a house in Porto"
    others = shared.well("members-as-of", "home", "--value", "A Flat in Lisbon", "--as-of", then)
    assert [record["subject"] for record in others] == ["Ula"]
    assert shared.well("members-as-of", "home", "--value", "a flat in Lisbon") == []
    for naive in ("2024-03-01", "yesterday"):
        done = shared("get", "Ula", "home", "--as-of", naive)
        assert done.code == INVALID and "2024-03-01T12:00Z" in done.said
    _, shown = shared.plainly("recall", "Ula", "--explain", answers="")
    assert "score" in shown and "words" in shown


def test_a_fact_is_remembered_recalled_corrected_and_forgotten(shared: Shell) -> None:
    names = ("auth", "uses", "--scope", "repo:app")
    first = shared.well("remember", "auth", "uses", "sessions", "--scope", "repo:app", "--metadata", '{"by": 7}')
    assert (first["outcome"], first["trust"], first["metadata"]) == ("asserted", "candidate", {"by": 7})
    second = shared.well("remember", "auth", "uses", "passkeys to log in", "--scope", "repo:app")
    assert (second["outcome"], second["id"]) == ("superseded", first["id"])
    for mode in MODES:
        assert shared.well("get", *names, "--read", mode)["text"] == "passkeys to log in"
    assert shared.well("get", first["id"])["id"] == first["id"]
    recalled = shared.well("recall", "how do we log in", "--scope", "repo:app")
    assert [record["id"] for record in recalled["records"]] == [first["id"]]
    assert recalled["index"] >= second["index"]
    assert [item["text"] for item in shared.well("history", *names)] == ["passkeys to log in", "sessions"]
    assert shared.well("forget", *names, "--reason", "obsolete") == {"forgotten": first["id"]}
    assert shared("get", *names).code == 1
    assert shared("remember", "auth", "uses", "passkeys to log in", "--scope", "repo:app").code == REFUSED


def test_what_is_taken_from_an_episode_is_corrected_and_falls_with_it(shared: Shell) -> None:
    """Sentences too: merged into one, which is what is recalled."""
    episode = shared.well("remember", "Rae likes tea and cake", "--kind", "episode", "--source", "chat:rae")
    follower = shared.well("remember", "So she does", "--kind", "episode", "--follows", episode["id"])
    assert follower["follows"] == episode["id"]
    said = [shared.well("remember", f"Rae likes {what}", "--derived-from", episode["id"]) for what in ("tea", "cake")]
    assert [record["support_count"] for record in said] == [1, 1]
    fact = shared.well("remember", "Rae", "drinks", "tea", "--derived-from", episode["id"])
    corrected = shared.well("correct", "Rae", "drinks", "--text", "black tea", "--reason", "misheard")
    assert (corrected["outcome"], corrected["id"]) == ("superseded", fact["id"])
    merged = shared.well("correct", said[0]["id"], said[1]["id"].upper(), "--text", "Rae likes black tea and cake")
    recalled = shared.well("recall", "what Rae likes")
    assert {record["id"] for record in recalled["records"]} == {merged["id"], fact["id"]}
    shared.well("remember", "Rae", "drinks", "black tea", "--source", "doc:rae")
    assert shared.well("withdraw", "Rae", "drinks", "--source", "doc:rae") == {"withdrawn": fact["id"]}
    assert shared.well("get", "Rae", "drinks")["support_count"] == 1
    derived = shared.well("remember", "Rae", "has", "a sweet tooth", "--derived-from", merged["id"])
    shared.well("forget", merged["id"])
    assert shared("get", derived["id"]).code == 1
    assert shared("correct", "Rae", "--text", "x").code == INVALID


def test_a_command_id_makes_a_write_repeatable(shared: Shell) -> None:
    """What ended as "outcome unknown" is sent again under its id: done once, answered alike; another text conflicts."""
    first = shared.well("remember", "said once")
    again = shared.well("remember", "said once", "--command-id", first["command_id"])
    assert (again["index"], again["outcome"], again["support_count"]) == (first["index"], "asserted", 1)
    assert shared("remember", "something else", "--command-id", first["command_id"]).code == CONFLICT


def test_endpoints_can_be_named_instead_of_the_directory(shared: Shell) -> None:
    endpoint = shared("status").answer["members"][0]["endpoint"]
    assert shared.well("remember", "said to one node", "--endpoint", endpoint, target=False)["outcome"] == "asserted"
    status = shared("status", "--endpoint", endpoint, target=False)
    assert (status.code, len(status.answer["members"])) == (0, 3), "every member of the configuration has a row"


def test_an_import_goes_in_once(shared: Shell, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    lines = [{"subject": f"item {number}", "predicate": "weighs", "text": f"{number} g"} for number in range(700)]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    report = shared.well("import", str(file), "--scope", "shop")
    assert (report["outcomes"], report["refused"]) == ({"asserted": 700}, [])
    assert list(tmp_path.iterdir()) == [file], "the resume file is gone"
    assert shared.well("get", "item 699", "weighs", "--scope", "shop")["text"] == "699 g"
    again = shared.well("import", str(file), "--scope", "shop")
    assert (again["facts"], "asserted" in again["outcomes"]) == (700, False)


def test_an_import_that_was_killed_goes_on(shared: Shell, tmp_path: Path) -> None:
    """`kill -9` of the importer at any moment: the next run finishes it, and nothing is in twice."""
    file = tmp_path / "facts.jsonl"
    file.write_text("".join(json.dumps({"text": f"crate {number}"}) + "\n" for number in range(3000)))
    command = [sys.executable, "-P", "-m", "veridical.cli.main", "import", str(file), "--scope", "dock"]
    running = subprocess.Popen([*command, "--data", str(shared.data)], stderr=subprocess.DEVNULL)
    resume = tmp_path / "facts.jsonl.resume"
    while running.poll() is None and not (resume.exists() and '"answered"' in resume.read_text()):
        pass
    running.kill()
    running.wait()
    if resume.exists():
        report = shared.well("import", str(file), "--scope", "dock")
        assert report["resumed_after"] >= 256
        assert sum(report["outcomes"].values()) == 3000 - report["resumed_after"]
        assert set(report["outcomes"]) == {"asserted"}, "a batch sent twice is answered with its first outcome"
    found = shared.well("recall", "crate 2999", "--scope", "dock", "-k", "1")["records"]
    assert [(record["text"], record["support_count"]) for record in found] == [("crate 2999", 1)]


# --- proof -----------------------------------------------------------------------------------------------------------


def test_running_nodes_prove_their_history(shared: Shell, tmp_path: Path) -> None:
    first = shared.well("remember", "proof", "colour", "red")
    second = shared.well("remember", "proof", "colour", "blue")
    endpoint = shared("status").answer["members"][0]["endpoint"]
    assert shared.well("audit", "verify")["good"]
    [remote] = shared.well("audit", "verify", "--endpoint", endpoint, target=False)["histories"]
    assert (remote["good"], remote["last_index"] >= second["index"]) == (True, True)

    entry = shared.well("audit", "show", str(first["index"]))
    assert [command["body"]["text"] for command in entry["commands"]] == ["red"]
    assert entry["on_behalf"] == "anonymous"

    then = shared.well("audit", "replay", "--to", str(first["index"]), "--out", str(tmp_path / "then"))
    lines = (tmp_path / "then" / "records.jsonl").read_text().splitlines()
    held = {record["id"]: record["text"] for record in map(json.loads, lines)}
    assert (held[first["id"]], then["records"]) == ("red", len(held))

    compared = shared.well("audit", "compare")
    now = shared.well("audit", "replay", "--to", str(compared["index"]), "--out", str(tmp_path / "now"))
    assert (compared["equal"], now["digest"]) == (True, compared["digest"])

    file = tmp_path / "history.vlog"
    shared.well("audit", "export", "--out", str(file))
    assert shared.well("audit", "verify", str(file), target=False)["good"]


def envelope_of(entry: Entry, _: Seal) -> bytes:
    return entry.envelope


def seal_of(_: Entry, seal: Seal) -> bytes:
    return seal.signature


def body_of(entry: Entry, _: Seal) -> bytes:
    assert entry.bodies[0]
    return entry.bodies[0]


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Shell, int]]:
    """A stopped cluster and the index of one of its entries."""
    shell = Shell(tmp_path_factory.mktemp("stopped") / "cluster")
    shell.up()
    index = [shell.well("remember", f"statement {number}")["index"] for number in range(5)][2]
    shell.well("down")
    yield shell, index
    shell("down")


@pytest.mark.parametrize("part", [envelope_of, seal_of, body_of])
def test_a_flipped_byte_in_a_stopped_node_is_named(
    stopped: tuple[Shell, int], part: Callable[[Entry, Seal], bytes], tmp_path: Path
) -> None:
    shell, index = stopped
    copy = tmp_path / "node"
    shutil.copytree(shell.data / "n1", copy)
    flip(copy, index, part)
    done = shell("audit", "verify", str(copy), target=False)
    assert (done.code, done.answer["histories"][0]["bad_index"]) == (DAMAGED, index)


def test_a_damaged_node_fetches_what_it_lacks_and_serves(stopped: tuple[Shell, int]) -> None:
    shell, index = stopped
    flip(shell.data / "n2", index, envelope_of)
    shell.well("up", "--timeout", "60")
    assert shell("status").code == 0
    assert shell.well("remember", "three are there")["outcome"] == "asserted"
    stood = {node["member"]: node for node in shell.well("antientropy", "status")["nodes"]}
    assert stood["n2"]["repairs"] == {"log": 1}
    assert any(f"entry {index} fetched from" in note["text"] for note in stood["n2"]["notes"])
    assert stood["n1"]["repairs"] == {}
    for node in shell.well("antientropy", "run")["nodes"]:
        assert node["failure"] is None
        assert [peer["differing_buckets"] for peer in node["peers"]] == [0, 0]
        assert node["scrub"]["passes"] >= 1
        assert node["scrub"]["done"] == node["scrub"]["total"] > 256
    shell.well("down")
    assert shell("audit", "verify", str(shell.data / "n2"), target=False).code == 0


def flip(directory: Path, index: int, part: Callable[[Entry, Seal], bytes]) -> None:
    """Change one bit in the middle of a part of an entry, in whichever file of the log holds it."""
    log = LogStore.open(directory / "log.db", read_only=True)
    entry, seal = log.entry(index), log.seal(index)
    log.close()
    assert entry is not None
    assert seal is not None
    wanted = part(entry, seal)
    for path in (directory / "log.db-wal", directory / "log.db"):
        raw = bytearray(path.read_bytes()) if path.exists() else bytearray()
        place = raw.rfind(wanted)
        if place >= 0:
            raw[place + len(wanted) // 2] ^= 1
            path.write_bytes(raw)
            return
    raise AssertionError("no file holds these bytes in one piece")


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- looking after it -------------------------------------------------------------------------------------------------


def troubles(report: Any) -> list[str]:
    """What a doctor's report says is in trouble."""
    return [check["what"] for check in report["checks"] if not check["good"]]


def test_the_doctor_examines_a_cluster(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its members, their states and the memory that they keep; by data directory, and as the backend of a program."""
    nodes = shell.up()
    shell.well("remember", "sky", "is", "blue")
    report = shell.well("doctor", "--write")
    found = {check["what"]: check["found"] for check in report["checks"]}
    assert report["good"] is True and {"member n1", "member n2", "member n3"} <= set(found)
    assert "equal at entry" in found["states"] and "on 3 members" in found["states"]
    assert "1 records in 1 scopes" in found["memory"] and "takes a fact" in found["memory"]
    monkeypatch.setenv("VERIDICAL_ENDPOINTS", ",".join(node["endpoint"] for node in nodes))
    monkeypatch.setenv("VERIDICAL_MEMORY_BACKEND", "cluster")
    report = shell.well("doctor", target=False)
    assert (report["backend"], report["chosen_by"]) == ("cluster", "VERIDICAL_MEMORY_BACKEND")
    kill(nodes[0]["pid"])
    done = shell("doctor")
    assert (done.code, troubles(done.answer)) == (1, ["member n1", "cluster"])
    kill(nodes[1]["pid"])
    done = shell("doctor", "--timeout", "2")
    assert (done.code, "cluster" in troubles(done.answer)) == (1, True)


def test_projections_are_folded_again(shell: Shell) -> None:
    """Not while a node runs; afterwards each node's is what it was, and the cluster answers the same."""
    shell.up()
    for number in range(20):
        shell.well("remember", f"s{number}", "is", f"text {number}")
    before = shell.well("recall", "text", "-k", "50")["records"]
    assert shell("reindex").code == 31
    shell.well("down")
    folded = shell.well("reindex")
    assert [done["equal"] for done in folded] == [True, True, True]
    assert {done["records"] for done in folded} == {20}
    shell.up()
    after = shell.well("recall", "text", "-k", "50")["records"]
    texts = [{record["id"]: record["text"] for record in records} for records in (before, after)]
    assert len(texts[0]) == 20 and texts[0] == texts[1]
    assert shell.well("audit", "compare")["equal"] is True
