"""What can be asked of a memory, and how each command's body is written.

A body is a msgpack array in a fixed field order that begins with the version of its form: `[1, field, …]`, the fields
being those of the classes below. Maps and floats do not occur; `metadata` and `detail` are JSON objects as text. Bodies
hold all erasable text; what decides is taken from them once, on the leader, and stands in the events from then on.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgpack

from . import limits
from .errors import Invalid, TooLarge
from .record import CANDIDATE, REJECTED
from .scope import normal_pattern, normal_scope
from .text import unnameable_character, value_key

FORM: Final = 1
KINDS: Final = ("fact", "design_rule", "schema", "failure", "skill")
EMPTY_JSON: Final = "{}"

MULTI_VALUED: Final = "multi_valued"
WINDOW_US: Final = "window_us"
WINDOW_COUNT: Final = "window_count"


class Command(NamedTuple):
    """One command of an envelope: `content` is its body without the salt, `author` its principal, if any."""

    id: bytes
    kind: str
    content: bytes
    author: bytes | None


class WriteBody(NamedTuple):
    """`memory.write`. Subject and predicate are both given, or both empty for an atomic sentence. `ignored` names
    fields that the caller tried to set and no caller can."""

    kind: str
    subject: str
    predicate: str
    scope: str
    text: str
    metadata: str = EMPTY_JSON
    detail: str = EMPTY_JSON
    source: str = ""
    provenance: tuple[str, ...] = ()
    valid_from_us: int | None = None
    valid_to_us: int | None = None
    ttl_us: int | None = None
    volatile: bool = False
    ignored: tuple[str, ...] = ()


class CorroborateBody(NamedTuple):
    """`memory.corroborate`: believe it more. `source` tells anonymous authors' evidence apart."""

    id: bytes
    source: str = ""


class ContradictBody(NamedTuple):
    """`memory.contradict`: believe it less. `evidence` names what speaks against it."""

    id: bytes
    evidence: str = ""
    reason: str = ""


class PromoteBody(NamedTuple):
    """`memory.promote`: a human review found it true."""

    id: bytes
    reason: str


class DemoteBody(NamedTuple):
    """`memory.demote`: a human review found it doubtful or wrong. Empty `trust` means one step down."""

    id: bytes
    trust: str
    reason: str


class AnnotateBody(NamedTuple):
    """`memory.annotate`: merge these JSON objects into metadata and detail; null removes a field."""

    id: bytes
    metadata: str = EMPTY_JSON
    detail: str = EMPTY_JSON


class FlagsBody(NamedTuple):
    """`memory.set_flags`: None leaves a flag alone, a time to live of 0 lifts it."""

    id: bytes
    volatile: bool | None = None
    ttl_us: int | None = None


class PinBody(NamedTuple):
    """`memory.pin` and `memory.unpin`."""

    id: bytes


class PruneBody(NamedTuple):
    """`memory.prune`: remove those of `ids` that the rule allows at `now_us`. `epoch`: void in any other epoch."""

    now_us: int
    half_life_us: int
    ids: tuple[bytes, ...]
    epoch: int | None = None


class ForgetBody(NamedTuple):
    """`memory.forget`: retract the record with all it ever held."""

    id: bytes
    reason: str = ""


class ReinforceBody(NamedTuple):
    """`memory.reinforce`: these were recalled. `epoch`: void in any other epoch."""

    ids: tuple[bytes, ...]
    epoch: int | None = None


class SettingBody(NamedTuple):
    """`memory.setting`: `multi_valued` takes (scope pattern, predicate), the two of the window take an integer.

    A declaration stays: values that live side by side cannot be put in one place again without losing some.
    """

    name: str
    value: int | tuple[str, str]


Body: TypeAlias = (
    WriteBody | CorroborateBody | ContradictBody | PromoteBody | DemoteBody | AnnotateBody | FlagsBody | PinBody
    | PruneBody | ForgetBody | ReinforceBody | SettingBody
)  # fmt: skip

WRITE: Final = "memory.write"
CORROBORATE: Final = "memory.corroborate"
CONTRADICT: Final = "memory.contradict"
PROMOTE: Final = "memory.promote"
DEMOTE: Final = "memory.demote"
ANNOTATE: Final = "memory.annotate"
SET_FLAGS: Final = "memory.set_flags"
PIN: Final = "memory.pin"
UNPIN: Final = "memory.unpin"
PRUNE: Final = "memory.prune"
FORGET: Final = "memory.forget"
REINFORCE: Final = "memory.reinforce"
SETTING: Final = "memory.setting"

BODIES: Final[Mapping[str, Callable[..., Body]]] = {
    WRITE: WriteBody,
    CORROBORATE: CorroborateBody,
    CONTRADICT: ContradictBody,
    PROMOTE: PromoteBody,
    DEMOTE: DemoteBody,
    ANNOTATE: AnnotateBody,
    SET_FLAGS: FlagsBody,
    PIN: PinBody,
    UNPIN: PinBody,
    PRUNE: PruneBody,
    FORGET: ForgetBody,
    REINFORCE: ReinforceBody,
    SETTING: SettingBody,
}

_pack = cast(Callable[[Any], bytes], msgpack.packb)
_unpack = cast(Callable[..., Any], msgpack.unpackb)


def encode_body(kind: str, body: Body) -> bytes:
    """The bytes of a body, checked as every node will check them. Raises `Invalid` or `TooLarge`."""
    _check(kind, body)
    try:
        raw = _pack([FORM, *body])
    except (ValueError, OverflowError) as error:
        raise Invalid(kind, f"cannot be encoded: {error}") from error
    if len(raw) > limits.BODY_BYTES_LIMIT:
        raise TooLarge(kind, len(raw), limits.BODY_BYTES_LIMIT)
    return raw


def decode_body(kind: str, raw: bytes) -> Body:
    """Read a body and check every field. Whatever the bytes, it raises nothing but `Invalid` and `TooLarge`."""
    if len(raw) > limits.BODY_BYTES_LIMIT:
        raise TooLarge(kind, len(raw), limits.BODY_BYTES_LIMIT)
    try:
        body = stored_body(kind, raw)
    except Exception as error:  # msgpack has no common base class for what hostile bytes can make it raise
        raise Invalid(kind, f"not the body of such a command: {error}") from error
    _check(kind, body)
    return body


def stored_body(kind: str, raw: bytes) -> Body:
    """Read a body that was checked when its command was decided."""
    form, *fields = cast("list[Any]", _unpack(raw, use_list=False))
    if form != FORM:
        raise ValueError(f"form {form} of the body is not known")
    return BODIES[kind](*fields)


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


# --- checks: one for each class of body -----------------------------------------------------------------------------


def _check(kind: str, body: Body) -> None:
    expected = BODIES.get(kind)
    if expected is None:
        raise Invalid("kind", f"{kind!r} is not a command")
    if type(body) is not expected:
        raise Invalid(kind, f"its body is not a {type(body).__name__}")
    _CHECKS[type(body)](body)


def _check_write(body: WriteBody) -> None:
    if body.kind not in KINDS:
        raise Invalid("kind", f"{body.kind!r} is none of {', '.join(KINDS)}")
    _check_names(body.subject, body.predicate)
    _check_scope(body.scope)
    _string("text", body.text, limits.TEXT_CHARACTERS_LIMIT)
    if not value_key(body.text):
        raise Invalid("text", "is empty")
    _json("metadata", body.metadata)
    _json("detail", body.detail)
    _string("source", body.source, limits.NAME_CHARACTERS_LIMIT)
    if body.provenance:
        _strings("provenance", body.provenance, limits.PROVENANCE_LIMIT)
    _check_interval(body.valid_from_us, body.valid_to_us)
    if body.ttl_us is not None and _duration("ttl", body.ttl_us) == 0:
        raise Invalid("ttl", "is zero")
    if type(body.volatile) is not bool:
        raise Invalid("volatile", "is not a boolean")
    if body.ignored:
        _strings("ignored", body.ignored, limits.PROVENANCE_LIMIT)


def _check_names(subject: str, predicate: str) -> None:
    _name("subject", subject)
    _name("predicate", predicate)
    if bool(subject) != bool(predicate):
        missing = "predicate" if subject else "subject"
        raise Invalid(missing, "is empty; give subject and predicate, or neither for an atomic sentence")


def _check_scope(scope: str) -> None:
    if type(scope) is not str:
        raise Invalid("scope", "is not a string")
    if normal_scope(scope) != scope:
        raise Invalid("scope", f"is not in its normal form {normal_scope(scope)!r}")


def _check_interval(valid_from_us: int | None, valid_to_us: int | None) -> None:
    for field, moment in (("valid_from", valid_from_us), ("valid_to", valid_to_us)):
        if moment is not None:
            _moment(field, moment)
    if valid_from_us is not None and valid_to_us is not None and valid_from_us >= valid_to_us:
        raise Invalid("valid_to", "is not later than valid_from")


def _check_corroborate(body: CorroborateBody) -> None:
    _id(body.id)
    _string("source", body.source, limits.NAME_CHARACTERS_LIMIT)


def _check_contradict(body: ContradictBody) -> None:
    _id(body.id)
    _string("evidence", body.evidence, limits.NAME_CHARACTERS_LIMIT)
    _string("reason", body.reason, limits.REASON_CHARACTERS_LIMIT)


def _check_promote(body: PromoteBody) -> None:
    _id(body.id)
    _reason(body.reason)


def _check_demote(body: DemoteBody) -> None:
    _id(body.id)
    _reason(body.reason)
    if body.trust not in ("", CANDIDATE, REJECTED):
        raise Invalid("trust", f"{body.trust!r} is not below verified; {CANDIDATE} and {REJECTED} are")


def _check_annotate(body: AnnotateBody) -> None:
    _id(body.id)
    _json("metadata", body.metadata)
    _json("detail", body.detail)


def _check_flags(body: FlagsBody) -> None:
    _id(body.id)
    if body.volatile is not None and type(body.volatile) is not bool:
        raise Invalid("volatile", "is not a boolean")
    if body.ttl_us is not None:
        _duration("ttl", body.ttl_us)


def _check_pin(body: PinBody) -> None:
    _id(body.id)


def _check_prune(body: PruneBody) -> None:
    _moment("now", body.now_us)
    if _duration("half_life", body.half_life_us) == 0:
        raise Invalid("half_life", "is zero")
    _ids(body.ids)
    _epoch(body.epoch)


def _check_forget(body: ForgetBody) -> None:
    _id(body.id)
    _string("reason", body.reason, limits.REASON_CHARACTERS_LIMIT)


def _check_reinforce(body: ReinforceBody) -> None:
    _ids(body.ids)
    _epoch(body.epoch)


def _check_setting(body: SettingBody) -> None:
    match body.name, body.value:
        case "multi_valued", (str(pattern), str(predicate)):
            _name("predicate", predicate)
            if normal_pattern(pattern) != pattern or not predicate:
                raise Invalid("value", "is not (scope pattern, predicate) in normal form")
        case "window_us" | "window_count", int(value) if value is not True:
            _integer("value", value, 1, limits.DURATION_US_LIMIT)
        case _:
            raise Invalid("setting", f"{body.name!r} does not exist, or does not take that value")


_CHECKS: Final[Mapping[type[Any], Callable[[Any], None]]] = {
    WriteBody: _check_write,
    CorroborateBody: _check_corroborate,
    ContradictBody: _check_contradict,
    PromoteBody: _check_promote,
    DemoteBody: _check_demote,
    AnnotateBody: _check_annotate,
    FlagsBody: _check_flags,
    PinBody: _check_pin,
    PruneBody: _check_prune,
    ForgetBody: _check_forget,
    ReinforceBody: _check_reinforce,
    SettingBody: _check_setting,
}

# --- checks of single fields ----------------------------------------------------------------------------------------


def _string(field: str, value: object, limit: int) -> None:
    if type(value) is not str:
        raise Invalid(field, "is not a string")
    if len(value) > limit:
        raise TooLarge(field, len(value), limit, "characters")


def _name(field: str, value: str) -> None:
    _string(field, value, limits.NAME_CHARACTERS_LIMIT)
    hidden = unnameable_character(value)
    if hidden:
        raise Invalid(field, f"contains the invisible character U+{ord(hidden):04X}")
    if value != value.strip():
        raise Invalid(field, "has white space around it")


def _strings(field: str, values: object, limit: int) -> None:
    if type(values) is not tuple:
        raise Invalid(field, "is not a list")
    items = cast("tuple[object, ...]", values)
    if len(items) > limit:
        raise TooLarge(field, len(items), limit, "items")
    for item in items:
        _string(field, item, limits.NAME_CHARACTERS_LIMIT)


def _json(field: str, text: object) -> None:
    if text == EMPTY_JSON:
        return
    if type(text) is not str:
        raise Invalid(field, "is not JSON as a string")
    json_object(field, text)


def _reason(reason: str) -> None:
    _string("reason", reason, limits.REASON_CHARACTERS_LIMIT)
    if not reason.strip():
        raise Invalid("reason", "is empty; a review says why")


def _integer(field: str, value: object, lowest: int, highest: int) -> int:
    if type(value) is not int:
        raise Invalid(field, "is not an integer")
    if not lowest <= value <= highest:
        raise Invalid(field, f"{value} is not between {lowest} and {highest}")
    return value


def _moment(field: str, value: object) -> int:
    return _integer(field, value, limits.TIME_US_LOWEST, limits.TIME_US_LIMIT)


def _duration(field: str, value: object) -> int:
    return _integer(field, value, 0, limits.DURATION_US_LIMIT)


def _epoch(value: int | None) -> None:
    if value is not None:
        _integer("epoch", value, 0, (1 << 63) - 1)


def _id(id: object) -> None:
    if type(id) is not bytes or len(id) != 16:
        raise Invalid("id", "is not a record id")


def _ids(ids: object) -> None:
    if type(ids) is not tuple:
        raise Invalid("ids", "is not a list of record ids")
    items = cast("tuple[object, ...]", ids)
    if len(items) > limits.BATCH_IDS_LIMIT:
        raise TooLarge("ids", len(items), limits.BATCH_IDS_LIMIT, "ids")
    for item in items:
        _id(item)
