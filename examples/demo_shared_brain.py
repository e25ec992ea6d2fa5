"""A fleet shares one memory on three nodes: who may believe what, what holds for whom, and a leader that dies.

Run it with `python examples/demo_shared_brain.py`. Offline and unattended; unless all is as it tells, it ends with
another exit code than 0. It starts its nodes itself, on ports that are free, and leaves nothing behind.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from veridical.client import ConnectedMemory
from veridical.memory import (
    FailureLedger,
    MemoryRecord,
    Principal,
    ReplicatedMemory,
    ScopeLattice,
    Trust,
    graduate,
    lattice_recall,
    librarian_pass,
)
from veridical.memory.errors import Refused, VeridicalError
from veridical.security.keys import KeyPair
from veridical.verdict import Finding, Report, Runner, Verdict, attest_fact, signed_report

VERIDICAL = (sys.executable, "-P", "-m", "veridical.cli.main")
STEP_TIMEOUT_S = 60
LATTICE = ScopeLattice({"repo:a": "team:f", "repo:b": "team:f", "team:f": "global"})
POLICY = "json lines to stdout"
CLAIM = "sessions are JWT, 15-min expiry"


class Failed(Exception):
    """Something is not as this story tells it."""


class Fleet(NamedTuple):
    """Who shares the memory: each a key of its own, and a connection that signs with it."""

    operator: ConnectedMemory
    alice: ConnectedMemory
    bob: ConnectedMemory
    keys: dict[str, Principal]


def expect(condition: bool, otherwise: str) -> None:
    """Go on only if it is so."""
    if not condition:
        raise Failed(otherwise)


# --- the nodes, as anybody would run them ----------------------------------------------------------------------------


def veridical(*arguments: str, signer: Principal | None = None) -> Any:
    """What a verb of the command line answers in JSON; whoever signs it is told by the environment."""
    command = [*VERIDICAL, *arguments, "--json"]
    environment = dict(os.environ) | ({"VERIDICAL_PRINCIPAL_SEED": signer.seed.hex()} if signer else {})
    done = subprocess.run(command, capture_output=True, text=True, timeout=STEP_TIMEOUT_S, check=False, env=environment)
    if not done.stdout:
        raise Failed(f"veridical {' '.join(arguments)} ended with {done.returncode}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def leader_of(data: Path) -> Any:
    """The member that leads now."""
    leaders = [member for member in veridical("status", "--data", str(data))["members"] if member["role"] == "leader"]
    expect(len(leaders) == 1, f"there is not one leader: {leaders}")
    return leaders[0]


@contextmanager
def fleet(endpoints: list[str]) -> Generator[Fleet]:
    """Everybody connected. Reads are strong: what one has written the next one reads, whichever node is asked."""
    keys = {name: Principal(secrets.token_bytes(32)) for name in ("operator", "alice", "bob", "grader")}
    with ExitStack() as stack:
        opened = {
            name: stack.enter_context(
                ReplicatedMemory.connect(endpoints, principal=keys[name], read_consistency="strong", timeout_s=10)
            )
            for name in ("operator", "alice", "bob")
        }
        yield Fleet(**opened, keys=keys)


def enroll(those: Fleet) -> None:
    """The operator trusts these keys from now on; only what is granted happens."""
    everything = ["read", "write", "review", "attest", "vouch", "admin"]
    those.operator.enroll(those.keys["operator"], name="operator", grants={"*": everything})
    for name in ("alice", "bob"):
        those.operator.enroll(*those.keys[name].enroll(), name=name, grants={"*": ["read", "write"]})
    those.operator.enroll(those.keys["grader"], name="grader", grants={"*": ["attest"]})


# --- the story -------------------------------------------------------------------------------------------------------


def verified_by_both(those: Fleet, subject: str, predicate: str, text: str, scope: str) -> MemoryRecord:
    """Alice says it, then Bob on his own: two principals are enough, one was not."""
    claim = MemoryRecord(subject=subject, predicate=predicate, text=text, scope=scope)
    expect(those.alice.write(claim).trust is Trust.CANDIDATE, "one say-so was believed")
    record = those.bob.write(claim)
    expect(record.trust is Trust.VERIFIED, f"two principals said so, and it is {record.trust}")
    return record


def resolve_down(those: Fleet) -> None:
    """A scope sees itself and all that it lies within, and no sibling."""
    print("== 1) resolve down: a repository sees itself, its team and everybody — the most specific first ==")
    for scope in ("repo:a", "repo:b", "global"):
        verified_by_both(those, "logging", "policy", POLICY, scope)
    hits = lattice_recall(those.alice, "logging policy", scope="repo:a", lattice=LATTICE, k=4)
    for hit in hits:
        print(f"   [{hit.scope}] {hit.trust}: {hit.text}")
    expect([hit.scope for hit in hits] == ["repo:a", "global"], f"found in {[hit.scope for hit in hits]}")


def graduate_up(those: Fleet) -> None:
    """What siblings verified on their own is lifted as a candidate."""
    print("== 2) graduate up: verified in both repositories -> a CANDIDATE of the team, which must earn it again ==")
    lifted = graduate(those.alice, parent="team:f", children=["repo:a", "repo:b"], min_scopes=2)
    records = [record for record in lifted if isinstance(record, MemoryRecord)]
    for record in records:
        print(f"   [{record.scope}] {record.trust}: {record.text}")
    expect([(one.scope, one.trust) for one in records] == [("team:f", Trust.CANDIDATE)], f"lifted: {records}")
    scopes = [hit.scope for hit in lattice_recall(those.bob, "logging policy", scope="repo:a", lattice=LATTICE, k=4)]
    expect(set(scopes) == {"repo:a", "team:f", "global"}, f"found in {scopes}")


def cross_agent_trust(those: Fleet) -> None:
    """Nobody is believed for saying so; evidence about this very claim is, and what is verified is not displaced."""
    print("== 3) cross-agent trust: say-so is never enough, evidence is ==")
    boast = those.alice.write(
        MemoryRecord(subject="auth", predicate="uses", text=CLAIM, scope="team:f", trust=Trust.VERIFIED)
    )
    print(f"   alice claims it is verified -> trust={boast.trust}, ignored: {', '.join(boast.ignored)}")
    expect((boast.trust, boast.ignored) == (Trust.CANDIDATE, ["trust"]), "a claim of trust was believed")

    grader = Runner(KeyPair(those.keys["grader"].seed))
    report = signed_report(Report(grader="eval", verdict=Verdict.PASS), grader)
    receipt = attest_fact(Verdict.PASS, [report], subject="auth", predicate="uses", text=CLAIM, runner=grader)
    signed = those.alice.remember_signed(
        those.keys["alice"], subject="auth", predicate="uses", scope="team:f", text=CLAIM, evidence=receipt.model_dump()
    )
    print(f"   alice brings a receipt      -> {signed['reason']}")
    expect(signed["reverified"], f"the receipt was not taken: {signed}")

    rival = those.bob.remember_signed(
        those.keys["bob"], subject="auth", predicate="uses", scope="team:f", text="sessions are cookies"
    )
    print(f"   bob says otherwise          -> conflict={rival['conflict']}, written={rival['written']}")
    expect((rival["conflict"], rival["written"]) == (True, False), f"what was verified was displaced: {rival}")

    stranger = Principal.generate()
    try:
        those.bob.remember_signed(stranger, subject="auth", predicate="is", scope="team:f", text="off")
    except Refused as refusal:
        print(f"   a key that nobody enrolled  -> refused: {refusal.rule}")
    else:
        raise Failed("a stranger wrote")

    belief = those.alice.get(boast.id)
    expect(belief is not None and belief.trust is Trust.VERIFIED, f"the receipt left {belief}")
    assert belief is not None
    taken = those.bob.import_belief(belief, "team-f", scope="team:g")
    print(f"   another team imports it     -> trust={taken.trust}  (trust does not travel)")
    expect(taken.trust is Trust.CANDIDATE, "an import was believed")


def librarian(those: Fleet) -> None:
    """Failures become a rule, a candidate like everything that nobody has checked."""
    print("== 4) the librarian: recurring failures -> candidate rules, never trust ==")
    findings = tuple(Finding(kind="layout.overflow", message=f"the {what} overflows") for what in ("card", "menu"))
    FailureLedger(those.alice, scope="repo:a").record(Report(grader="vision", verdict=Verdict.FAIL, findings=findings))
    report = librarian_pass(those.alice, scope="repo:a", children=[])
    print(f"   {report.summary()}")
    expect(report.rules.written == 1, f"{report.rules.written} rules were written")
    expect([rule.trust for rule in report.rules] == [Trust.CANDIDATE], "a rule was believed")


def high_availability(those: Fleet, data: Path, endpoints: list[str]) -> None:
    """The leader is killed. Quorum reads need none, writes wait for the next one, and the nodes agree again."""
    print("== 5) high availability: the leader is killed, and nothing that was acknowledged is lost ==")
    record = verified_by_both(those, "oncall", "policy", "page the owning team first", "team:f")
    leader = leader_of(data)
    os.kill(leader["pid"], signal.SIGKILL)
    print(f"   {leader['name']} led in epoch {leader['epoch']}, and is killed (SIGKILL)")

    with ReplicatedMemory.connect(endpoints, principal=those.keys["bob"], read_consistency="quorum") as reader:
        found = reader.get(record.id)
    expect(found is not None and (found.text, found.trust) == (record.text, Trust.VERIFIED), f"a quorum read {found}")
    assert found is not None
    print(f"   quorum read, no leader needed -> {found.trust}: {found.text}")

    begun = time.monotonic()
    written = those.alice.write(
        MemoryRecord(subject="oncall", predicate="policy", text="page whoever deployed last", scope="team:f")
    )
    waited_s = time.monotonic() - begun
    successor = leader_of(data)
    expect(written.outcome == "superseded", f"the write was {written.outcome}")
    expect(successor["epoch"] > leader["epoch"] and successor["name"] != leader["name"], "nobody took over")
    leads = f"{successor['name']} leads in epoch {successor['epoch']}"
    print(f"   a write, {waited_s:.1f} s later           -> {written.outcome}; {leads}")

    veridical("up", "--data", str(data))
    compared = veridical("audit", "compare", "--data", str(data), signer=those.keys["operator"])
    expect(compared["equal"], f"the nodes differ: {compared}")
    digest = compared["digest"][:16]
    print(f"   {leader['name']} is back                    -> all three nodes hold the same, digest {digest}…")
    verified = veridical("audit", "verify", "--data", str(data))
    expect(verified["good"] and len(verified["histories"]) == len(endpoints), f"a history is not good: {verified}")
    print("   and the history of each of them verifies")


def story(directory: Path, stack: ExitStack) -> None:
    """All of it."""
    data = directory / "cluster"
    stack.callback(veridical, "down", "--data", str(data))
    nodes = veridical("up", "--data", str(data), "--base-port", "0")["nodes"]
    endpoints = [node["endpoint"] for node in nodes]
    with fleet(endpoints) as those:
        enroll(those)
        print(f"three nodes are up ({', '.join(node['name'] for node in nodes)}); alice and bob speak to them")
        resolve_down(those)
        graduate_up(those)
        cross_agent_trust(those)
        librarian(those)
        high_availability(those, data, endpoints)


def main() -> int:
    """Tell the story; 0 if all of it is true."""
    signal.signal(signal.SIGTERM, _interrupt)
    try:
        with tempfile.TemporaryDirectory(prefix="veridical-demo-") as directory, ExitStack() as stack:
            story(Path(directory), stack)
    except (Failed, VeridicalError, subprocess.TimeoutExpired) as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    print("all nodes are stopped and nothing is left behind")
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
