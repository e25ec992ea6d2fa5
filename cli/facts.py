"""`remember`, `correct`, `get`, `recall`, `history`, `withdraw`, `forget`: one question or one command each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from . import screen
from .failures import NEGATIVE
from .options import DataOption, EndpointOption, JsonOption, KeyOption, TimeoutOption, TokenOption

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from ..memory.view import HistoryItem, MemoryRecord

TIMEOUT_S: Final = 10.0
ID_CHARACTERS: Final = 32
RECALLED: Final = 5
HISTORY_SHOWN: Final = 100

ScopeOption = Annotated[str, typer.Option("--scope", help="Path-like, as in user:dana, repo:app, team:platform.")]
ReadOption = Annotated[
    str, typer.Option("--read", metavar="MODE", help="How fresh: local, session, strong, or quorum (needs no leader).")
]
Names = Annotated[list[str], typer.Argument(metavar="ID | SUBJECT PREDICATE", show_default=False)]


AsOfOption = Annotated[
    str | None,
    typer.Option(
        "--as-of", metavar="TIME", help="As it was recorded then, as in 2024-03-01T12:00Z.", show_default=False
    ),
]
ValidAtOption = Annotated[
    str | None,
    typer.Option("--valid-at", metavar="TIME", help="As it was true then, whenever it was said.", show_default=False),
]
CommandOption = Annotated[
    str | None,
    typer.Option("--command-id", metavar="HEX", help="Of an earlier try whose outcome is unknown.", show_default=False),
]


def remember(
    words: Annotated[
        list[str],
        typer.Argument(
            metavar="[SUBJECT PREDICATE] TEXT", help="A fact about something, or a sentence.", show_default=False
        ),
    ],
    scope: ScopeOption = "global",
    kind: Annotated[str, typer.Option("--kind", help="fact, design_rule, schema, failure, skill or episode.")] = "fact",
    metadata: Annotated[str, typer.Option("--metadata", metavar="JSON", help="An object.", show_default=False)] = "",
    source: Annotated[str, typer.Option("--source", help="The episode that says so.", show_default=False)] = "",
    derived_from: Annotated[
        list[str] | None, typer.Option("--derived-from", metavar="ID", help="Falls with it.", show_default=False)
    ] = None,
    follows: Annotated[
        str, typer.Option("--follows", metavar="ID", help="Of an episode: the one before.", show_default=False)
    ] = "",
    ttl: Annotated[
        float | None,
        typer.Option("--ttl", metavar="SECONDS", help="Expires so long after the write.", show_default=False),
    ] = None,
    command: CommandOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Write something down. A new fact is a candidate; saying it again does not make it true."""
    from .documents import Defaults, Problem, checked
    from .target import connected

    fields = _fact_fields(words) | {"kind": kind, "metadata": _object(metadata), "ttl_s": ttl}
    fields |= {"derived_from": derived_from or [], "follows": follows}
    fact = checked(0, fields, Defaults(scope, source))
    if isinstance(fact, Problem):
        raise fact.error
    with connected(data, endpoint, timeout, key=key) as memory:
        written = memory.write(fact.record, command_id=command)
    if as_json:
        screen.say_json(written.model_dump(mode="json"))
    else:
        screen.say(f"{written.outcome} {written.id} {summary(written)} (epoch {written.epoch}, index {written.index})")


def correct(
    names: Annotated[list[str], typer.Argument(metavar="ID … | SUBJECT PREDICATE", show_default=False)],
    text: Annotated[str, typer.Option("--text", help="What is right.", show_default=False)],
    scope: ScopeOption = "global",
    reason: Annotated[str, typer.Option("--reason", help="Goes into the history.", show_default=False)] = "",
    metadata: Annotated[str, typer.Option("--metadata", metavar="JSON", help="Merged.", show_default=False)] = "",
    command: CommandOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Put a text in the place of what is held, or of several sentences: only that is recalled from then on."""
    from .target import connected

    ids = list(map(str.lower, names)) if all(map(_is_id, names)) else [record_id(names, scope)]
    with connected(data, endpoint, timeout, key=key) as memory:
        corrected = memory.correct(ids, text, reason=reason, metadata=_object(metadata), command_id=command)
    if as_json:
        screen.say_json(corrected.model_dump(mode="json"))
    else:
        screen.say(f"{corrected.outcome} {corrected.id} {summary(corrected)}")


def get(
    names: Names,
    scope: ScopeOption = "global",
    read: ReadOption = "strong",
    as_of: AsOfOption = None,
    valid_at: ValidAtOption = None,
    key: KeyOption = None,
    token_file: TokenOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Show the record with that id, or about that subject and predicate. Exit code 1: there is none."""
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, read, key=key, token_file=token_file) as memory:
        record = memory.get(id, as_of=moment("as-of", as_of), valid_at=moment("valid-at", valid_at))
    if as_json:
        screen.say_json(None if record is None else record.model_dump(mode="json"))
    elif record is not None:
        screen.say(f"{record.id} {summary(record)}")
    if record is None:
        screen.complain(f"veridical: no record {id}")
        raise typer.Exit(NEGATIVE)


def recall(
    query: Annotated[str, typer.Argument(help="Any words.", show_default=False)],
    scope: Annotated[
        str | None, typer.Option("--scope", help="Only there. [default: everywhere]", show_default=False)
    ] = None,
    kind: Annotated[str | None, typer.Option("--kind", help="Only this kind.", show_default=False)] = None,
    trust: Annotated[
        str | None, typer.Option("--trust", help="Only candidate, or only verified.", show_default=False)
    ] = None,
    k: Annotated[int, typer.Option("-k", min=1, max=1000, help="At most so many.")] = RECALLED,
    read: ReadOption = "strong",
    as_of: AsOfOption = None,
    valid_at: ValidAtOption = None,
    key: KeyOption = None,
    token_file: TokenOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    explain: Annotated[bool, typer.Option("--explain", help="Say why each is there.", show_default=False)] = False,
    as_json: JsonOption = False,
) -> None:
    """Show what answers the query, best first."""
    from ..memory.view import MemoryKind, Trust
    from .target import connected

    wanted_kind = None if kind is None else one_of(MemoryKind, "kind", kind)
    wanted_trust = None if trust is None else one_of(Trust, "trust", trust)
    with connected(data, endpoint, timeout, read, key=key, token_file=token_file) as memory:
        found: Any = memory.recall(
            query,
            scope=scope,
            kind=wanted_kind,
            trust=wanted_trust,
            k=k,
            as_of=moment("as-of", as_of),
            valid_at=moment("valid-at", valid_at),
        )
    if as_json:
        records = [record.model_dump(mode="json") for record in found]
        answer = {"index": found.index, "now": found.now.isoformat(), "scopes": found.scopes, "records": records}
        if explain:
            answer |= {"explain": [hit._asdict() for hit in found.explain()], "notices": found.notices}
        screen.say_json(answer)
        return
    for record, hit in zip(found, found.explain(), strict=True):
        screen.say(f"{record.id} {summary(record)}")
        if explain:
            lanes = ", ".join(f"{lane} {score:.3f}" for lane, score in hit.lanes.items())
            screen.say(f"    score {hit.score:.3f}, fits {hit.relevance:.3f}: {lanes}")
    for notice in found.notices if explain else ():
        screen.complain(notice)
    if not found:
        screen.complain("nothing found")


def history(
    names: Names,
    scope: ScopeOption = "global",
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1000, help="At most so many, newest first.")
    ] = HISTORY_SHOWN,
    as_of: AsOfOption = None,
    valid_at: ValidAtOption = None,
    read: ReadOption = "strong",
    key: KeyOption = None,
    token_file: TokenOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Show every value that was held there, newest first. Exit code 1: none ever was."""
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, read, key=key, token_file=token_file) as memory:
        items = memory.history(id, limit=limit, as_of=moment("as-of", as_of), valid_at=moment("valid-at", valid_at))
    if as_json:
        screen.say_json([item.model_dump(mode="json") for item in items])
    elif items:
        _show_history(items)
    if not items:
        screen.complain(f"veridical: nothing was ever held under {id}")
        raise typer.Exit(NEGATIVE)


def withdraw(
    names: Names,
    scope: ScopeOption = "global",
    source: Annotated[str, typer.Option("--source", help="Whose statement, as it was given.", show_default=False)] = "",
    reason: Annotated[str, typer.Option("--reason", help="Goes into the history.", show_default=False)] = "",
    command: CommandOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Take back having said so: what somebody else states stays, and what nobody states is gone."""
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, key=key) as memory:
        memory.withdraw(id, source=source, reason=reason, command_id=command)
    if as_json:
        screen.say_json({"withdrawn": id})
    else:
        screen.say(f"withdrawn {id}")


def forget(
    names: Names,
    scope: ScopeOption = "global",
    reason: Annotated[str, typer.Option("--reason", help="Goes into the history.", show_default=False)] = "",
    command: CommandOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Retract a record: it is gone from every read, and the same source cannot bring it back."""
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, key=key) as memory:
        memory.forget(id, reason=reason, command_id=command)
    if as_json:
        screen.say_json({"forgotten": id})
    else:
        screen.say(f"forgotten {id}")


def erase(
    names: Names,
    reason: Annotated[str, typer.Option("--reason", help="Goes into the history, and stays there.")],
    scope: ScopeOption = "global",
    command: CommandOption = None,
    key: KeyOption = None,
    data: DataOption = None,
    endpoint: EndpointOption = None,
    timeout: TimeoutOption = TIMEOUT_S,
    as_json: JsonOption = False,
) -> None:
    """Forget a record and destroy all that was said of it, on every node. Nothing brings it back."""
    from .target import connected

    id = record_id(names, scope)
    with connected(data, endpoint, timeout, key=key) as memory:
        done = memory.erase(id, reason=reason, command_id=command)
    if as_json:
        screen.say_json({"erased": id, "index": done.event.index})
    else:
        screen.say(f"erased {id} (index {done.event.index}); each node destroys what it has, moments from now")


def moment(field: str, told: str | None) -> datetime | None:
    """A time in ISO 8601 with its zone. Raises `Invalid`."""
    from datetime import datetime

    from ..memory.errors import Invalid

    if told is None:
        return None
    try:
        time = datetime.fromisoformat(told)
    except ValueError as error:
        raise Invalid(field, f"{told!r} is no time; write it as 2024-03-01T12:00Z") from error
    if time.tzinfo is None:
        raise Invalid(field, f"{told!r} needs a zone; write it as 2024-03-01T12:00Z, or with +01:00 at its end")
    return time


def record_id(names: Sequence[str], scope: str) -> str:
    """The id that one name is, or the id of a subject and a predicate. Raises `Invalid`."""
    from ..memory.errors import Invalid
    from ..memory.keys import make_id, make_key

    if len(names) == 2:
        return make_id(make_key(names[0], names[1], scope))
    if len(names) != 1:
        raise Invalid("names", "give an id, or a subject and a predicate")
    if not _is_id(names[0]):
        raise Invalid("id", f"{names[0]!r} is not {ID_CHARACTERS} hex digits; or give a subject and a predicate")
    return names[0].lower()


def _is_id(name: str) -> bool:
    return len(name) == ID_CHARACTERS and set(name.lower()) <= set("0123456789abcdef")


def one_of(choices: Any, field: str, value: str) -> Any:
    """The member of an enumeration that `value` names. Raises `Invalid`."""
    from ..memory.errors import Invalid

    try:
        return choices(value)
    except ValueError as error:
        raise Invalid(field, f"{value!r} is none of {', '.join(choices)}") from error


def summary(record: MemoryRecord) -> str:
    """A record in one line: how much it is believed, where it holds, what it says."""
    about = f"{record.subject} / {record.predicate}: " if record.subject else ""
    numbers = f"{record.trust.value} {record.epistemic_confidence:.2f}"
    return screen.plain(f"[{numbers}, {record.scope}] {about}{record.text}")


def _fact_fields(words: Sequence[str]) -> dict[str, object]:
    from ..memory.errors import Invalid

    if len(words) == 1:
        return {"text": words[0]}
    if len(words) == 3:
        return {"subject": words[0], "predicate": words[1], "text": words[2]}
    raise Invalid("text", f"{len(words)} words: give a subject, a predicate and a text, or one sentence, in quotes")


def _object(text: str) -> dict[str, Any]:
    from ..memory.fields import json_object

    return json_object("metadata", text) if text else {}


def _show_history(items: Sequence[HistoryItem]) -> None:
    rows = [
        (
            item.version.index, item.recorded_from.isoformat(timespec="milliseconds"), item.cause, item.trust.value,
            item.text, item.ended_by or None, item.reason or None,
        )
        for item in items
    ]  # fmt: skip
    columns = ("index", "recorded", "by", "trust", "text", "ended by", "reason")
    screen.console().print(screen.table(columns, rows, numbers=("index",)))
