"""Decisions stand on everything in the log, folded or not; what is folded is dropped from memory."""

from collections import deque
from collections.abc import Sequence
from dataclasses import replace

from node_cluster import enrolment, signed, write_command

from veridical.log.canonical import decode
from veridical.log.entry import SALT_BYTES, Envelope
from veridical.log.identifier import uuid7
from veridical.memory import rules
from veridical.memory.context import Context, OperatorRights
from veridical.memory.machine import evolve_entry
from veridical.memory.state import MemoryState, Workspace
from veridical.node.decider import LAYER_COMMANDS, Decider, Decision, Denial, Proposal
from veridical.node.ports import BareCommand
from veridical.node.system import SystemClock
from veridical.security.digests import DigestKey
from veridical.security.principal import Principal

PRINCIPAL = Principal(bytes([5]) * 32)
NOW_US = SystemClock().wall_us()


def proposal(commands: Sequence[BareCommand], author: Principal = PRINCIPAL) -> Proposal:
    sent = signed(author, "c" * 32, commands)
    return Proposal(Envelope.parse(sent.envelope), sent.envelope, sent.signature, sent.bodies)


def decider(state: MemoryState, after_index: int = 0) -> Decider:
    return Decider(state, Context(DigestKey(bytes(32)), OperatorRights(), 1), after_index)


def decided(under_test: Decider, sent: Sequence[Proposal], wall_us: int, applied_index: int) -> list[Decision]:
    """All of them stand in the log."""
    decisions = under_test.decide(sent, wall_us, applied_index)
    assert not any(isinstance(decision, Denial) for decision in decisions)
    return [decision for decision in decisions if isinstance(decision, Decision)]


def fold(state: MemoryState, sent: Proposal, decision: Decision) -> None:
    """What the projection does with the entry."""
    workspace = Workspace(state)
    heads = [(head.id, head.kind) for head in sent.envelope.commands]
    contents = [body[SALT_BYTES:] for body in sent.bodies]
    draft = decision.draft
    items = decode(draft.events)
    evolve_entry(workspace, decision.index, 1, draft.time_us, sent.author, heads, items, contents)
    state.apply(workspace)


def test_each_envelope_is_decided_on_the_one_before() -> None:
    """The second writer of a value corroborates or repeats it, although nothing is folded yet."""
    under_test = decider(MemoryState(), after_index=7)
    sent = [proposal([write_command("sky", "is blue")]) for _ in range(2)]
    first, second = decided(under_test, sent, NOW_US, applied_index=7)
    assert (first.index, second.index, under_test.after_index) == (8, 9, 9)
    assert first.outcomes[0].code == "asserted"
    assert second.outcomes[0].code != "asserted"
    assert first.outcomes[0].record_id == second.outcomes[0].record_id


def test_an_id_in_the_unfolded_part_of_the_log_is_not_executed_again() -> None:
    """Exactly once, also for a retry that arrives before its first attempt is folded."""
    under_test = decider(MemoryState())
    command = write_command("sky", "is blue")
    under_test.decide([proposal([command])], NOW_US, applied_index=0)
    (again,) = decided(under_test, [proposal([command])], NOW_US, applied_index=0)
    assert again.outcomes[0].repeated_command
    assert again.outcomes[0].version.index == 1


def test_time_never_goes_back() -> None:
    """An entry's time is the wall clock's, but never before the entry before it."""
    under_test = decider(MemoryState())
    times: list[int] = []
    for wall_us in (NOW_US, NOW_US - 3_600_000_000, NOW_US + 5):
        (decision,) = decided(under_test, [proposal([write_command(f"at {wall_us}", "x")])], wall_us, applied_index=0)
        times.append(decision.draft.time_us)
    assert times == [NOW_US, NOW_US, NOW_US + 5]


def test_a_clock_that_was_set_back_refuses_nobody_whose_clock_is_right() -> None:
    """Time stands still, but ids are judged by the clock that goes on; those of the future are refused as before.

    Without that clock the right ones would be as well: the control.
    """
    hour_us = 3_600_000_000

    def code(made_at_us: int, elapsed_us: int) -> str:
        under_test = decider(MemoryState())
        decided(under_test, [proposal([write_command("before", "x")])], NOW_US, applied_index=0)
        command = write_command("after", "x")
        command = replace(command, id=uuid7(made_at_us, bytes(10)))
        (decision,) = [
            each
            for each in under_test.decide([proposal([command])], NOW_US - hour_us, 0, elapsed_us)
            if isinstance(each, Decision)
        ]
        assert decision.draft.time_us == NOW_US
        return decision.outcomes[0].rule or decision.outcomes[0].code

    assert code(NOW_US + hour_us, elapsed_us=hour_us) == "asserted"
    assert code(NOW_US + hour_us, elapsed_us=0) == rules.ID_TOO_FAR_AHEAD
    assert code(NOW_US + 2 * hour_us, elapsed_us=hour_us) == rules.ID_TOO_FAR_AHEAD


def test_what_is_folded_is_dropped_and_decisions_stay_the_same() -> None:
    """Layers go as the fold catches up; an overlay that forgets too early or too late would decide otherwise."""
    state = MemoryState()
    under_test = decider(state)
    unfolded: deque[tuple[Proposal, Decision]] = deque()
    layers: list[int] = []
    for round in range(60):
        sent = proposal([write_command(f"subject {number}", f"value {round}") for number in range(64)])
        (decision,) = decided(under_test, [sent], NOW_US + round, applied_index=round - len(unfolded))
        assert {outcome.code for outcome in decision.outcomes} == {"asserted" if round == 0 else "superseded"}
        assert [record and record.corrections_count for record in decision.records] == [round] * 64
        unfolded.append((sent, decision))
        layers.append(under_test.layer_count)
        if len(unfolded) > 20:
            fold(state, *unfolded.popleft())
    assert 2 <= max(layers) <= 21 * 64 // LAYER_COMMANDS + 2


def test_an_idle_decider_keeps_nothing() -> None:
    """Once everything is folded, the next decision stands on the projection alone."""
    state = MemoryState()
    under_test = decider(state)
    sent = proposal([write_command("sky", "is blue")])
    (decision,) = decided(under_test, [sent], NOW_US, applied_index=0)
    fold(state, sent, decision)
    (again,) = decided(under_test, [proposal([write_command("sky", "is grey")])], NOW_US, applied_index=1)
    assert again.outcomes[0].code == "superseded"
    assert under_test.layer_count == 1


def test_what_came_without_a_principal_has_no_author() -> None:
    """A node that signs for an anonymous caller does not become the principal of what it says."""
    sent = proposal([write_command("sky", "is blue")])
    envelope = sent.envelope
    on_behalf = Envelope(envelope.cluster, envelope.author, envelope.issued_at_us, envelope.commands, "anonymous")
    on_behalf_proposal = Proposal(on_behalf, on_behalf.raw, sent.signature, sent.bodies)
    (decision,) = decided(decider(MemoryState()), [on_behalf_proposal], NOW_US, applied_index=0)
    record = decision.records[0]
    assert record is not None and (record.author, record.principals) == ("", ())


def test_what_is_not_granted_leaves_no_trace() -> None:
    """No entry, no change, not even of time; the envelope after it takes its place, and its id is not remembered."""
    state = MemoryState()
    administrator = Principal(bytes([6]) * 32)
    under_test = decider(state)
    founding = proposal([enrolment(administrator)], administrator)
    (enrolled,) = decided(under_test, [founding], NOW_US, applied_index=0)
    assert enrolled.outcomes[0].code == "enrolled"
    command = write_command("sky", "is blue")
    denial, granted = under_test.decide(
        [proposal([command]), proposal([write_command("sea", "is wide")], administrator)], NOW_US, applied_index=0
    )
    assert isinstance(denial, Denial)
    assert [(outcome.code, outcome.rule) for outcome in denial.outcomes] == [("refused", "not_granted")]
    assert isinstance(granted, Decision)
    assert (granted.index, under_test.after_index) == (2, 2)
    (same,) = decided(under_test, [proposal([command], administrator)], NOW_US, applied_index=0)
    assert not same.outcomes[0].repeated_command
    mixed = [write_command("lake", "is deep"), write_command("pond", "is small", scope="user:b")]
    reader = Principal(bytes([7]) * 32)
    (joined,) = decided(
        under_test, [proposal([enrolment(reader, ("user:b", ("write",)))], administrator)], NOW_US, applied_index=0
    )
    assert joined.outcomes[0].code == "enrolled"
    (partly,) = decided(under_test, [proposal(mixed, reader)], NOW_US, applied_index=0)
    assert [outcome.code for outcome in partly.outcomes] == ["refused", "asserted"]
