"""The examples of the document that this product follows, run as they stand there with only the package name changed.

Covered: the local store, lifecycle flags and correction chains, the scope lattice and graduation, principals and signed
writes, fact-bound attestation, conversations and budgeted recall, the failure ledger and its regression guard,
consolidation and revision, the promotion gate, the replicated pair and its reconciler, the registry with the backends
that there are, an embedder, the memory demo (`test_demo_memory.py`) and that of a shared brain
(`tests/process/test_demo_shared_brain.py`).

Not covered, because what they show is not there yet: LanceDB, Postgres, Redis, mem0, `MemoryServer` and `RemoteMemory`
with tokens, TLS, pins and mTLS, the MCP host, `cert_sha256`. Where an example speaks to a server about something that
is there, its calls are made here on a memory of this process.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from veridical.fleet import InMemoryLeaseStore
from veridical.memory import (
    AntiEntropy,
    EvalCase,
    FailureLedger,
    HeldOutCorpus,
    LocalMemory,
    MemoryKind,
    MemoryRecord,
    Principal,
    PromotionGate,
    ReplicatedMemory,
    ScopeLattice,
    Trust,
    consolidate_failures,
    correction_chain,
    graduate,
    induce_hierarchy,
    known_backends,
    lattice_recall,
    librarian_pass,
    load_backend,
    make_id,
    propagate_revision,
    recall_budgeted,
    regression_report,
    remember_conversation,
    revise_with_counterexample,
)
from veridical.memory.errors import Invalid
from veridical.memory.view import make_key
from veridical.verdict import Finding, Report, Runner, Verdict, attest_fact, signed_report, verify_fact_attestation
from veridical.verdict.runner import SEED_VARIABLE, default_runner

CLAIM = "sessions are JWT, 15-min expiry"


@pytest.fixture(autouse=True)
def at_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """What a reader's machine has: a store and a runner of its own."""
    monkeypatch.setenv("VERIDICAL_MEMORY_STORE", str(tmp_path / "brain.db"))
    monkeypatch.setenv(SEED_VARIABLE, "7a" * 32)


@pytest.fixture
def mem() -> Iterator[LocalMemory]:
    """`LocalMemory()`, as most examples begin."""
    with LocalMemory() as mem:
        yield mem


def verified(mem: LocalMemory, scope: str) -> None:
    """The policy, verified in that scope."""
    record = MemoryRecord(subject="logging", predicate="policy", text="json lines to stdout", scope=scope)
    mem.approve(mem.write(record).id)


def test_the_local_store(mem: LocalMemory) -> None:
    """The question shares no word with the fact, so that words alone do not find it; a word of it does."""
    mem.write(
        MemoryRecord(
            kind=MemoryKind.FACT, subject="auth", predicate="uses", text=CLAIM, scope="repo:app",
            subj_pred_key=make_key("auth", "uses", "repo:app"),
        )
    )  # fmt: skip
    assert mem.recall("how does login work", scope="repo:app", k=3) == []
    assert [(hit.trust.value, hit.text) for hit in mem.recall("sessions", scope="repo:app", k=3)] == [
        ("candidate", CLAIM)
    ]


def test_the_local_store_by_meaning(tmp_path: Path) -> None:
    """The same question of the same fact is answered where the model that ships with the product is chosen."""
    with LocalMemory(tmp_path / "brain.db", embedder="local") as mem:
        mem.write(
            MemoryRecord(
                kind=MemoryKind.FACT, subject="auth", predicate="uses", text=CLAIM, scope="repo:app",
                subj_pred_key=make_key("auth", "uses", "repo:app"),
            )
        )  # fmt: skip
        assert [hit.text for hit in mem.recall("how does login work", scope="repo:app", k=3)] == [CLAIM]


def test_the_registry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The backends that there are; the others of the document come with what they need."""
    monkeypatch.setenv("VERIDICAL_MEMORY_STORE", str(tmp_path / "brain.db"))
    assert {"local", "cluster"} <= set(known_backends())
    brain = load_backend("local")
    written = brain.write(MemoryRecord(subject="auth", predicate="uses", text=CLAIM, scope="repo:app"))
    assert [hit.id for hit in brain.recall("sessions", scope="repo:app", k=3)] == [written.id]
    with pytest.raises(Invalid, match="known are"):
        load_backend("lancedb")
    assert isinstance(brain, LocalMemory)
    brain.close()


def test_lifecycle_flags(mem: LocalMemory) -> None:
    """Pin, volatile, time to live; then a new value, with the old one in the chain."""
    r = mem.write(
        MemoryRecord(
            kind=MemoryKind.FACT, subject="branch", predicate="is", text="current branch is feature/x",
            scope="repo:app", subj_pred_key=make_key("branch", "is", "repo:app"),
        )
    )  # fmt: skip
    mem.pin(r.id)
    mem.unpin(r.id)
    mem.set_flags(r.id, volatile=True)
    mem.set_flags(r.id, ttl_s=3600)
    mem.write(
        MemoryRecord(
            kind=MemoryKind.FACT, subject="branch", predicate="is", text="current branch is main",
            scope="repo:app", subj_pred_key=make_key("branch", "is", "repo:app"),
        )
    )  # fmt: skip
    found = mem.get(r.id)
    assert found is not None
    assert [c["text"] for c in correction_chain(found)] == ["current branch is feature/x"]
    assert found.updated_at is not None
    assert mem.decay(half_life_s=604800.0, now=found.updated_at.timestamp()) == 0


def test_the_scope_lattice(mem: LocalMemory) -> None:
    """Down: itself, its team, everybody, and no sibling. Up: what both siblings verified, as a candidate."""
    for scope in ("repo:a", "repo:b", "global"):
        verified(mem, scope)
    lat = ScopeLattice({"repo:a": "team:f", "repo:b": "team:f", "team:f": "global"})
    hits = lattice_recall(mem, "logging policy", scope="repo:a", lattice=lat, k=4)
    assert [hit.scope for hit in hits] == ["repo:a", "global"]
    grad = graduate(mem, parent="team:f", children=["repo:a", "repo:b"], min_scopes=2)
    assert [(lifted.scope, lifted.trust) for lifted in grad if isinstance(lifted, MemoryRecord)] == [
        ("team:f", Trust.CANDIDATE)
    ]
    hits = lattice_recall(mem, "logging policy", scope="repo:a", lattice=lat, k=4)
    assert {hit.scope for hit in hits} == {"repo:a", "team:f", "global"}


def test_principals_and_signed_writes(tmp_path: Path) -> None:
    """The operator enrolls a public key; what its holder signs enters as a candidate, and names the key as author."""
    seed = secrets.token_bytes(32)
    alice = Principal(seed)
    key_id, pub = alice.enroll()
    operator = Principal.generate()
    with LocalMemory(tmp_path / "team.db", principal=operator) as client:
        client.enroll(operator, grants={"*": ["read", "write", "review", "attest", "vouch", "admin"]})
        client.enroll(key_id, pub, grants={"team:platform": ["read", "write"]})
        res = client.remember_signed(alice, subject="auth", predicate="uses", scope="team:platform", text=CLAIM)
    assert (res["authenticated"], res["written"], res["author"], res["reason"]) == (
        True, True, key_id, "written as candidate (authenticated)",
    )  # fmt: skip


def test_fact_bound_attestation(mem: LocalMemory) -> None:
    """A trusted grader's receipt about this very claim, bound to a signed write; anybody can check it again."""
    alice = Principal.generate()
    runner: Runner = default_runner()
    reports = [signed_report(Report(grader="eval", verdict=Verdict.PASS), runner)]
    receipt = attest_fact(Verdict.PASS, reports, subject="auth", predicate="uses", text=CLAIM)
    res = mem.remember_signed(
        alice, subject="auth", predicate="uses", scope="team:platform", text=CLAIM, evidence=receipt.model_dump()
    )
    assert res["reverified"]
    assert res["reason"] == "verified by a fact-bound attestation"
    assert verify_fact_attestation(receipt, "auth", "uses", CLAIM, allowed_algs={"ed25519"})
    assert not verify_fact_attestation(receipt, "auth", "uses", "sessions are cookies", allowed_algs={"ed25519"})


def test_conversational_memory(mem: LocalMemory) -> None:
    """A single say-so is a candidate; a second authenticated principal verifies it; then what fits the budget."""

    def my_llm(prompt: str) -> str:
        value = "light mode" if "light mode" in prompt else "dark mode"
        return f'[{{"subject": "Dana", "predicate": "prefers", "text": "{value}"}}]'

    remember_conversation(mem, "I'm Dana and I prefer dark mode", scope="user:dana", chat=my_llm)
    prefers = make_id(make_key("Dana", "prefers", "user:dana"))

    def held() -> tuple[str, str]:
        found = mem.get(prefers)
        assert found is not None
        return found.text, found.trust.value

    assert held() == ("dark mode", "candidate")
    for token in ("alice's", "bob's"):
        remember_conversation(
            mem, "Dana prefers dark mode", scope="user:dana", chat=my_llm, authenticate=str.upper, source=token
        )
    assert held() == ("dark mode", "verified")
    remember_conversation(
        mem, "actually, light mode", scope="user:dana", chat=my_llm, authenticate=str.upper, source="bob's"
    )
    assert held() == ("light mode", "candidate")

    ctx = recall_budgeted(mem, "Dana preferences", scope="user:dana", token_budget=200)
    print(ctx.text, "|", ctx.used_tokens, "tokens,", ctx.dropped, "dropped")
    assert "- Dana prefers: light mode" in ctx.text
    assert (ctx.used_tokens <= 200, ctx.dropped) == (True, 0)


def test_the_failure_ledger(mem: LocalMemory) -> None:
    """What was fixed and is back fails the gate, by memory alone."""
    fail_report = Report(
        grader="vision",
        verdict=Verdict.FAIL,
        findings=(Finding(kind="overflow", message="card overflows by 12px", fingerprint="<fingerprint>"),),
    )
    new_report = fail_report

    ledger = FailureLedger(mem, scope="repo:app")
    ledger.record(fail_report)
    assert regression_report(ledger.check_regressions(new_report)).verdict is Verdict.PASS
    ledger.mark_fixed(["<fingerprint>"])

    hits = ledger.check_regressions(new_report)
    gate = regression_report(hits)
    print(gate.verdict, gate.summary)
    assert (gate.verdict, gate.summary) == (Verdict.FAIL, "1 fixed failure came back: overflow")


def test_consolidation_and_revision(mem: LocalMemory) -> None:
    """Rules, levels, a pass of the librarian; then a rule is weakened and split, and what is above it follows."""
    found = [
        Finding(kind=f"layout.{kind}", message=f"the {what} {kind}s")
        for kind in ("overflow", "clip")
        for what in ("card", "menu")
    ]
    fail_report = Report(grader="vision", verdict=Verdict.FAIL, findings=tuple(found))
    FailureLedger(mem, scope="repo:app").record(fail_report)

    rules = consolidate_failures(mem, scope="repo:app", min_cluster=2)
    levels = induce_hierarchy(mem, scope="repo:app", min_size=2)
    report = librarian_pass(mem, scope="repo:app", children=["repo:a", "repo:b"])
    print(report.summary())
    assert {record.trust for record in (*rules, *levels)} == {Trust.CANDIDATE}
    assert (len(rules), len(levels)) == (2, 1)
    assert report.summary() == "librarian[repo:app]: +0 rules, +0 schemas, +0 graduated, -0 pruned"

    rule = rules[0]
    for counterexample, action in (("a printed card", "weakened"), ("a map", "split")):
        rev = revise_with_counterexample(mem, rule, counterexample, split_after=2)
        assert rev.action == action
    assert rev.narrowed is not None and rev.exception is not None
    assert [schema.id for schema in rev.schemas] == [levels[0].id]
    assert propagate_revision(mem, rev.rule_id) == []


def test_the_promotion_gate(mem: LocalMemory) -> None:
    """A rule about overflow acts on the case that it should, and not on the other one."""
    rule = mem.write(
        MemoryRecord(
            kind=MemoryKind.DESIGN_RULE, subject="overflow", predicate="design_rule", scope="repo:app",
            text="when a card overflows: use max-width",
            detail={"condition": "a card overflows", "action": "use max-width", "covers_kind": "overflow"},
        )
    )  # fmt: skip
    corpus = HeldOutCorpus([
        EvalCase(text="a card overflows the viewport on a 320px screen",
                 covers_kind="overflow", label="prevent"),
        EvalCase(text="the layout is fine on desktop", covers_kind="overflow", label="allow"),
    ])  # fmt: skip
    result = PromotionGate(mem, corpus).consider(rule)
    print(result.promoted, round(result.f1, 2), result.reason)
    assert (result.promoted, round(result.f1, 2)) == (True, 1.0)


def test_the_replicated_pair() -> None:
    """A follower, and a leader that names it: what the one writes the other reads."""
    leases = InMemoryLeaseStore()
    follower = ReplicatedMemory(LocalMemory(), leases=leases, cluster_key="brain", owner="B")
    leader = ReplicatedMemory(
        LocalMemory(), leases=leases, cluster_key="brain", owner="A", peers=[follower], write_quorum=1
    )
    with follower, leader:
        written = leader.write(MemoryRecord(subject="oncall", predicate="policy", text="page the owning team first"))
        found = follower.get(written.id, consistency="strong")
        reconciled = AntiEntropy(leader, follower).run_once()
    assert found is not None
    assert found.text == "page the owning team first"
    assert {name: [peer.differing for peer in standing.peers] for name, standing in reconciled.items()} == {
        "A": [0], "B": [0],
    }  # fmt: skip
