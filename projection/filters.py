"""Hard filters as SQL: they stand inside every query that finds records, never behind it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final, NamedTuple

from ..memory.record import EPISODE
from ..memory.scope import EVERY_SCOPE, is_pattern
from .answers import Filters
from .rows import TRUST_NUMBERS, scope_mark
from .scopes import ScopeCount

SQL_TRUE: Final = "1"
SCOPES_NAMED_LIMIT: Final = 64


class Allowed(NamedTuple):
    """The same for columns in memory, but for the scopes. None allows anything; `but_kind` is a kind left out."""

    now_us: int
    kind: str | None
    but_kind: str | None
    trust: int | None
    valid_at_us: int | None


@dataclass(frozen=True, slots=True)
class Conditions:
    """A WHERE clause over `record`, with its parameters. `scopes` are those of the filter that exist here."""

    sql: str
    parameters: tuple[object, ...]
    scopes: tuple[ScopeCount, ...] | None
    unknown_scopes: tuple[str, ...]
    allowed: Allowed

    @staticmethod
    def of(filters: Filters, now_us: int, known: dict[str, ScopeCount], sources_too: bool = True) -> Conditions:
        """The conditions that records live at `now_us` meet. `known` holds the scopes asked for that have records.

        Without `sources_too`, episodes are found by who asks for their kind, and by nobody else.
        """
        parts: list[tuple[str, object]] = [("record.expiry_us > ?", now_us)]
        scopes = None
        if filters.scopes is not None and EVERY_SCOPE not in filters.scopes:
            scopes = tuple(known.values())
            numbers = json.dumps([scope.number for scope in scopes])
            parts.append(("record.scope IN (SELECT value FROM json_each(?))", numbers))
        if filters.kind is not None:
            parts.append(("record.kind = ?", filters.kind))
        elif not sources_too:
            parts.append(("record.kind != ?", EPISODE))
        if filters.trust is not None:
            parts.append(("record.trust = ?", TRUST_NUMBERS.get(filters.trust, -1)))
        if filters.valid_at_us is not None:
            parts.append(("record.valid_from_us <= ?", filters.valid_at_us))
            parts.append(("record.valid_to_us > ?", filters.valid_at_us))
        if filters.as_of_us is not None:
            parts.append(("record.since_us <= ?", filters.as_of_us))
        unknown = tuple(name for name in filters.scopes or () if name not in known and not is_pattern(name))
        trust = None if filters.trust is None else TRUST_NUMBERS.get(filters.trust, -1)
        left_out = EPISODE if filters.kind is None and not sources_too else None
        allowed = Allowed(now_us, filters.kind, left_out, trust, filters.valid_at_us)
        sql, parameters = " AND ".join(sql for sql, _ in parts), tuple(value for _, value in parts)
        return Conditions(sql, parameters, scopes, unknown, allowed)

    @property
    def is_empty(self) -> bool:
        """Whether nothing can meet them: scopes were named and none exists."""
        return self.scopes is not None and not self.scopes

    @property
    def scope_records(self) -> int | None:
        """How many records the scopes hold together; None when they are all, or too many to be named one by one."""
        if self.scopes is None or len(self.scopes) > SCOPES_NAMED_LIMIT:
            return None
        return sum(scope.records for scope in self.scopes)

    @property
    def scope_expression(self) -> str:
        """A full-text expression for being in one of the scopes."""
        return "marks : (" + " OR ".join(f'"{scope_mark(scope.number)}"' for scope in self.scopes or ()) + ")"
