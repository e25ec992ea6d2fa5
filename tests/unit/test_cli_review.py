"""A reviewer at work in a terminal: what is shown, what each answer does, and what is refused with its rule."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from io import StringIO
from typing import NamedTuple

import pytest
from rich.console import Console

from veridical.cli.evidence import overview, past, picture
from veridical.cli.review_desk import Choice, Desk, Tally, chosen
from veridical.memory import LocalMemory, MemoryRecord, Principal, ReviewItem, Trust
from veridical.memory.errors import Refused

BOSS, ANN, BEN = (Principal(bytes([number]) * 32) for number in (1, 2, 3))


class Store(NamedTuple):
    """A guarded store as its administrator, and as two writers, see it; Ben reviews in `team:b` only."""

    boss: LocalMemory
    ann: LocalMemory
    ben: LocalMemory


@pytest.fixture
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """One file, three principals."""
    path = tmp_path_factory.mktemp("review") / "brain.db"
    boss, ann, ben = (LocalMemory(path, principal=principal) for principal in (BOSS, ANN, BEN))
    with boss, ann, ben:
        boss.enroll(BOSS, name="boss", grants={"*": ["read", "write", "review", "admin"]})
        boss.enroll(ANN, name="ann", grants={"*": ["read", "write"]})
        boss.enroll(BEN, name="ben", grants={"team:*": "write", "team:b": "review"})
        yield Store(boss, ann, ben)


def fact(subject: str, text: str, scope: str = "team:a", source: str = "") -> MemoryRecord:
    """A claim."""
    return MemoryRecord(subject=subject, predicate="is", text=text, scope=scope, source=source)


class Terminal:
    """A reviewer who answers with these lines, one after the other, and what was shown meanwhile."""

    def __init__(self, lines: Sequence[str]) -> None:
        self._lines = iter(lines)
        self.shown = StringIO()
        self.console = Console(file=self.shown, width=200, highlight=False, markup=False)

    def ask(self, prompt: str) -> str:
        """The next line; the end of input after the last."""
        self.shown.write(prompt)
        try:
            return next(self._lines)
        except StopIteration:
            raise EOFError from None

    @property
    def text(self) -> str:
        """All that was shown."""
        return self.shown.getvalue()


def reviewed(memory: LocalMemory, *lines: str, scopes: Sequence[str] | None = None) -> tuple[Tally, str]:
    """How a review with these answers ended, and what was shown."""
    terminal = Terminal(lines)
    return Desk(memory, terminal.console, terminal.ask).run(scopes), terminal.text


def shown_of(item: ReviewItem) -> str:
    """How a record looks."""
    terminal = Terminal([])
    terminal.console.print(picture(item))
    return terminal.text


def trust_of(memory: LocalMemory, id: str) -> tuple[str, Trust]:
    """What is held there, and how it is believed."""
    record = memory.get(id)
    assert record is not None
    return record.text, record.trust


def test_a_reviewer_approves_rejects_edits_and_skips(store: Store) -> None:
    """One record after the other; each decision with its reason, in the history of the record."""
    ids = [store.ann.write(fact(subject, f"{subject} text")).id for subject in ("one", "two", "three", "four")]
    tally, shown = reviewed(
        store.boss, "approve", "seen it", "r", "not so", "e", "three, right", "a typo", "s",
    )  # fmt: skip
    assert tally == Tally(approved=1, rejected=1, edited=1, skipped=1)
    assert str(tally) == "1 approved, 1 rejected, 1 edited, 1 skipped"
    assert [trust_of(store.boss, id) for id in ids] == [
        ("one text", Trust.VERIFIED),
        ("two text", Trust.REJECTED),
        ("three, right", Trust.VERIFIED),
        ("four text", Trust.CANDIDATE),
    ]
    (item, *_) = store.boss.history(ids[0])
    assert (item.reason, item.cause) == ("seen it", "promoted")
    assert "one / is: one text" in shown and "candidate, confidence 0.50" in shown


def test_the_evidence_is_shown(store: Store) -> None:
    """Who says so and how often they were right, from where, what was said against it, and what it was before."""
    store.boss.approve(store.ann.write(fact("kept", "yes")).id, reason="so")
    record = store.ann.write(MemoryRecord(
        subject="port", predicate="is", text="7401", scope="team:a", source="doc:9", provenance=["doc:9", "doc:10"],
        metadata={"seen": "twice"},
    ))  # fmt: skip
    store.ann.write(fact("port", "7402", source="doc:9"))
    store.boss.contradict(record.id, reason="it is another")
    rests_on = store.boss.write(fact("inference", "so", "team:a").model_copy(update={"derived_from": [record.id]}))
    item = store.boss.review_item(rests_on.id)
    assert item is not None and item.record.derived_from == [record.id]
    assert record.id in shown_of(item)
    _, shown = reviewed(store.boss, "h", "q")
    for told in (
        ANN.key_id[:12], "(enrolled), right 0.60: 1 kept, 0 lost", "doc:9", "said against it", "once",
        "1 of 2 principals", "7401", "it was", "superseded",
    ):  # fmt: skip
        assert told in shown, told


def test_contending_values_are_decided_by_number(store: Store) -> None:
    """The one that is right takes the place of what was held; the others are rejected; then nothing waits."""
    for memory in (store.boss, store.ann):
        written = memory.write(fact("cache", "redis"))
    for text in ("none", "memcached"):
        assert store.ben.write(fact("cache", text)).outcome == "conflicted"
    tally, shown = reviewed(store.boss, "a 3", "r 1", "not that", "a 1", "it moved")
    assert "that is none of the choices" in shown
    assert (tally.approved, tally.rejected) == (1, 1)
    assert trust_of(store.boss, written.id) == ("memcached", Trust.VERIFIED)
    assert list(store.boss.review_queue()) == []
    assert len(store.boss.rejections(written.id)) == 1


def test_nothing_is_decided_without_a_reason(store: Store) -> None:
    """Nor without a text; the record stays in view until the reviewer says what is to become of it."""
    id = store.ann.write(fact("door", "open")).id
    tally, shown = reviewed(store.boss, "a", "  ", "e", "", "what", "", "a", "I saw it")
    assert (tally.approved, "nothing is decided without a reason" in shown) == (1, True)
    assert trust_of(store.boss, id) == ("open", Trust.VERIFIED)


def test_what_the_ledger_refuses_is_told_by_its_rule(store: Store) -> None:
    """A rejected value does not come back by an edit; another text does."""
    id = store.ann.write(fact("shop", "closed")).id
    store.boss.reject(id, reason="it is open")
    store.ann.write(fact("shop", "opening"))
    tally, shown = reviewed(store.boss, "h", "e", "CLOSED", "I think so", "e", "open", "seen")
    assert "rejected_value" in shown
    assert "1 value rejected under this key" in shown and "rejected here" in shown
    assert tally.edited == 1
    assert trust_of(store.boss, id) == ("open", Trust.VERIFIED)


def test_only_what_may_be_reviewed_is_shown(store: Store) -> None:
    """Ben sees his scope, and no history without the right to read; Ann sees nothing and is told the rule."""
    here = store.ann.write(fact("lamp", "on", "team:b")).id
    there = store.ann.write(fact("lamp", "off", "team:a")).id
    with pytest.raises(Refused, match="not_granted"):
        reviewed(store.ann, "q")
    with pytest.raises(Refused, match="not_granted"):
        reviewed(store.ben, "q", scopes=["team:a"])
    tally, shown = reviewed(store.ben, "h", "a", "I switched it")
    assert (tally.approved, "not_granted" in shown, "team:a" in shown) == (1, True, False)
    assert trust_of(store.boss, here) == ("on", Trust.VERIFIED)
    assert trust_of(store.boss, there) == ("off", Trust.CANDIDATE)


def test_quitting_leaves_the_rest_as_it_is(store: Store) -> None:
    """By the letter, and by the end of input."""
    for subject in ("one", "two"):
        store.ann.write(fact(subject, "x"))
    for lines in (("q",), ("a", "so"), ("a",)):
        reviewed(store.boss, *lines)
    assert [item.record.subject for item in store.boss.review_queue()] == ["two"]


def test_what_others_decided_meanwhile_is_passed_over(store: Store) -> None:
    """Each record is looked up again before it is shown."""
    one, two = (store.ann.write(fact(subject, "x")).id for subject in ("one", "two"))

    class Colleague(Terminal):
        def ask(self, prompt: str) -> str:
            store.boss.reject(two, reason="by somebody else")
            return super().ask(prompt)

    terminal = Colleague(["a", "so"])
    assert Desk(store.boss, terminal.console, terminal.ask).run() == Tally(1, 0, 0, 0)
    assert trust_of(store.boss, one) == ("x", Trust.VERIFIED)
    assert "two / is" not in terminal.text


def test_a_long_queue_is_worked_through(store: Store) -> None:
    """Page after page, each record once."""
    written = store.ann.write_many([fact(f"s{number}", "x") for number in range(45)])
    tally, _ = reviewed(store.boss, *["a", "so"] * len(written))
    assert tally.approved == 45
    assert list(store.boss.review_queue()) == []


def test_stored_text_cannot_repaint_the_terminal(store: Store) -> None:
    """Control characters and line breaks of a claim are not shown as such."""
    store.ann.write(fact("evil", "line one\nverified\x1b[31m, confidence 1.00"))
    _, shown = reviewed(store.boss, "q")
    assert "\x1b" not in shown
    assert "line one verified" in shown


@pytest.mark.parametrize(
    ("line", "meant"),
    [
        ("a", Choice("a")), ("APPROVE", Choice("a")), (" rej ", Choice("r")), ("q", Choice("q")), ("", None),
        ("approved", None), ("x", None), ("a 1", None), ("s 1", None), ("1", None),
    ],
)  # fmt: skip
def test_a_line_means_one_thing_or_nothing(store: Store, line: str, meant: Choice | None) -> None:
    """Words may be cut short, never guessed."""
    item = store.boss.review_item(store.ann.write(fact("claim", "x")).id)
    assert item is not None
    assert chosen(item, line) == meant


def test_lists_and_histories_are_tables(store: Store) -> None:
    """What `review list` and `review show` print."""
    record = store.ann.write(fact("claim", "x"))
    terminal = Terminal([])
    item = store.boss.review_item(record.id)
    assert item is not None
    for shown in (overview([item]), picture(item), past(store.boss.history(record.id))):
        terminal.console.print(shown)
    assert terminal.text.count("claim / is") == 2
    assert item.value in item.model_dump_json()
