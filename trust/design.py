"""Design rules (when a condition holds, an action prevents a kind of failure), schemas over them, and their records."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from ..memory.limits import DERIVED_FROM_LIMIT
from ..memory.view import MemoryKind, MemoryRecord

DESIGN_RULE: Final = "design_rule"
SCHEMA: Final = "schema"


@dataclass(frozen=True, slots=True)
class DesignRule:
    """Condition → action, for a kind of failure; `exceptions` are conditions under which it does not hold."""

    condition: str
    action: str
    covers_kind: str
    exceptions: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        """In words. The same rule gives the same text, since it is the value that is compared."""
        but = f" (except when {', or when '.join(self.exceptions)})" if self.exceptions else ""
        return f"when {self.condition}{but}: {self.action}"

    def detail(self) -> dict[str, Any]:
        """As it stands in a record."""
        named: dict[str, Any] = {
            "condition": self.condition, "action": self.action, "covers_kind": self.covers_kind,
        }  # fmt: skip
        return named | ({"exceptions": list(self.exceptions)} if self.exceptions else {})


def rule_record(rule: DesignRule, *, subject: str, scope: str, derived_from: Sequence[str] = ()) -> MemoryRecord:
    """A rule to be written, resting on records."""
    return MemoryRecord(
        kind=MemoryKind.DESIGN_RULE,
        subject=subject,
        predicate=DESIGN_RULE,
        text=rule.text,
        scope=scope,
        detail=rule.detail(),
        derived_from=list(derived_from),
    )


def rule_of(record: MemoryRecord) -> DesignRule:
    """The rule that a record holds. One that is not structured is its own condition and action."""
    detail = cast("Mapping[str, object]", record.detail)

    def field(name: str, otherwise: str) -> str:
        value = detail.get(name)
        return value if isinstance(value, str) and value.strip() else otherwise

    exceptions = detail.get("exceptions")
    listed = cast("list[object]", exceptions) if isinstance(exceptions, list) else []
    return DesignRule(
        field("condition", record.text),
        field("action", record.text),
        field("covers_kind", record.subject),
        tuple(one for one in listed if isinstance(one, str)),
    )


def schema_record(theme: str, text: str, order: int, members: Sequence[MemoryRecord], scope: str) -> MemoryRecord:
    """A schema to be written, resting on its members."""
    ids = [member.id for member in members]
    return MemoryRecord(
        kind=MemoryKind.SCHEMA,
        subject=theme,
        predicate=SCHEMA,
        text=text,
        scope=scope,
        detail={"order": order, "theme": theme, "members": ids},
        derived_from=ids[:DERIVED_FROM_LIMIT],
    )


def strings_of(record: MemoryRecord, field: str) -> list[str]:
    """The texts in a list in the detail of a record, whatever else stands there."""
    value = record.detail.get(field)
    items = cast("list[object]", value) if isinstance(value, list) else []
    return [item for item in items if isinstance(item, str)]
