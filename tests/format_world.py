"""Writes a memory with something of every kind in it, to be opened by all later versions.

Run `.venv/bin/python tests/format_world.py NAME` once for each format that is released, and never again for the same:
what lies in a folder here was written by the version of its day, and the tests open it as it is. The keys in it are
known to everybody.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from veridical.log.canonical import decode
from veridical.log.store import LogStore
from veridical.memory import LocalMemory, MemoryKind, MemoryRecord, Principal
from veridical.memory.errors import Refused
from veridical.projection.projection import Projection
from veridical.security.keys import KeyPair
from veridical.verdict import Report, Runner, Verdict, attest_fact, signed_report

HERE = Path(__file__).parent / "formats"
STORE, EXPECTED = "brain.db", "expected.json"
LEFT_OUT = (".projection", ".lock", "-wal", "-shm")
ADMIN, ALICE, BOB, NEXT = (Principal(bytes([number]) * 32) for number in (1, 2, 3, 4))
GRADER = Runner(KeyPair(b"g" * 32))
EVERYTHING = ("read", "write", "review", "attest", "vouch", "admin")


def fact(subject: str, text: str, predicate: str = "is", scope: str = "team", **rest: Any) -> MemoryRecord:
    """A record to write."""
    return MemoryRecord(subject=subject, predicate=predicate, text=text, scope=scope, **rest)


def happen(path: Path) -> None:
    """Everything that can."""
    with LocalMemory(path) as open_memory:
        open_memory.write(fact("before", "principals"))
        open_memory.set_scope_parent("team", "org")
        open_memory.set_multi_valued("person:*", "likes")
        for text in ("tea", "coffee"):
            open_memory.write(fact("Dana", text, "likes", "person:dana"))
    with LocalMemory(path, principal=ADMIN) as admin:
        admin.enroll(ADMIN, name="the administrator", grants={"*": EVERYTHING})
        admin.enroll(ALICE, grants={"*": ["read", "write"]})
        admin.enroll(BOB, grants={"team": ["read", "write"]})
        admin.enroll(Principal(b"g" * 32), grants={"*": "attest"})
        admin.grant(BOB, "org", "read")
        admin.ungrant(BOB, "org", "read")
        with LocalMemory(path, principal=ALICE) as alice, LocalMemory(path, principal=BOB) as bob:
            _statements(admin, alice, bob)
            _judgements(admin, alice, bob)
            _sources(admin, alice, bob)
        admin.rotate(ALICE, NEXT)
        admin.revoke(BOB, reason="left")


def _statements(admin: LocalMemory, alice: LocalMemory, bob: LocalMemory) -> None:
    first = alice.write(fact("home", "Lisbon"))
    alice.write(fact("home", "Lisbon"))
    bob.write(fact("home", " LISBON ", ttl_s=10**9))
    alice.write(fact("home", "Porto"))
    alice.write(fact("food", "rice"))
    alice.write(fact("food", "Rice"))
    bob.write(fact("home", "Faro"))
    alice.annotate(first.id, metadata={"seen": True})
    alice.set_flags(first.id, volatile=True, ttl_s=10**9)
    alice.pin(first.id)
    alice.unpin(first.id)
    alice.corroborate(first.id)
    bob.contradict(first.id, evidence="none")
    gone = alice.write(fact("gone", "forgotten"))
    alice.forget(gone.id, reason="asked")
    undone = alice.write(fact("undone", "twice"))
    admin.undo(undone.id, alice.forget(undone.id).event, reason="a mistake")
    bob.withdraw(bob.write(fact("unsaid", "by bob")).id)
    secret = alice.write(fact("secret", "swordfish", scope="person:dana"))
    admin.erase(secret.id, reason="asked")
    old = alice.write(fact("typo", "teh"))
    alice.correct(old.id, "the")


def _judgements(admin: LocalMemory, alice: LocalMemory, bob: LocalMemory) -> None:
    seen = alice.write(fact("seen", "by a reviewer"))
    admin.approve(seen.id)
    bob.write(fact("seen", "otherwise"))
    [contended] = [item for item in admin.review_queue(scope="team") if item.record.id == seen.id]
    admin.reject(seen.id, value=contended.contenders[0].value, reason="no")
    admin.edit(seen.id, "by two reviewers", reason="clearer")
    other = alice.write(fact("other", "is held"))
    admin.approve(other.id)
    bob.write(fact("other", "is better"))
    [contended] = [item for item in admin.review_queue(scope="team") if item.record.id == other.id]
    admin.approve(other.id, value=contended.contenders[0].value)
    for _ in range(2):
        admin.pin(other.id)
    wrong = alice.write(fact("wrong", "a value"))
    admin.reject(wrong.id, reason="no")
    admin.revoke_rejection(wrong.id, reason="yes")
    for verb in (admin.promote, admin.demote):
        verb(alice.write(fact("step", "up and down")).id, reason="seen")
    for writer in (alice, bob):
        writer.write(fact("both", "say so"))
    claim = fact("claim", "passes")
    told = alice.write(claim)
    report = signed_report(Report(grader="eval", verdict=Verdict.PASS), GRADER)
    receipt = attest_fact(
        Verdict.PASS, [report], subject="claim", predicate="is", text="passes", scope="team", runner=GRADER
    )
    admin.attest(told.id, receipt)
    failure = alice.write(fact("build", "breaks", "fails_with", kind=MemoryKind.FAILURE))
    admin.mark_fixed(failure.id)


def _sources(admin: LocalMemory, alice: LocalMemory, bob: LocalMemory) -> None:
    turn = alice.remember_episode("Dana: I moved to Porto.", scope="team")
    alice.remember_episode("Bo: Nice!", scope="team", follows=turn)
    alice.write(fact("derived", "from a turn", derived_from=[turn.id]))
    premise = alice.write(fact("premise", "holds"))
    alice.write(fact("conclusion", "follows", derived_from=[premise.id]))
    alice.forget(premise.id)
    alice.write(fact("fading", "soon", ttl_s=0.001))
    alice.recall("Porto")
    alice.decay()
    try:
        bob.write(fact("elsewhere", "not granted", scope="org"))
    except Refused:
        return
    raise AssertionError("Bob may write what he was not granted")


def kinds_in(store: LogStore) -> set[str]:
    """The kinds of all events."""
    return {kind for entry, _ in store.history() for kind in _kinds(decode(entry.events))}


def _kinds(items: Any) -> Iterator[str]:
    for item in items:
        if isinstance(item[0], bytes):  # decided here, and no repetition of an earlier command
            yield from (event[0] for event in item[1:])


def expected(path: Path) -> dict[str, Any]:
    """What must be found in it."""
    store = LogStore.open(path, read_only=True)
    try:
        projection = Projection.rebuild(":memory:", store, store.last.index)
        reader = projection.reader()
        records = [record for page in reader.all(0) for record in page.records]
        found = {
            "index": store.last.index,
            "digest": reader.digest().hex(),
            "kinds": sorted(kinds_in(store)),
            "records": [[record.id.hex(), record.text, record.trust] for record in records],
        }
        projection.close()
        return found
    finally:
        store.close()


def main(name: str) -> None:
    """Write the folder of that name."""
    target = HERE / name
    if target.exists():
        raise SystemExit(f"{target} is there already, and stays as it is")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / STORE
        happen(path)
        found = expected(path)
        target.mkdir()
        for file in Path(folder).iterdir():
            if not file.name.endswith(LEFT_OUT):
                shutil.copy(file, target / file.name)
        (target / EXPECTED).write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main(sys.argv[1])
