"""What belongs together, and what it says together: the grouping and wording that consolidation does without a model.

Wording never depends on how often something was seen or in which order, so that a second look says the same.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Final

from ..memory.text import canonical_text, value_key
from ..memory.view import MemoryRecord
from .design import DesignRule, rule_of
from .matching import stems
from .scrubbing import scrubbed

SHOWN_CHARACTERS: Final = 300
"""How much of one text goes into a text about many."""

MEMBERS_NAMED: Final = 12
SUBJECT_CHARACTERS: Final = 120

_PLACEHOLDER: Final = re.compile(r"\{\w+\}")  # what scrubbing puts in the place of what varies
_SEGMENT: Final = re.compile(r"[.:/]")


def grouped(
    records: Iterable[MemoryRecord], key: Callable[[MemoryRecord], str]
) -> list[tuple[str, list[MemoryRecord]]]:
    """Records by what they have in common, in a stable order."""
    groups: defaultdict[str, list[MemoryRecord]] = defaultdict(list)
    for record in records:
        groups[key(record)].append(record)
    return [(name, sorted(groups[name], key=lambda record: record.id)) for name in sorted(groups)]


def failure_kind(failure: MemoryRecord) -> str:
    """What kind of failure it is: what the grader called it, or else what it says."""
    kind = failure.detail.get("kind")
    named = kind if isinstance(kind, str) and value_key(kind) else scrubbed(failure.text)
    return canonical_text(named)[:SUBJECT_CHARACTERS].strip()


def theme_of(rule: MemoryRecord) -> str:
    """What a rule is about: the first part of its kind (`layout.overflow`), or the grader that looks for it."""
    kind = rule_of(rule).covers_kind
    head, *rest = _SEGMENT.split(kind)
    grader = rule.detail.get("grader")
    if rest and head.strip():
        return head.strip()
    return grader if isinstance(grader, str) and grader.strip() else kind


def rule_from(kind: str, failures: Sequence[MemoryRecord]) -> DesignRule:
    """What failures of a kind have in common, as a condition, and the plain consequence."""
    said = [_PLACEHOLDER.sub(" ", failure.text) for failure in failures]
    common = reduce(frozenset[str].intersection, map(stems, said))
    words = [word for word in shown(said[0]).split() if stems(word) & common]
    condition = f"a change concerns {' '.join(words)}" if words else f"a change could cause {kind}"
    return DesignRule(condition, f"check for {kind} before it is called done", kind)


def schema_text(theme: str, members: Sequence[MemoryRecord]) -> str:
    """What rules or schemas say together."""
    said = "; ".join(sorted({shown(member.text) for member in members})[:MEMBERS_NAMED])
    return f"about {theme}: {said}"


def shown(text: str) -> str:
    """A text as part of another one."""
    plain = canonical_text(text)
    return plain if len(plain) <= SHOWN_CHARACTERS else f"{plain[:SHOWN_CHARACTERS].rstrip()}…"
