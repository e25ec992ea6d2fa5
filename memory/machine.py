"""Whole envelopes: what the leader calls to decide one, and what every node calls to fold one.

An entry's events are a canonical array with one *item* per command, in the order of the envelope:

    [content_digest, event, …]                                     decided here; each event is [code, …] (see `events`)
    ["seen", code, rule, record id, count, ignored, version]       the id was seen before: its first outcome
    ["conflict"]                                                   the id was seen before with other content
    ["denied", rule, record id]                                    not granted: it changes nothing, not even the window
    ["window", rule, time_us]                                      the id is too old, or too far ahead of that time
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from . import events, rules
from .commands import BODIES, WINDOW_COUNT, WINDOW_US, Command
from .context import Context, Digester, OperatorRights, Rights
from .decide import decide
from .decide_vectors import DENIED, denials
from .errors import Bug, Invalid
from .evolve import Happening, evolve
from .record import Version
from .state import PastOutcome, Workspace
from .window import AHEAD_US_LIMIT, WINDOW_COUNT_DEFAULT, WINDOW_DEFAULT_US, advanced, command_time_us

__all__ = [
    "Command", "Context", "Digester", "OperatorRights", "Outcome", "Rights", "decide_envelope", "evolve_entry",
    "is_denied", "outcomes",
]  # fmt: skip

SEEN: Final = "seen"
CONFLICT: Final = "conflict"
WINDOW: Final = "window"

_COMMAND: Final = b"command"
_PREFIXES: Final = ("memory.", "principal.", "grant.", "review.", "token.")


class Outcome(NamedTuple):
    """What a command came to. `code` is the event's name (asserted, corroborated, …, refused), or `conflict`.

    `rule` names the refusing rule, `reason` says it in a sentence; `record_id` is empty when there is none; `count`
    says how many records were changed; `ignored` lists fields of the request that no caller can set; `version` is where
    the outcome was recorded, which for a repeated command id is the first time (`repeated_command`).
    """

    code: str
    rule: str
    reason: str
    record_id: bytes
    count: int  # pyright: ignore[reportIncompatibleMethodOverride]
    ignored: tuple[str, ...]
    version: Version
    repeated_command: bool


def decide_envelope(
    workspace: Workspace, commands: Sequence[Command], now_us: int, context: Context, index: int, present_us: int = 0
) -> list[list[Any]]:
    """Decide the commands of one envelope, each on the state after the one before; returns the items of its entry.

    `index` is the entry's place-to-be, `now_us` its time. `workspace` is changed as if the entry were folded already;
    not at all where nothing of it was granted (`is_denied`), since there will be no entry. Ids may be five minutes
    ahead of `now_us` or, if that is later, of `present_us`: time as it were if no wall clock had been set back.
    Raises `Invalid`, and changes nothing, for a kind that is not of the memory's commands.
    """
    for command in commands:
        if command.kind not in BODIES:
            raise Invalid("kind", f"{command.kind!r} is not a command")
    now_us = max(now_us, workspace.time_us())
    if any(command.of_node for command in commands) and (late := denials(workspace, commands, context.epoch)):
        return late
    items: list[list[Any]] = []
    for place, command in enumerate(commands):
        item = _decided(workspace, command, now_us, context, max(now_us, present_us))
        _fold(workspace, command, item, Version(context.epoch, index, place), now_us)
        items.append(item)
    if not is_denied(items):
        _pass_time(workspace, now_us, items)
    return items


def evolve_entry(
    workspace: Workspace,
    index: int,
    epoch: int,
    time_us: int,
    author: bytes | None,
    heads: Sequence[tuple[bytes, str]],
    items: Sequence[Sequence[Any]],
    bodies: Sequence[bytes | None],
) -> None:
    """Fold one entry. `heads` are `(command id, kind)`, `bodies` contents without salt, or None once erased.

    Entries of other kinds (`leader.elected`, `cluster.configured`) let time pass and change nothing else.
    Raises `Bug` for events that this version does not know.
    """
    folded: list[Sequence[Any]] = []
    for place, ((id, kind), item, content) in enumerate(zip(heads, items, bodies, strict=True)):
        if kind.startswith(_PREFIXES):
            _fold(workspace, _Head(id, kind, content, author), item, Version(epoch, index, place), time_us)
            folded.append(item)
    _pass_time(workspace, time_us, folded)


def is_denied(items: Sequence[Sequence[Any]]) -> bool:
    """Whether nothing of an envelope was granted: its entry would hold nothing, and belongs into no history."""
    return all(item[0] == DENIED for item in items)


def outcomes(items: Sequence[Sequence[Any]], epoch: int, index: int) -> list[Outcome]:
    """The answers that an entry's items hold, one for each command. Needs no state."""
    return [_outcome(item, Version(epoch, index, place)) for place, item in enumerate(items)]


class _Head(NamedTuple):
    id: bytes
    kind: str
    content: bytes | None
    author: bytes | None


def _decided(workspace: Workspace, command: Command, now_us: int, context: Context, present_us: int) -> list[Any]:
    made_at_us = command_time_us(command.id)
    if made_at_us is None:
        return [WINDOW, rules.ID_NOT_A_TIME, now_us]
    start_us = workspace.window().start_us
    if made_at_us < start_us:
        return [WINDOW, rules.ID_TOO_OLD, start_us]
    digest = context.digests.digest(
        _COMMAND, command.author or command.claim or b"", command.kind.encode(), command.content
    )
    seen = workspace.outcome(command.id)
    if seen is not None:
        return _seen(seen) if seen.content_digest == digest else [CONFLICT]
    if made_at_us > present_us + AHEAD_US_LIMIT:
        return [WINDOW, rules.ID_TOO_FAR_AHEAD, now_us]
    decided = decide(workspace, command, now_us, context)
    first = decided[0]
    if first[0] == events.REFUSED and first[2] in rules.UNLOGGED:
        return [DENIED, first[2], first[1]]
    return [digest, *decided]


def _seen(past: PastOutcome) -> list[Any]:
    return [SEEN, past.code, past.rule, past.record_id, past.count, list(past.ignored), list(past.version)]


def _fold(workspace: Workspace, head: Command | _Head, item: Sequence[Any], at: Version, time_us: int) -> None:
    digest = item[0]
    if not isinstance(digest, bytes):
        return
    author = head.author.hex() if head.author else ""
    for event in item[1:]:
        evolve(workspace, Happening(event, head.kind, head.content, at, time_us, author))
    workspace.outcomes[head.id] = _past_outcome(digest, item[1], at)


def _past_outcome(digest: bytes, event: Sequence[Any], at: Version) -> PastOutcome:
    code = event[0]
    if code == events.CORRECTED:
        return PastOutcome(digest, events.SUPERSEDED if event[2] else event[4][0], "", event[1], 1, (), at)
    if code in events.OF_WRITES:
        return PastOutcome(digest, code, "", event[1], 1, tuple(event[2]), at)
    if code == events.REFUSED:
        return PastOutcome(digest, code, event[2], event[1], 0, (), at)
    if code in events.OF_BATCHES:
        return PastOutcome(digest, code, "", b"", len(event) - 1, (), at)
    if code == events.SET:
        return PastOutcome(digest, code, "", b"", 0, (), at)
    if code in events.OF_PRINCIPALS:
        return PastOutcome(digest, code, "", b"", 1, (), at)
    return PastOutcome(digest, code, "", event[1], int(code != events.UNCHANGED), (), at)


def _outcome(item: Sequence[Any], at: Version) -> Outcome:
    match item:
        case ["seen", code, rule, record_id, count, ignored, version]:
            return Outcome(code, rule, _reason(rule), record_id, count, tuple(ignored), Version(*version), True)
        case ["denied", rule, record_id]:
            return Outcome(events.REFUSED, rule, _reason(rule), record_id, 0, (), at, False)
        case ["window", rule, time_us]:
            return Outcome(events.REFUSED, rule, f"{_reason(rule)} ({time_us} µs)", b"", 0, (), at, False)
        case ["conflict"]:
            return Outcome(CONFLICT, CONFLICT, "the command id was used for another command", b"", 0, (), at, False)
        case [bytes(digest), event, *_]:
            _, code, rule, record_id, count, ignored, version = _past_outcome(digest, event, at)
            return Outcome(code, rule, _reason(rule), record_id, count, ignored, version, False)
        case _:
            raise Bug(f"history holds an item {item!r} that this version cannot read")


def _reason(rule: str) -> str:
    return rules.REASONS.get(rule, rule)


def _pass_time(workspace: Workspace, time_us: int, items: Sequence[Sequence[Any]]) -> None:
    time_us = max(time_us, workspace.time_us())
    arrivals = sum(isinstance(item[0], bytes) for item in items)
    window = workspace.window()
    span_us, count_limit = workspace.setting(WINDOW_US), workspace.setting(WINDOW_COUNT)
    workspace.changed_window = advanced(
        window,
        time_us,
        arrivals,
        span_us if isinstance(span_us, int) else WINDOW_DEFAULT_US,
        count_limit if isinstance(count_limit, int) else WINDOW_COUNT_DEFAULT,
    )
    workspace.changed_time_us = time_us
