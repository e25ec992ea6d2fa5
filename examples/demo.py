"""Three nodes take what this interpreter knows of itself, lose their leader half-way, and prove that they lost no more.

Run it with `make demo`. Unless all is as it tells, it ends with another exit code than 0; it leaves nothing behind.
"""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, distributions
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from veridical.memory import make_id, make_key

SCOPE = "host:python"
FILES_A_DISTRIBUTION = 150
FACTS_AT_LEAST = 1000
KILL_AFTER_SHARE = 0.3
"""The leader dies once so much of the import has been acknowledged."""

MODES = ("local", "session", "strong", "quorum")
POLL_S = 0.005
STEP_TIMEOUT_S = 60
VERIDICAL = (sys.executable, "-P", "-m", "veridical.cli.main")


class Failed(Exception):
    """Something is not as this story tells it."""


class Fact(NamedTuple):
    """Something true about this interpreter."""

    subject: str
    predicate: str
    text: str


# --- real facts ------------------------------------------------------------------------------------------------------


def facts() -> list[Fact]:
    """What is installed, of which files, and what the standard library says of itself; each thing once."""
    found: dict[str, Fact] = {}
    for fact in (*distribution_facts(), *module_facts()):
        found.setdefault(make_key(fact.subject, fact.predicate, SCOPE), fact)
    return list(found.values())


def distribution_facts() -> Iterator[Fact]:
    """Version, summary, requirements and files of every installed distribution."""
    for distribution in distributions():
        name = distribution.metadata["Name"]
        yield Fact(name, "version", distribution.version)
        if distribution.metadata["Summary"]:
            yield Fact(name, "summary", distribution.metadata["Summary"])
        for requirement in distribution.requires or ():
            yield Fact(name, f"requires {requirement.split(';')[0].strip()}", requirement)
        yield from file_facts(name, distribution)


def file_facts(name: str, distribution: Distribution) -> Iterator[Fact]:
    """The first files that a distribution installed."""
    for file in (distribution.files or [])[:FILES_A_DISTRIBUTION]:
        size = f", {file.size} bytes" if file.size is not None else ""
        yield Fact(str(file), "installed by", f"{name} {distribution.version}{size}")


def module_facts() -> Iterator[Fact]:
    """The first line of documentation of every module of the standard library, read without importing it."""
    for name in sorted(sys.stdlib_module_names):
        line = first_line(PathFinder.find_spec(name))
        if line:
            yield Fact(f"module {name}", "documentation", line)


def first_line(spec: ModuleSpec | None) -> str:
    """The first line of a module's docstring, or nothing."""
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return ""
    try:
        text = ast.get_docstring(ast.parse(Path(spec.origin).read_bytes()))
    except (OSError, SyntaxError):
        return ""
    return (text or "").strip().partition("\n")[0]


def write_jsonl(path: Path, found: list[Fact]) -> None:
    """The file that `veridical import` reads."""
    with path.open("w") as file:
        for fact in found:
            file.write(json.dumps({**fact._asdict(), "scope": SCOPE}) + "\n")


# --- the command line, as anybody would use it -----------------------------------------------------------------------


def veridical(*arguments: str, may_fail: bool = False) -> Any:
    """What a verb answers in JSON."""
    command = [*VERIDICAL, *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False)
    if done.returncode and not may_fail:
        raise Failed(f"veridical {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def expect(condition: bool, otherwise: str) -> None:
    """Go on only if it is so."""
    if not condition:
        raise Failed(otherwise)


def tell(text: str) -> None:
    """A line of the story."""
    print(f"{time.monotonic() - BEGUN:5.1f} s  {text}", flush=True)


BEGUN = time.monotonic()


# --- the story -------------------------------------------------------------------------------------------------------


def story(directory: Path, stack: ExitStack) -> None:
    """All of it. Raises `Failed`, or whatever the verbs of the command line could not do."""
    data, file = directory / "cluster", directory / "facts.jsonl"
    found = facts()
    expect(len(found) >= FACTS_AT_LEAST, f"only {len(found)} facts: is this an interpreter without a library?")
    write_jsonl(file, found)
    tell(f"{len(found)} facts about Python {sys.version.split()[0]}: what is installed, its files, its documentation")

    stack.callback(stopped, data)
    nodes = veridical("up", "--data", str(data), "--base-port", "0")["nodes"]
    leader = leader_of(data)
    tell(f"three nodes are up, processes {', '.join(str(node['pid']) for node in nodes)}; {leader['name']} leads")

    killed_after, gap_s, report = import_and_kill(data, file, len(found), leader)
    tell(f"{leader['name']} was killed (SIGKILL) after {killed_after} facts; the next ones were in {gap_s:.2f} s later")
    expect(sum(report["outcomes"].values()) == len(found), f"not every fact was answered: {report}")
    expect(report["outcomes"] == {"asserted": len(found)}, f"not every fact was asserted once: {report['outcomes']}")
    tell(f"all {len(found)} facts are acknowledged, each asserted exactly once, up to index {report['last_index']}")

    successor = leader_of(data)
    expect(successor["id"] != leader["id"] and successor["epoch"] > leader["epoch"], "nobody took over")
    read_in_every_mode(data, found[-1])
    tell(f"with one node dead, {found[-1].subject!r} reads the same in the modes {', '.join(MODES)}")

    veridical("up", "--data", str(data))
    tell(f"{leader['name']} is back and has caught up; {leader_of(data)['name']} leads")
    compared = veridical("audit", "compare", "--data", str(data))
    expect(compared["equal"], f"the nodes differ: {compared}")
    tell(f"the three nodes hold the same state at index {compared['index']}: digest {compared['digest'][:16]}…")

    verified = veridical("audit", "verify", "--data", str(data))
    expect(verified["good"] and len(verified["histories"]) == len(nodes), f"a history does not verify: {verified}")
    seals = verified["histories"][0]["seals"]
    tell(f"each node's history verifies: chain, {seals} seals, signatures, bodies, files")

    tell(replay_story(data, directory, found, compared))
    tell(tamper_story(data, Path(nodes[0]["data"])))


def leader_of(data: Path) -> Any:
    """The member that leads now."""
    status = veridical("status", "--data", str(data), may_fail=True)
    leaders = [member for member in status["members"] if member["role"] == "leader"]
    expect(len(leaders) == 1, f"there is not one leader: {status}")
    return leaders[0]


def import_and_kill(data: Path, file: Path, count: int, leader: Any) -> tuple[int, float, Any]:
    """Import the file, and kill the leader half-way.

    Returns what was acknowledged then, the longest time in seconds from one acknowledgement to the next from then on,
    and the import's report.
    """
    command = [*VERIDICAL, "import", str(file), "--data", str(data), "--json"]
    importing = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        resume = file.with_name(file.name + ".resume")
        while (answered := answered_facts(resume)) < count * KILL_AFTER_SHARE:
            expect(importing.poll() is None, "the import ended before the leader could be killed")
            time.sleep(POLL_S)
        os.kill(leader["pid"], signal.SIGKILL)
        gap_s = longest_gap_s(importing, resume)
        output, complaints = importing.communicate(timeout=STEP_TIMEOUT_S)
    finally:
        importing.kill()
        importing.wait()
    expect(importing.returncode == 0, f"the import ended with {importing.returncode}: {complaints.strip()}")
    expect(answered < count, "the import was over before the leader died")
    return answered, gap_s, json.loads(output)


def longest_gap_s(importing: subprocess.Popen[str], resume: Path) -> float:
    """Wait for the end of the import; the longest time that passed without an acknowledgement, in seconds."""
    known, longest_s, since = answered_facts(resume), 0.0, time.monotonic()
    while importing.poll() is None:
        answered = answered_facts(resume)
        if answered > known:
            longest_s = max(longest_s, time.monotonic() - since)
            known, since = answered, time.monotonic()
        time.sleep(POLL_S)
    return longest_s


def answered_facts(resume: Path) -> int:
    """How many facts the import knows to be in, by its resume file."""
    try:
        lines = resume.read_text().splitlines()
    except FileNotFoundError:
        return 0
    return max((json.loads(line)["answered"] for line in lines if line.startswith('{"answered"')), default=0)


def read_in_every_mode(data: Path, fact: Fact) -> None:
    """The same fact by every promise that a read can make."""
    for mode in MODES:
        read = ("--read", mode, "--scope", SCOPE, "--data", str(data))
        record = veridical("get", fact.subject, fact.predicate, *read)
        expect(record is not None and record["text"] == fact.text.strip(), f"a {mode} read answers {record}")


def replay_story(data: Path, directory: Path, found: list[Fact], compared: Any) -> str:
    """Fold history again: to its end, where it must give the digest that the nodes have, and to its middle."""
    whole = veridical(
        "audit", "replay", "--to", str(compared["index"]), "--out", str(directory / "whole"), "--data", str(data)
    )
    expect(whole["digest"] == compared["digest"], "history folds to another state than the nodes have")
    lines = (directory / "whole" / "records.jsonl").read_text().splitlines()
    ids = {make_id(make_key(fact.subject, fact.predicate, SCOPE)) for fact in found}
    expect({json.loads(line)["id"] for line in lines} == ids, "the folded records are not the facts that were imported")
    earlier = str(compared["index"] // 2)
    half = veridical("audit", "replay", "--to", earlier, "--out", str(directory / "half"), "--data", str(data))
    expect(0 < half["records"] < len(found), f"the state at index {earlier} is {half}")
    return f"folded again from the log: the same digest; and at index {earlier} there were {half['records']} facts"


def tamper_story(data: Path, node: Path) -> str:
    """Change one letter of one fact in the files of a stopped node: the audit names the entry."""
    stopped(data)
    log = node / "log.db"
    raw = bytearray(log.read_bytes())
    place = raw.find(b"installed by")
    expect(place > 0, "there is no fact in the log")
    raw[place] ^= 0x20
    log.write_bytes(raw)
    verified = veridical("audit", "verify", str(node), may_fail=True)
    bad = verified["histories"][0]["bad_index"]
    expect(not verified["good"] and bad is not None, "a changed letter went unnoticed")
    return f"one letter changed in the log of a stopped node: the audit names entry {bad}"


def stopped(data: Path) -> None:
    """No process of the cluster is left."""
    veridical("down", "--data", str(data))


def main() -> int:
    """Tell the story; 0 if all of it is true."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="veridical-demo-") as directory, ExitStack() as stack:
            story(Path(directory), stack)
    except (Failed, subprocess.TimeoutExpired) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    tell("all nodes are stopped and nothing is left behind")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
