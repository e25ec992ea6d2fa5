"""One round after the other: what becomes of callers when rounds are accepted, declined, or lose their leader."""

import asyncio
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from node_cluster import CLOCK, ENTROPY, enrolment, signed, write_command

from veridical.log.entry import Envelope, Position
from veridical.log.identifier import uuid7
from veridical.memory import make_id, make_key
from veridical.memory.commands import encode_body
from veridical.memory.context import Context, OperatorRights
from veridical.memory.errors import NotLeader, OutcomeUnknown
from veridical.memory.state import MemoryState
from veridical.memory.trust_commands import ATTEST, AttestBody
from veridical.node.admission import Bounds
from veridical.node.decider import Proposal
from veridical.node.metrics import Metrics
from veridical.node.ports import BareCommand, SubmitResult, Wait
from veridical.node.rounds import Rounds, RoundsPort, Waiting
from veridical.replication.messages import Accepted, Declined, Propose
from veridical.security.digests import DigestKey
from veridical.security.keys import KeyPair, verify
from veridical.security.principal import Principal
from veridical.verdict import Report, Runner, Verdict, attest_fact, signed_report

BOUNDS = Bounds(batch_commands=100, batch_bytes=1 << 20, linger_min_us=1_000, linger_max_us=5_000)
PRINCIPAL = Principal(bytes([5]) * 32)


class Stage:
    """Rounds with everything around them played by the test. Decisions wait while `applier` is closed."""

    def __init__(self) -> None:
        self.proposals: list[Propose] = []
        self.matches = {"a": 0, "b": 0}
        self.fatal: list[str] = []
        self.runner_key: bytes | None = None
        self.applier = asyncio.Event()
        self.applier.set()
        self.status = SimpleNamespace(applied_index=2, last=Position(1, 2))
        projection: Any = SimpleNamespace(state=MemoryState(), applied=Position(1, 2))
        port = RoundsPort(
            projection, self._on_applier, self._context, lambda: False, lambda: self.matches, self.fatal.append
        )
        self.metrics = Metrics(lambda: None, lambda: 0)  # type: ignore[arg-type,return-value]
        self.rounds = Rounds(BOUNDS, CLOCK, self.metrics, port)
        self.rounds.driver = SimpleNamespace(  # type: ignore[assignment]
            replica=SimpleNamespace(status=lambda: self.status), step=self.proposals.append
        )

    def submit(self, subject: str, wait: Wait = Wait.QUORUM) -> Waiting:
        return self.send(PRINCIPAL, write_command(subject, "x"), wait)

    def send(self, author: Principal, command: BareCommand, wait: Wait = Wait.QUORUM) -> Waiting:
        sent = signed(author, "c" * 32, [command])
        proposal = Proposal(Envelope.parse(sent.envelope), sent.envelope, sent.signature, sent.bodies)
        return self.rounds.submit(proposal, wait)

    def accept(self) -> int:
        """The core appends the last proposal; its last index."""
        proposal = self.proposals[-1]
        last = proposal.after_index + len(proposal.drafts)
        self.rounds.on_accepted(Accepted(proposal.token, proposal.epoch, proposal.after_index + 1, last))
        return last

    async def proposed(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.proposals) < count:  # noqa: ASYNC110 (a task has to run)
                await asyncio.sleep(0)

    async def _on_applier(self, work: Callable[[], Any]) -> Any:
        await self.applier.wait()
        return work()

    def _context(self, epoch: int) -> Context:
        return Context(DigestKey(bytes(32)), OperatorRights(), epoch, verify, self.runner_key)


def attestation(record_id: bytes, receipt: str) -> BareCommand:
    """A command that shows a receipt for that record."""
    return BareCommand(
        uuid7(CLOCK.wall_us(), ENTROPY.bytes(8)), ATTEST, encode_body(ATTEST, AttestBody(record_id, receipt))
    )


def on_stage(play: Callable[[Stage], Awaitable[None]]) -> None:
    async def run() -> None:
        stage = Stage()
        await play(stage)
        assert stage.fatal == []

    asyncio.run(run())


async def error_of(waiting: Waiting) -> BaseException | None:
    async with asyncio.timeout(5):
        await asyncio.wait([waiting.future])
    return waiting.future.exception()


def test_who_does_not_lead_takes_nothing() -> None:
    """A submission that arrives after leadership has ended is for somebody else."""

    async def play(stage: Stage) -> None:
        assert isinstance(await error_of(stage.submit("a")), NotLeader)

    on_stage(play)


def test_a_caller_is_answered_when_its_entry_is_applied() -> None:
    """Not when it is accepted, not when it is committed."""

    async def play(stage: Stage) -> None:
        stage.rounds.lead(1)
        waiting = stage.submit("a")
        await stage.proposed(1)
        last = stage.accept()
        stage.rounds.on_committed(last)
        assert not waiting.future.done()
        stage.rounds.on_applied(last)
        result: SubmitResult = waiting.future.result()
        assert (result.epoch, result.index) == (1, last) == (1, 3)

    on_stage(play)


def test_one_round_is_under_way_at_a_time() -> None:
    """What comes during a round goes with the next one, all of it, once the round is committed."""

    async def play(stage: Stage) -> None:
        stage.rounds.lead(1)
        stage.submit("a")
        await stage.proposed(1)
        last = stage.accept()
        for subject in "bcd":
            stage.submit(subject)
        await asyncio.sleep(0)
        assert len(stage.proposals) == 1
        stage.rounds.on_committed(last)
        await stage.proposed(2)
        assert (len(stage.proposals[1].drafts), stage.proposals[1].after_index) == (3, last)

    on_stage(play)


def test_leadership_that_ends_leaves_proposed_ones_unknown_and_waiting_ones_untried() -> None:
    """*outcome unknown* only for what may be in a log; the rest goes to the next leader."""

    async def play(stage: Stage) -> None:
        stage.rounds.lead(1)
        proposed = stage.submit("a")
        await stage.proposed(1)
        stage.accept()
        waits = stage.submit("b")
        stage.rounds.lose("gone")
        assert isinstance(await error_of(proposed), OutcomeUnknown)
        assert isinstance(await error_of(waits), NotLeader)

    on_stage(play)


def test_leadership_may_end_while_a_round_is_decided() -> None:
    """The round is not proposed, its callers go elsewhere, and the next leadership decides again."""

    async def play(stage: Stage) -> None:
        stage.rounds.lead(1)
        stage.applier.clear()
        decided = stage.submit("a")
        stage.rounds.lose("gone")
        assert isinstance(await error_of(decided), NotLeader)
        assert not decided.proposed
        stage.rounds.lead(2)
        stage.submit("b")
        stage.applier.set()
        await stage.proposed(1)
        assert [proposal.epoch for proposal in stage.proposals] == [2]

    on_stage(play)


def test_a_declined_round_left_no_trace() -> None:
    """Its callers try again; the next round is decided on a fresh state."""

    async def play(stage: Stage) -> None:
        stage.rounds.lead(1)
        declined = stage.submit("a")
        await stage.proposed(1)
        stage.rounds.on_declined(Declined(stage.proposals[0].token, "epoch", None))
        assert isinstance(await error_of(declined), NotLeader)
        stage.status = SimpleNamespace(applied_index=5, last=Position(1, 5))
        stage.submit("b")
        await stage.proposed(2)
        assert stage.proposals[1].after_index == 5

    on_stage(play)


def test_a_pause_waits_for_the_round_under_way_and_begins_no_other() -> None:
    """Before leadership is handed over all that is under way is answered; a hand-over that failed goes on."""

    async def play(stage: Stage) -> None:
        stage.rounds.lead(1)
        stage.submit("a")
        await stage.proposed(1)
        last = stage.accept()
        pause = asyncio.create_task(stage.rounds.pause())
        await asyncio.sleep(0)
        stage.submit("b")
        stage.rounds.on_committed(last)
        assert not pause.done()
        stage.rounds.on_applied(last)
        async with asyncio.timeout(5):
            await pause
        assert len(stage.proposals) == 1
        stage.rounds.resume()
        await stage.proposed(2)

    on_stage(play)


def test_a_caller_that_reads_with_a_promise_is_answered_at_the_commit() -> None:
    """Its reads wait for the fold by themselves; leadership is not handed over before all others are answered."""

    async def play(stage: Stage) -> None:
        stage.rounds.lead(1)
        stage.submit("first")
        await stage.proposed(1)
        at_commit, applied = stage.submit("a", Wait.COMMIT), stage.submit("b")
        first = stage.accept()
        stage.rounds.on_committed(first)
        stage.rounds.on_applied(first)
        await stage.proposed(2)
        last = stage.accept()
        assert not at_commit.future.done()
        assert not stage.rounds.waits_for_fold
        stage.rounds.on_committed(last)
        assert at_commit.future.done()
        assert not applied.future.done()
        assert stage.rounds.waits_for_fold
        stage.rounds.on_applied(last)
        assert applied.future.done()
        assert not stage.rounds.waits_for_fold

    on_stage(play)


def test_what_is_committed_but_not_folded_is_unknown_when_leadership_ends() -> None:
    """Whoever waits for the fold at a leader that is none any more is told that the outcome is unknown."""

    async def play(stage: Stage) -> None:
        stage.rounds.lead(1)
        waiting = stage.submit("a")
        await stage.proposed(1)
        stage.rounds.on_committed(stage.accept())
        stage.rounds.lose("gone")
        assert isinstance(await error_of(waiting), OutcomeUnknown)
        assert not stage.rounds.waits_for_fold

    on_stage(play)


def test_waiting_for_all_waits_for_every_voter() -> None:
    """Applied here is not enough; the slowest voter's log decides."""

    async def play(stage: Stage) -> None:
        stage.rounds.lead(1)
        waiting = stage.submit("a", Wait.ALL)
        await stage.proposed(1)
        last = stage.accept()
        stage.rounds.on_committed(last)
        stage.matches = {"a": last, "b": last - 1}
        stage.rounds.on_applied(last)
        assert not waiting.future.done()
        stage.matches["b"] = last
        stage.rounds.on_matched()
        assert waiting.future.result().index == last

    on_stage(play)


def test_who_gave_up_waiting_is_not_proposed() -> None:
    """A caller whose time ran out in the queue is told that nothing happened, and nothing does."""

    async def play(stage: Stage) -> None:
        stage.rounds.lead(1)
        stage.submit("a")
        await stage.proposed(1)
        last = stage.accept()
        gone = stage.submit("b")
        gone.future.cancel()
        stage.submit("c")
        stage.rounds.on_committed(last)
        await stage.proposed(2)
        assert len(stage.proposals[1].drafts) == 1
        assert not gone.proposed

    on_stage(play)


def test_what_is_not_granted_is_answered_and_never_proposed() -> None:
    """The caller hears the rule at once, alone in its round or beside others; the round goes on without it."""

    async def play(stage: Stage) -> None:
        administrator = Principal(bytes([6]) * 32)
        stage.rounds.lead(1)
        stage.send(administrator, enrolment(administrator))
        await stage.proposed(1)
        stage.rounds.on_committed(stage.accept())
        denied = stage.submit("alone")
        result = await denied.future
        assert [(outcome.code, outcome.rule) for outcome in result.outcomes] == [("refused", "not_granted")]
        assert (result.epoch, result.index, result.records) == (0, 0, (None,))
        assert len(stage.proposals) == 1
        beside = stage.submit("beside")
        granted = stage.send(administrator, write_command("granted", "x"))
        await stage.proposed(2)
        assert beside.future.result().outcomes[0].rule == "not_granted"
        assert stage.proposals[1].after_index == stage.proposals[0].after_index + 1
        assert len(stage.proposals[1].drafts) == 1
        last = stage.accept()
        stage.rounds.on_committed(last)
        stage.rounds.on_applied(last)
        assert granted.future.result().outcomes[0].code == "asserted"
        assert stage.metrics.registry.get_sample_value("veridical_denied_commands_total") == 2

    on_stage(play)


def test_a_runner_that_came_later_counts_in_the_next_round() -> None:
    """In the middle of an epoch, without another desk: a program makes its runner's key when it first needs one."""

    async def play(stage: Stage) -> None:
        runner = Runner(KeyPair(bytes([9]) * 32))
        report = signed_report(Report(grader="eval", verdict=Verdict.PASS), runner)
        gate = attest_fact(Verdict.PASS, [report], subject="sky", predicate="says", text="x", runner=runner)
        receipt = gate.model_dump_json()

        async def round(command: BareCommand) -> str:
            waiting = stage.send(PRINCIPAL, command)
            await stage.proposed(len(stage.proposals) + 1)
            stage.rounds.on_committed(stage.accept())
            stage.rounds.on_applied(stage.proposals[-1].after_index + 1)
            (outcome,) = (await waiting.future).outcomes
            return outcome.rule or outcome.code

        stage.rounds.lead(1)
        assert await round(write_command("sky", "x")) == "asserted"
        record_id = bytes.fromhex(make_id(make_key("sky", "says", "global")))
        assert await round(attestation(record_id, receipt)) == "receipt_stranger"
        stage.runner_key = runner.public_key
        assert await round(attestation(record_id, receipt)) == "attested"

    on_stage(play)
