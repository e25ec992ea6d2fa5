"""What can be asked of a memory, and how each command's body is written.

A body is a msgpack array in a fixed field order that begins with the version of its form: `[1, field, …]`, the fields
being those of the classes below. Maps and floats do not occur; `metadata` and `detail` are JSON objects as text. Bodies
hold all erasable text; what decides is taken from them once, on the leader, and stands in the events from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, cast

import msgpack

from . import limits
from .errors import Invalid, TooLarge
from .fields import (
    EMPTY_JSON,
    check_bytes,
    check_duration,
    check_epoch,
    check_id,
    check_ids,
    check_integer,
    check_json,
    check_moment,
    check_name,
    check_pattern,
    check_reason,
    check_scope,
    check_string,
    check_strings,
    check_text,
)
from .keys import ID_BYTES
from .record import CANDIDATE, EPISODE, REJECTED
from .trust_commands import TRUST_BODIES, TRUST_CHECKS, VALUE_BYTES, TrustBody

FORM: Final = 1
BODIES_KEPT: Final = 4
KINDS: Final = ("fact", "design_rule", "schema", "failure", "skill", EPISODE)

MULTI_VALUED: Final = "multi_valued"
LATTICE: Final = "lattice"
WINDOW_US: Final = "window_us"
WINDOW_COUNT: Final = "window_count"


class Command(NamedTuple):
    """One command of an envelope: `content` is its body without the salt, `author` its principal, if any.

    `of_node`: a node of this cluster says it on the cluster's own behalf, not on anybody's. `claim`: it has no author,
    and came under the bearer token with that digest (32 bytes), as a node says that signed for it.
    """

    id: bytes
    kind: str
    content: bytes
    author: bytes | None
    of_node: bool = False
    claim: bytes | None = None


class WriteBody(NamedTuple):
    """`memory.write`. Subject and predicate are both given, or both empty for an atomic sentence. `ignored` names
    fields that the caller tried to set and no caller can. `vouched` names whom the author (with the right `vouch`) has
    authenticated as the one who says so: a principal's key in hex, or any other identity. `derived_from` names the
    records that it rests on: then those are its sources, and `source` is a label. An episode may be longer than a fact,
    has neither subject nor predicate, and `follows` the episode before it, if there is one."""

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
    vouched: str = ""
    derived_from: tuple[bytes, ...] = ()
    follows: bytes = b""


class CorrectBody(NamedTuple):
    """`memory.correct`: this text takes the place of what is held; of several sentences, of them all. `metadata` is
    merged into that of the (first) record."""

    ids: tuple[bytes, ...]
    text: str
    metadata: str = EMPTY_JSON
    reason: str = ""


class WithdrawBody(NamedTuple):
    """`memory.withdraw`: the author takes back having said so. `source` tells anonymous authors apart."""

    id: bytes
    source: str = ""
    reason: str = ""


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


class EmbedBody(NamedTuple):
    """`memory.embed`: the vector that a service made of the value with this digest. Only nodes of the cluster say so.

    `embedder` names the service's model, `vector` is in the form in which an index keeps it; empty where the text says
    nothing to the model. `epoch`: void in any other epoch.
    """

    id: bytes
    value: bytes
    embedder: str
    vector: bytes
    epoch: int


class SettingBody(NamedTuple):
    """`memory.setting`: `multi_valued` takes (scope pattern, predicate), `lattice` (scope, the scope it lies within; or
    empty), the two of the window take an integer.

    A declaration of a multi-valued predicate stays: values that live side by side cannot be put in one place again
    without losing some.
    """

    name: str
    value: int | tuple[str, str]


Body: TypeAlias = (
    WriteBody | CorrectBody | WithdrawBody | CorroborateBody | ContradictBody | PromoteBody | DemoteBody
    | AnnotateBody | FlagsBody | PinBody | PruneBody | ForgetBody | ReinforceBody | EmbedBody | SettingBody | TrustBody
)  # fmt: skip

WRITE: Final = "memory.write"
CORRECT: Final = "memory.correct"
WITHDRAW: Final = "memory.withdraw"
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
EMBED: Final = "memory.embed"
SETTING: Final = "memory.setting"

OF_NODES: Final = frozenset({EMBED})
"""What only a node says, for the cluster itself; from anybody else it is not granted."""

BODIES: Final[Mapping[str, Callable[..., Body]]] = {
    WRITE: WriteBody,
    CORRECT: CorrectBody,
    WITHDRAW: WithdrawBody,
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
    EMBED: EmbedBody,
    SETTING: SettingBody,
    **TRUST_BODIES,
}

_pack = cast(Callable[[Any], bytes], msgpack.packb)
_unpack = cast(Callable[..., Any], msgpack.unpackb)


def encode_body(kind: str, body: Body) -> bytes:
    """The bytes of a body, checked as every node will check them. Raises `Invalid` or `TooLarge`."""
    _check(kind, body)
    try:
        raw = _pack([FORM, *_written(body)])
    except (ValueError, OverflowError) as error:
        raise Invalid(kind, f"cannot be encoded: {error}") from error
    if len(raw) > limits.BODY_BYTES_LIMIT:
        raise TooLarge(kind, len(raw), limits.BODY_BYTES_LIMIT)
    return raw


def _written(body: Body) -> tuple[Any, ...]:
    """The fields as they are written: those that came later are left out while they say nothing."""
    if type(body) is not WriteBody or body.follows:
        return body
    if body.derived_from:
        return body[:-1]
    return body[:-2] if body.vouched else body[:-3]


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


@lru_cache(maxsize=BODIES_KEPT)
def stored_body(kind: str, raw: bytes) -> Body:
    """Read a body that was checked when its command was decided. Who decides one folds it at once: it is read once."""
    form, *fields = cast("list[Any]", _unpack(raw, use_list=False))
    if form != FORM:
        raise ValueError(f"form {form} of the body is not known")
    return BODIES[kind](*fields)


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
    check_scope(body.scope)
    if body.kind == EPISODE:
        _check_episode(body)
    else:
        check_text(body.text)
        if body.follows:
            raise Invalid("follows", "is for episodes; a fact names the one it was taken from in derived_from")
    check_json("metadata", body.metadata)
    check_json("detail", body.detail)
    check_string("source", body.source, limits.NAME_CHARACTERS_LIMIT)
    if body.provenance:
        check_strings("provenance", body.provenance, limits.PROVENANCE_LIMIT)
    _check_interval(body.valid_from_us, body.valid_to_us)
    if body.ttl_us is not None and check_duration("ttl", body.ttl_us) == 0:
        raise Invalid("ttl", "is zero")
    if type(body.volatile) is not bool:
        raise Invalid("volatile", "is not a boolean")
    if body.vouched != "":
        check_name("vouched", body.vouched)
    if body.ignored:
        check_strings("ignored", body.ignored, limits.PROVENANCE_LIMIT)
    if body.derived_from:
        check_ids(body.derived_from, "derived_from", limits.DERIVED_FROM_LIMIT)


def _check_episode(body: WriteBody) -> None:
    check_string("text", body.text, limits.EPISODE_CHARACTERS_LIMIT)
    if not body.text.strip():
        raise Invalid("text", "is empty")
    if body.subject:
        raise Invalid("subject", "is not for an episode, which says many things; write facts that are derived from it")
    if body.derived_from:
        raise Invalid("derived_from", "is not for an episode, which is a source itself")
    if body.follows:
        check_bytes("follows", body.follows, ID_BYTES)


def _check_names(subject: str, predicate: str) -> None:
    check_name("subject", subject)
    check_name("predicate", predicate)
    if bool(subject) != bool(predicate):
        missing = "predicate" if subject else "subject"
        raise Invalid(missing, "is empty; give subject and predicate, or neither for an atomic sentence")


def _check_interval(valid_from_us: int | None, valid_to_us: int | None) -> None:
    for field, moment in (("valid_from", valid_from_us), ("valid_to", valid_to_us)):
        if moment is not None:
            check_moment(field, moment)
    if valid_from_us is not None and valid_to_us is not None and valid_from_us >= valid_to_us:
        raise Invalid("valid_to", "is not later than valid_from")


def _check_correct(body: CorrectBody) -> None:
    check_ids(body.ids, "ids", limits.MERGED_LIMIT)
    if not body.ids:
        raise Invalid("ids", "is empty; name what is to be corrected")
    check_text(body.text)
    check_json("metadata", body.metadata)
    check_string("reason", body.reason, limits.REASON_CHARACTERS_LIMIT)


def _check_withdraw(body: WithdrawBody) -> None:
    check_id(body.id)
    check_string("source", body.source, limits.NAME_CHARACTERS_LIMIT)
    check_string("reason", body.reason, limits.REASON_CHARACTERS_LIMIT)


def _check_corroborate(body: CorroborateBody) -> None:
    check_id(body.id)
    check_string("source", body.source, limits.NAME_CHARACTERS_LIMIT)


def _check_contradict(body: ContradictBody) -> None:
    check_id(body.id)
    check_string("evidence", body.evidence, limits.NAME_CHARACTERS_LIMIT)
    check_string("reason", body.reason, limits.REASON_CHARACTERS_LIMIT)


def _check_promote(body: PromoteBody) -> None:
    check_id(body.id)
    check_reason(body.reason)


def _check_demote(body: DemoteBody) -> None:
    check_id(body.id)
    check_reason(body.reason)
    if body.trust not in ("", CANDIDATE, REJECTED):
        raise Invalid("trust", f"{body.trust!r} is not below verified; {CANDIDATE} and {REJECTED} are")


def _check_annotate(body: AnnotateBody) -> None:
    check_id(body.id)
    check_json("metadata", body.metadata)
    check_json("detail", body.detail)


def _check_flags(body: FlagsBody) -> None:
    check_id(body.id)
    if body.volatile is not None and type(body.volatile) is not bool:
        raise Invalid("volatile", "is not a boolean")
    if body.ttl_us is not None:
        check_duration("ttl", body.ttl_us)


def _check_pin(body: PinBody) -> None:
    check_id(body.id)


def _check_prune(body: PruneBody) -> None:
    check_moment("now", body.now_us)
    if check_duration("half_life", body.half_life_us) == 0:
        raise Invalid("half_life", "is zero")
    check_ids(body.ids)
    check_epoch(body.epoch)


def _check_forget(body: ForgetBody) -> None:
    check_id(body.id)
    check_string("reason", body.reason, limits.REASON_CHARACTERS_LIMIT)


def _check_reinforce(body: ReinforceBody) -> None:
    check_ids(body.ids)
    check_epoch(body.epoch)


def _check_embed(body: EmbedBody) -> None:
    check_id(body.id)
    check_bytes("value", body.value, VALUE_BYTES)
    check_name("embedder", body.embedder)
    if not body.embedder:
        raise Invalid("embedder", "is empty")
    if type(body.vector) is not bytes:
        raise Invalid("vector", "is not bytes")
    if len(body.vector) > limits.VECTOR_BYTES_LIMIT:
        raise TooLarge("vector", len(body.vector), limits.VECTOR_BYTES_LIMIT)
    check_epoch(body.epoch)


def _check_setting(body: SettingBody) -> None:
    match body.name, body.value:
        case "multi_valued", (str(pattern), str(predicate)):
            check_name("predicate", predicate)
            check_pattern(pattern)
            if not predicate:
                raise Invalid("predicate", "is empty")
        case "lattice", (str(child), str(parent)):
            check_scope(child)
            if parent:
                check_scope(parent)
        case "window_us" | "window_count", int(value) if value is not True:
            check_integer("value", value, 1, limits.DURATION_US_LIMIT)
        case _:
            raise Invalid("setting", f"{body.name!r} does not exist, or does not take that value")


_CHECKS: Final[Mapping[type[Any], Callable[[Any], None]]] = {
    WriteBody: _check_write,
    CorrectBody: _check_correct,
    WithdrawBody: _check_withdraw,
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
    EmbedBody: _check_embed,
    SettingBody: _check_setting,
    **TRUST_CHECKS,
}
