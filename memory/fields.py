"""What single fields of a command may hold: one check each, with an error that names the field."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from . import limits
from .errors import Invalid, TooLarge
from .scope import normal_pattern, normal_scope
from .text import unnameable_character, value_key

EMPTY_JSON: Final = "{}"
INTEGER_LIMIT: Final = (1 << 63) - 1


def json_text(field: str, value: Mapping[str, Any]) -> str:
    """The one spelling of a JSON object: keys sorted, no white space. Raises `Invalid` for what JSON cannot hold."""
    if not value:
        return EMPTY_JSON
    try:
        text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
        size = len(text.encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise Invalid(field, f"not a JSON object: {error}") from error
    if size > limits.JSON_BYTES_LIMIT:
        raise TooLarge(field, size, limits.JSON_BYTES_LIMIT)
    if not _is_shallow(value, limits.JSON_DEPTH_LIMIT):
        raise Invalid(field, f"nested more than {limits.JSON_DEPTH_LIMIT} deep")
    return text


def json_object(field: str, text: str) -> dict[str, Any]:
    """The JSON object that `text` spells. Raises `Invalid` when it is anything else, or has no spelling of its own."""
    if len(text) > limits.JSON_BYTES_LIMIT:
        raise TooLarge(field, len(text), limits.JSON_BYTES_LIMIT)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Invalid(field, f"not JSON: {error}") from error
    if not isinstance(value, dict):
        raise Invalid(field, "not a JSON object")
    json_text(field, cast("dict[str, Any]", value))
    return cast("dict[str, Any]", value)


def _is_shallow(value: Any, depth: int) -> bool:
    if isinstance(value, Mapping):
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in cast("Mapping[Any, Any]", value).values())
    if isinstance(value, list | tuple):
        return depth > 0 and all(_is_shallow(item, depth - 1) for item in cast("Sequence[Any]", value))
    return True


# --- checks ---------------------------------------------------------------------------------------------------------


def check_string(field: str, value: object, limit: int) -> None:
    """A string of at most `limit` characters."""
    if type(value) is not str:
        raise Invalid(field, "is not a string")
    if len(value) > limit:
        raise TooLarge(field, len(value), limit, "characters")


def check_name(field: str, value: str) -> None:
    """A name that everybody can see: bounded, nothing invisible in it, no white space around it."""
    check_string(field, value, limits.NAME_CHARACTERS_LIMIT)
    hidden = unnameable_character(value)
    if hidden:
        raise Invalid(field, f"contains the invisible character U+{ord(hidden):04X}")
    if value != value.strip():
        raise Invalid(field, "has white space around it")


def check_text(text: object) -> None:
    """The text of a value: bounded, and something is left of it when it is compared."""
    check_string("text", text, limits.TEXT_CHARACTERS_LIMIT)
    if not value_key(cast(str, text)):
        raise Invalid("text", "is empty")


def check_scope(scope: object) -> None:
    """A scope in its normal form."""
    if type(scope) is not str:
        raise Invalid("scope", "is not a string")
    if normal_scope(scope) != scope:
        raise Invalid("scope", f"is not in its normal form {normal_scope(scope)!r}")


def check_pattern(pattern: object) -> None:
    """A scope pattern in its normal form."""
    if type(pattern) is not str:
        raise Invalid("pattern", "is not a string")
    if normal_pattern(pattern) != pattern:
        raise Invalid("pattern", f"is not in its normal form {normal_pattern(pattern)!r}")


def check_strings(field: str, values: object, limit: int) -> None:
    """A tuple of at most `limit` bounded strings."""
    if type(values) is not tuple:
        raise Invalid(field, "is not a list")
    items = cast("tuple[object, ...]", values)
    if len(items) > limit:
        raise TooLarge(field, len(items), limit, "items")
    for item in items:
        check_string(field, item, limits.NAME_CHARACTERS_LIMIT)


def check_json(field: str, text: object) -> None:
    """A JSON object as text."""
    if text == EMPTY_JSON:
        return
    if type(text) is not str:
        raise Invalid(field, "is not JSON as a string")
    json_object(field, text)


def check_reason(reason: str) -> None:
    """Why: not empty."""
    check_string("reason", reason, limits.REASON_CHARACTERS_LIMIT)
    if not reason.strip():
        raise Invalid("reason", "is empty; a review says why")


def check_integer(field: str, value: object, lowest: int, highest: int) -> int:
    """An integer between two bounds; returns it."""
    if type(value) is not int:
        raise Invalid(field, "is not an integer")
    if not lowest <= value <= highest:
        raise Invalid(field, f"{value} is not between {lowest} and {highest}")
    return value


def check_moment(field: str, value: object) -> int:
    """Microseconds since 1970 that a calendar can hold."""
    return check_integer(field, value, limits.TIME_US_LOWEST, limits.TIME_US_LIMIT)


def check_duration(field: str, value: object) -> int:
    """Microseconds, not negative, at most a century."""
    return check_integer(field, value, 0, limits.DURATION_US_LIMIT)


def check_epoch(value: int | None) -> None:
    """An epoch, or None."""
    if value is not None:
        check_integer("epoch", value, 0, INTEGER_LIMIT)


def check_id(id: object) -> None:
    """The id of a record, 16 bytes."""
    if type(id) is not bytes or len(id) != 16:
        raise Invalid("id", "is not a record id")


def check_ids(ids: object, field: str = "ids", limit: int = limits.BATCH_IDS_LIMIT) -> None:
    """A tuple of at most `limit` record ids."""
    if type(ids) is not tuple:
        raise Invalid(field, "is not a list of record ids")
    items = cast("tuple[object, ...]", ids)
    if len(items) > limit:
        raise TooLarge(field, len(items), limit, "ids")
    for item in items:
        check_id(item)


def check_key(field: str, key: object) -> None:
    """A public key, 32 bytes."""
    check_bytes(field, key, 32)


def check_bytes(field: str, value: object, size: int) -> None:
    """Exactly so many bytes."""
    if type(value) is not bytes or len(value) != size:
        raise Invalid(field, f"is not {size} bytes")
