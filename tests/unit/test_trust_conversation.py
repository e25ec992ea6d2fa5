"""Conversations: what is said is a candidate; who says it and what proves it grade it; nothing else does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from veridical.memory import (
    LocalMemory,
    MemoryKind,
    MemoryRecord,
    Principal,
    Trust,
    correction_chain,
    make_id,
    make_key,
)
from veridical.memory.errors import Invalid, Refused
from veridical.memory.fence import fenced, inert_line
from veridical.security.keys import KeyPair
from veridical.trust.chat import Chat
from veridical.trust.conversation import ConversationReport, Grade, remember_conversation
from veridical.verdict import GateReceipt, Report, Runner, Verdict, attest_fact, signed_report
from veridical.verdict.runner import SEED_VARIABLE

SCOPE = "user:dana"
PREFERS = make_id(make_key("Dana", "prefers", SCOPE))
RUNNER = Runner(KeyPair(b"r" * 32))
TOKENS = {"token-of-alice": "alice", "token-of-bob": "bob", "other-token-of-alice": "alice"}


@pytest.fixture
def mem(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalMemory]:
    """A store whose operator opened it, with its runner."""
    monkeypatch.setenv(SEED_VARIABLE, (b"r" * 32).hex())
    with LocalMemory(":memory:") as mem:
        yield mem


def model(*facts: tuple[str, str, str]) -> Chat:
    """One that finds these."""
    answer = json.dumps([{"subject": s, "predicate": p, "text": t} for s, p, t in facts])
    return lambda _: answer


def says(mem: LocalMemory, text: str, source: str = "", authenticated: bool = False) -> ConversationReport:
    """Somebody says what Dana prefers."""
    authenticate = TOKENS.get if authenticated else None
    chat = model(("Dana", "prefers", text))
    return remember_conversation(mem, "…", scope=SCOPE, chat=chat, source=source, authenticate=authenticate)


def preference(mem: LocalMemory) -> MemoryRecord:
    """What is held of it."""
    found = mem.get(PREFERS)
    assert found is not None
    return found


def passed(text: str, scope: str | None = None) -> GateReceipt:
    """A receipt about it."""
    report = signed_report(Report(grader="eval", verdict=Verdict.PASS), RUNNER)
    return attest_fact(
        Verdict.PASS, [report], subject="Dana", predicate="prefers", text=text, scope=scope, runner=RUNNER
    )


def test_what_is_said_once_is_a_candidate(mem: LocalMemory) -> None:
    """Each fact with its grade and its record; the summary counts them."""
    chat = model(("Dana", "prefers", "dark mode"), ("Dana", "role", "platform team lead"))
    report = remember_conversation(mem, "I'm Dana", scope=SCOPE, chat=chat)
    assert report.summary() == "remember: 0 verified, 2 candidate, 0 superseded, 0 refused"
    assert [graded.grade for graded in report.facts] == [Grade.CANDIDATE] * 2
    assert all(graded.record and graded.record.trust is Trust.CANDIDATE for graded in report.facts)
    assert preference(mem).text == "dark mode"


def test_it_works_without_a_model(mem: LocalMemory) -> None:
    """By patterns."""
    remember_conversation(mem, "I'm Dana and I prefer dark mode", scope=SCOPE)
    assert preference(mem).text == "dark mode"


def test_two_authenticated_principals_verify(mem: LocalMemory) -> None:
    """The second one does, whatever was said anonymously before; the tokens that proved them are not kept."""
    says(mem, "dark mode")
    first = says(mem, "dark mode", "token-of-alice", authenticated=True)
    second = says(mem, "dark mode", "token-of-bob", authenticated=True)
    assert first.summary() == "remember: 0 verified, 1 candidate, 0 superseded, 0 refused"
    assert second.summary() == "remember: 1 verified, 0 candidate, 0 superseded, 0 refused"
    found = preference(mem)
    assert found.trust is Trust.VERIFIED
    assert "token" not in f"{found.model_dump()} {mem.history(PREFERS)}"


@pytest.mark.parametrize("authenticated", [True, False])
def test_repetition_never_verifies(mem: LocalMemory, authenticated: bool) -> None:
    """One principal under two tokens, one attacker under many labels, a token that proves nobody."""
    sources = ["token-of-alice", "other-token-of-alice"] if authenticated else [f"label {n}" for n in range(12)]
    for source in (*sources, *sources, "forged"):
        report = says(mem, "dark mode", source, authenticated=authenticated)
        assert report.count(Grade.VERIFIED) == 0
    assert preference(mem).trust is Trust.CANDIDATE
    if authenticated:  # the one that is missing
        assert says(mem, "dark mode", "token-of-bob", authenticated=True).count(Grade.VERIFIED) == 1


def test_a_correction_supersedes_and_the_old_value_is_in_the_chain(mem: LocalMemory) -> None:
    """It is a candidate again."""
    says(mem, "dark mode", "token-of-alice", authenticated=True)
    says(mem, "dark mode", "token-of-bob", authenticated=True)
    report = says(mem, "light mode", "token-of-bob", authenticated=True)
    assert report.summary() == "remember: 0 verified, 0 candidate, 1 superseded, 0 refused"
    found = preference(mem)
    assert (found.text, found.trust) == ("light mode", Trust.CANDIDATE)
    assert [item["text"] for item in correction_chain(found)] == ["dark mode"]


def test_an_unauthenticated_transcript_never_displaces_a_verified_value(mem: LocalMemory) -> None:
    """It contends; its own principals may correct it."""
    says(mem, "dark mode", "token-of-alice", authenticated=True)
    says(mem, "dark mode", "token-of-bob", authenticated=True)
    report = says(mem, "light mode")
    assert report.summary() == "remember: 0 verified, 0 candidate, 0 superseded, 0 refused, 1 contending"
    assert preference(mem).text == "dark mode"


def test_what_was_rejected_is_refused(mem: LocalMemory) -> None:
    """In every spelling, with the rule; another value is not."""
    says(mem, "dark mode")
    mem.reject(PREFERS, reason="she said so")
    report = says(mem, "DARK  mode", "token-of-alice", authenticated=True)
    assert report.summary() == "remember: 0 verified, 0 candidate, 0 superseded, 1 refused"
    assert "rejected_value" in report.facts[0].reason
    assert says(mem, "light mode").count(Grade.REFUSED) == 0


@pytest.mark.parametrize("as_model", [True, False])
def test_evidence_about_the_very_claim_verifies(mem: LocalMemory, as_model: bool) -> None:
    """As a receipt or as its dump, alone or in a list, whatever else was said."""
    chat = model(("Dana", "role", "lead"), ("Dana", "prefers", "dark mode"))
    receipt = passed("dark mode")
    evidence = receipt if as_model else [receipt.model_dump()]
    report = remember_conversation(mem, "…", scope=SCOPE, chat=chat, evidence=evidence)
    assert [graded.grade for graded in report.facts] == [Grade.CANDIDATE, Grade.VERIFIED]


def test_evidence_about_something_else_does_not(mem: LocalMemory) -> None:
    """Another text, another scope (which is said), or no receipt at all."""
    chat = model(("Dana", "prefers", "dark mode"))
    other = remember_conversation(mem, "…", scope=SCOPE, chat=chat, evidence=[passed("light mode")])
    assert other.count(Grade.CANDIDATE) == 1
    elsewhere = remember_conversation(mem, "…", scope=SCOPE, chat=chat, evidence=passed("dark mode", scope="repo:app"))
    assert elsewhere.count(Grade.CANDIDATE) == 1
    assert "receipt_other_scope" in elsewhere.facts[0].reason
    with pytest.raises(Invalid, match="gate receipt"):
        remember_conversation(mem, "…", scope=SCOPE, chat=chat, evidence=[{"verdict": "pass"}])


def test_a_failed_extraction_is_told_and_stores_nothing(mem: LocalMemory) -> None:
    """It does not look like a conversation without facts."""
    failed = remember_conversation(mem, "…", scope=SCOPE, chat=lambda _: "I cannot do that")
    empty = remember_conversation(mem, "…", scope=SCOPE, chat=lambda _: "[]")
    assert (failed.extraction_failed, empty.extraction_failed) == (True, False)
    assert failed.summary() == "remember: extraction failed (there is no JSON in the answer); no fact was stored"
    assert empty.summary() == "remember: 0 verified, 0 candidate, 0 superseded, 0 refused"
    assert [record.kind for record in mem.all()] == [MemoryKind.EPISODE]
    assert failed.episode is not None and failed.episode.text == "…"


def test_what_was_recalled_is_not_learnt_again(mem: LocalMemory) -> None:
    """The report says how many blocks were cut; the same words outside a fence count."""
    says(mem, "dark mode", "doc:1")
    block = fenced([inert_line(preference(mem))])
    report = remember_conversation(mem, f"user: hi\n{block}", scope=SCOPE, source="doc:2")
    assert report.summary().endswith("0 refused, 1 fenced blocks cut")
    assert preference(mem).support_count == 1
    remember_conversation(mem, "Dana prefers dark mode", scope=SCOPE, source="doc:2")
    assert preference(mem).support_count == 2


def test_secrets_are_dropped_and_counted(mem: LocalMemory) -> None:
    """The rest is taken."""
    chat = model(("api", "key", "sk-abcdefghijklmnopqrstuv"), ("Dana", "prefers", "dark mode"))
    report = remember_conversation(mem, "…", scope=SCOPE, chat=chat)
    assert report.summary() == "remember: 0 verified, 1 candidate, 0 superseded, 0 refused, 1 dropped"
    assert dict(report.dropped) == {"secret": 1}


def test_in_a_guarded_store_vouching_is_a_right(tmp_path: Path) -> None:
    """A door that holds it may say whom it has authenticated; another may only speak for itself; a stranger may not."""
    door, writer, stranger = (Principal(bytes([number]) * 32) for number in (1, 2, 3))
    path = tmp_path / "brain.db"
    with LocalMemory(path, principal=door) as mem:
        mem.enroll(door, grants={"*": ["read", "write", "vouch", "admin"]})
        mem.enroll(writer, grants={"*": ["read", "write"]})
        says(mem, "dark mode", "token-of-alice", authenticated=True)
        assert says(mem, "dark mode", "token-of-bob", authenticated=True).count(Grade.VERIFIED) == 1
        with pytest.raises(Invalid, match="speaker"):
            mem.write_vouched([MemoryRecord(text="x")], " ")
    with LocalMemory(path, principal=writer) as mem:
        with pytest.raises(Refused, match="not_granted"):
            says(mem, "light mode", "token-of-alice", authenticated=True)
        assert says(mem, "dark mode").count(Grade.VERIFIED) == 1
    with LocalMemory(path, principal=stranger) as mem, pytest.raises(Refused, match="not_granted"):
        says(mem, "dark mode")


# --- episodes ---------------------------------------------------------------------------------------------------------


def kept(mem: LocalMemory, transcript: str, source: str = "") -> ConversationReport:
    """A conversation of its own that says so."""
    return remember_conversation(
        mem, transcript, scope=SCOPE, chat=model(("Dana", "prefers", "dark mode")), source=source
    )


def test_the_transcript_is_kept_without_secrets_and_without_our_own_words(mem: LocalMemory) -> None:
    """As an episode that its facts name, and that no recall returns."""
    block = fenced([inert_line(MemoryRecord(subject="a", predicate="b", text="ours"))])
    report = kept(mem, f"Dark mode!{block} my key is sk-abcdefghijklmnopqrstuv", source="chat:7")
    assert report.episode is not None and report.facts[0].record is not None
    assert (report.episode.kind, report.episode.source) == (MemoryKind.EPISODE, "chat:7")
    assert report.episode.text == "Dark mode! my key is [secret]"
    assert report.facts[0].record.derived_from == [report.episode.id]
    assert [hit.text for hit in mem.recall("dark mode", scope=SCOPE)] == ["dark mode"]


def test_forgetting_the_episode_takes_its_facts_back(mem: LocalMemory) -> None:
    """Those that nobody else states; told again from there they are refused, from elsewhere they are not."""
    first, other = kept(mem, "one"), remember_conversation(mem, "two", scope=SCOPE, chat=model(("x", "is", "y")))
    assert first.episode is not None and other.episode is not None
    mem.forget(first.episode.id)
    assert mem.get(PREFERS) is None
    assert [hit.text for hit in mem.recall("y", scope=SCOPE)] == ["y"]
    again = kept(mem, "one")
    assert (again.episode, again.summary()) == (None, "remember: 0 verified, 0 candidate, 0 superseded, 1 refused")
    assert "forgotten_source" in again.facts[0].reason
    assert kept(mem, "three").count(Grade.CANDIDATE) == 1


def test_a_fact_of_two_episodes_lives_until_both_are_gone(mem: LocalMemory) -> None:
    """Whichever goes first."""
    first, second = kept(mem, "one"), kept(mem, "two")
    assert first.episode is not None and second.episode is not None
    mem.forget(first.episode.id)
    assert preference(mem).text == "dark mode"
    mem.forget(second.episode.id)
    assert mem.get(PREFERS) is None


def test_an_episode_that_is_forgotten_while_it_is_read_leaves_nothing(mem: LocalMemory) -> None:
    """The model takes its time; what it finds then has no source any more."""

    def slow(_: str) -> str:
        (episode,) = mem.all(kind=MemoryKind.EPISODE)
        mem.forget(episode.id)
        return json.dumps([{"subject": "Dana", "predicate": "prefers", "text": "dark mode"}])

    report = remember_conversation(mem, "…", scope=SCOPE, chat=slow)
    assert report.count(Grade.REFUSED) == 1
    assert "source_gone" in report.facts[0].reason
    assert mem.get(PREFERS) is None
