"""`review` without a verb: what waits, one record after the other, with its evidence; the reviewer decides on each.

A decision is one line: its first letter, and for a contending value its number, as in `a 2`. It is asked for a reason,
for without one nothing is decided. What the ledger refuses is told by its rule, and the record stays in view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from ..memory.errors import Refused, VeridicalError
from .evidence import past, picture, ruled_out
from .failures import sentence

if TYPE_CHECKING:
    from rich.console import Console

    from ..client.blocking import BlockingMemory
    from ..memory.reviewing import ReviewItem

CHOICES: Final = "[a]pprove  [r]eject  [e]dit  [h]istory  [s]kip  [q]uit"
CONTENDED_CHOICES: Final = "[a]pprove N  [r]eject N  (without N: what is held)  [e]dit  [h]istory  [s]kip  [q]uit"
APPROVE, REJECT, EDIT, HISTORY, SKIP, QUIT = "arehsq"
PAGE_ITEMS: Final = 20
CANDIDATE: Final = "candidate"
UNCHANGED: Final = "unchanged"

Ask = Callable[[str], str]


class Tally(NamedTuple):
    """How many decisions were made, and how many records were left as they are."""

    approved: int
    rejected: int
    edited: int
    skipped: int

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in self._asdict().items())


class Quit(Exception):
    """The reviewer goes home."""


class Choice(NamedTuple):
    """What the reviewer answered: a letter, and the digest of the contending value that is meant, or nothing."""

    verb: str
    value: str = ""


class Desk:
    """A reviewer at work. `ask` shows a prompt and gives the line that was answered; it may raise `EOFError`."""

    def __init__(self, memory: BlockingMemory, console: Console, ask: Ask) -> None:
        self._memory = memory
        self._console = console
        self._ask = ask
        self._counts: Counter[str] = Counter()

    def run(self, scopes: Sequence[str] | None = None) -> Tally:
        """Show all that waits in these scopes, or wherever the principal may review. Raises `Refused` where it may not.

        Ends when nothing is left or when the reviewer quits.
        """
        try:
            for id in self._waiting(scopes):
                self._reviewed(id)
        except (Quit, EOFError, KeyboardInterrupt):
            self._console.print()
        return Tally(*(self._counts[verb] for verb in (APPROVE, REJECT, EDIT, SKIP)))

    def _waiting(self, scopes: Sequence[str] | None) -> Generator[str]:
        page = self._memory.review_queue(scope=scopes, limit=PAGE_ITEMS)
        while True:
            yield from [item.record.id for item in page]
            if not page.cursor:
                return
            page = self._memory.review_queue(scope=scopes, limit=PAGE_ITEMS, after=page)

    def _reviewed(self, id: str) -> None:
        """Show one record for as long as something about it waits; as it is now, for others review too."""
        decided = True
        while decided:
            item = self._memory.review_item(id)
            if item is None or not is_waiting(item):
                return
            self._console.print(picture(item))
            decided = self._decided(item)

    def _decided(self, item: ReviewItem) -> bool:
        """Ask until a decision stands; False when the reviewer leaves the record as it is."""
        prompt = f"{CONTENDED_CHOICES if item.contenders else CHOICES} > "
        while True:
            choice = chosen(item, self._ask(prompt))
            if choice is None:
                self._console.print("that is none of the choices")
            elif choice.verb == QUIT:
                raise Quit
            elif choice.verb == SKIP:
                self._counts[SKIP] += 1
                return False
            elif choice.verb == HISTORY:
                self._tell_history(item)
            elif self._carried_out(item, choice):
                self._counts[choice.verb] += 1
                return True

    def _carried_out(self, item: ReviewItem, choice: Choice) -> bool:
        """Make the decision; False when the reviewer thinks better of it, a rule stands against it, or it was so."""
        text = self._ask("the right text > ").strip() if choice.verb == EDIT else ""
        if choice.verb == EDIT and not text:
            return False
        reason = self._ask("reason > ").strip()
        if not reason:
            self._console.print("nothing is decided without a reason")
            return False
        try:
            outcome = self._command(item.record.id, choice, text, reason)
        except VeridicalError as error:
            self._console.print(sentence(error))
            return False
        self._console.print(f"{outcome} {item.record.id}")
        return outcome != UNCHANGED

    def _command(self, id: str, choice: Choice, text: str, reason: str) -> str:
        if choice.verb == APPROVE:
            return self._memory.approve(id, value=choice.value, reason=reason).outcome
        if choice.verb == REJECT:
            return self._memory.reject(id, value=choice.value, reason=reason).outcome
        return self._memory.edit(id, text, reason=reason).outcome

    def _tell_history(self, item: ReviewItem) -> None:
        id = item.record.id
        try:
            self._console.print(past(self._memory.history(id)))
            if item.barred:
                self._console.print(ruled_out(self._memory.rejections(id)))
        except Refused as refusal:
            self._console.print(sentence(refusal))


def is_waiting(item: ReviewItem) -> bool:
    """Whether a reviewer has something to decide about it."""
    return bool(item.contenders) or item.record.trust.value == CANDIDATE


def chosen(item: ReviewItem, line: str) -> Choice | None:
    """What a line means for that record, or None when it means nothing."""
    verb, _, number = line.strip().lower().partition(" ")
    letter = verb[:1]
    if not letter or letter not in (APPROVE, REJECT, EDIT, HISTORY, SKIP, QUIT) or not WORDS[letter].startswith(verb):
        return None
    if not number:
        return Choice(letter)
    contenders = {str(place): one.value for place, one in enumerate(item.contenders, 1)}
    value = contenders.get(number.strip())
    return Choice(letter, value) if value is not None and letter in (APPROVE, REJECT) else None


WORDS: Final = {
    APPROVE: "approve", REJECT: "reject", EDIT: "edit", HISTORY: "history", SKIP: "skip", QUIT: "quit",
}  # fmt: skip
