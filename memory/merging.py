"""How texts of one record come together. Texts only: nothing here is decided by."""

from __future__ import annotations

from collections.abc import Iterable

from .fields import EMPTY_JSON, json_object, json_text
from .limits import PROVENANCE_LIMIT


def merged_json(field: str, text: str, patch: str) -> str:
    """A JSON object with the fields of `patch` over it; null removes a field. Raises `TooLarge` past its limit."""
    if patch == EMPTY_JSON:
        return text
    merged = json_object(field, text or EMPTY_JSON) | json_object(field, patch)
    return json_text(field, {name: value for name, value in merged.items() if value is not None})


def joined(provenance: tuple[str, ...], further: Iterable[str]) -> tuple[str, ...]:
    """Provenance of a record and of what corroborated it, in order of arrival, each once, up to the limit."""
    return tuple(dict.fromkeys([*provenance, *further]))[:PROVENANCE_LIMIT]
