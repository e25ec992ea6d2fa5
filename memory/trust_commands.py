"""What can be asked about trust: who may do what. Bodies and checks of these commands; `commands` encodes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, cast

from . import limits
from .context import RIGHTS
from .errors import Invalid, TooLarge
from .fields import (
    INTEGER_LIMIT,
    check_bytes,
    check_id,
    check_integer,
    check_json,
    check_key,
    check_moment,
    check_name,
    check_pattern,
    check_reason,
    check_string,
    check_text,
)

ENROLL: Final = "principal.enroll"
REVOKE: Final = "principal.revoke"
ROTATE: Final = "principal.rotate"
GIVE: Final = "grant.give"
TAKE: Final = "grant.take"
APPROVE: Final = "review.approve"
REJECT: Final = "review.reject"
EDIT: Final = "review.edit"
REVOKE_REJECTION: Final = "review.revoke_rejection"
UNDO: Final = "memory.undo"
ATTEST: Final = "memory.attest"
MARK_FIXED: Final = "memory.mark_fixed"
ERASE: Final = "memory.erase"
ISSUE_TOKEN: Final = "token.issue"
REVOKE_TOKEN: Final = "token.revoke"

SIGNATURE_BYTES: Final = 64
VALUE_BYTES: Final = 16
TOKEN_ID_BYTES: Final = 16
TOKEN_DIGEST_BYTES: Final = 32


class EnrollBody(NamedTuple):
    """`principal.enroll`: know this public key (32 bytes) under a name, with these grants `(pattern, rights)`."""

    key: bytes
    name: str
    grants: tuple[tuple[str, tuple[str, ...]], ...]


class RevokeBody(NamedTuple):
    """`principal.revoke`: nothing that this key signs counts from now on, and no support that it gave."""

    key: bytes
    reason: str


class RotateBody(NamedTuple):
    """`principal.rotate`: the same person goes on with another key. `proof` signs `rotation_message` with it."""

    key: bytes
    successor: bytes
    proof: bytes


class GrantBody(NamedTuple):
    """`grant.give` and `grant.take`: rights of one principal in one scope pattern."""

    key: bytes
    pattern: str
    rights: tuple[str, ...]


class ReviewBody(NamedTuple):
    """`review.approve` and `review.reject`: what a reviewer found of a value under a key.

    `value` is the digest of a contending value (16 bytes); empty for the value that is held.
    """

    id: bytes
    value: bytes
    reason: str


class EditBody(NamedTuple):
    """`review.edit`: the reviewer knows better: this text takes the place of what is held, as verified."""

    id: bytes
    text: str
    reason: str


class RevokeRejectionBody(NamedTuple):
    """`review.revoke_rejection`: that value may be asserted under that key again. Empty `text`: the value held."""

    id: bytes
    text: str
    reason: str


class UndoBody(NamedTuple):
    """`memory.undo`: take the last event about a record back. `event` is its (epoch, index, place)."""

    id: bytes
    event: tuple[int, int, int]
    reason: str


class AttestBody(NamedTuple):
    """`memory.attest`: a gate came to a verdict about this record. `evidence` is its receipt as JSON (`receipts`)."""

    id: bytes
    evidence: str


class FixBody(NamedTuple):
    """`memory.mark_fixed`: the failure that this record is about was fixed; it is kept for good."""

    id: bytes


class EraseBody(NamedTuple):
    """`memory.erase`: destroy what was ever said under this id, on every node."""

    id: bytes
    reason: str


class IssueTokenBody(NamedTuple):
    """`token.issue`: whoever shows the secret with this SHA-256 (32 bytes) is taken for the principal of that key.

    `expires_us` is when that ends, None for never.
    """

    key: bytes
    digest: bytes
    label: str
    expires_us: int | None = None


class RevokeTokenBody(NamedTuple):
    """`token.revoke`: the token of that id (16 bytes) is worth nothing from now on."""

    id: bytes
    reason: str = ""


TrustBody: TypeAlias = (
    EnrollBody | RevokeBody | RotateBody | GrantBody | ReviewBody | EditBody | RevokeRejectionBody | UndoBody
    | AttestBody | FixBody | EraseBody | IssueTokenBody | RevokeTokenBody
)  # fmt: skip

TRUST_BODIES: Final[Mapping[str, Callable[..., TrustBody]]] = {
    ENROLL: EnrollBody,
    REVOKE: RevokeBody,
    ROTATE: RotateBody,
    GIVE: GrantBody,
    TAKE: GrantBody,
    APPROVE: ReviewBody,
    REJECT: ReviewBody,
    EDIT: EditBody,
    REVOKE_REJECTION: RevokeRejectionBody,
    UNDO: UndoBody,
    ATTEST: AttestBody,
    MARK_FIXED: FixBody,
    ERASE: EraseBody,
    ISSUE_TOKEN: IssueTokenBody,
    REVOKE_TOKEN: RevokeTokenBody,
}


def rotation_message(key: bytes, successor: bytes) -> bytes:
    """What a new key signs to show that its holder agrees to follow an old one."""
    return b"veridical/rotation/1\0" + key + successor


def _check_enroll(body: EnrollBody) -> None:
    check_key("key", body.key)
    check_name("name", body.name)
    if type(body.grants) is not tuple:
        raise Invalid("grants", "is not a list")
    if len(body.grants) > limits.GRANTS_LIMIT:
        raise TooLarge("grants", len(body.grants), limits.GRANTS_LIMIT, "grants")
    for grant in cast("tuple[object, ...]", body.grants):
        _check_pair(grant)


def _check_pair(grant: object) -> None:
    if type(grant) is not tuple or len(cast("tuple[object, ...]", grant)) != 2:
        raise Invalid("grants", "is not a list of (scope pattern, rights)")
    pattern, rights = cast("tuple[object, object]", grant)
    check_pattern(pattern)
    _check_rights(rights)


def _check_revoke(body: RevokeBody) -> None:
    check_key("key", body.key)
    check_reason(body.reason)


def _check_rotate(body: RotateBody) -> None:
    check_key("key", body.key)
    check_key("successor", body.successor)
    check_bytes("proof", body.proof, SIGNATURE_BYTES)
    if body.key == body.successor:
        raise Invalid("successor", "is the same key")


def _check_grant(body: GrantBody) -> None:
    check_key("key", body.key)
    check_pattern(body.pattern)
    _check_rights(body.rights)


def _check_rights(rights: object) -> None:
    if type(rights) is not tuple or not rights:
        raise Invalid("rights", "is not a list of at least one right")
    named = cast("tuple[object, ...]", rights)
    for right in named:
        if type(right) is not str or right not in RIGHTS:
            raise Invalid("rights", f"one is none of {', '.join(RIGHTS)}")
    if len(set(named)) != len(named):
        raise Invalid("rights", "names a right twice")


def _check_review(body: ReviewBody) -> None:
    check_id(body.id)
    if body.value != b"":
        check_bytes("value", body.value, VALUE_BYTES)
    check_reason(body.reason)


def _check_edit(body: EditBody) -> None:
    check_id(body.id)
    check_text(body.text)
    check_reason(body.reason)


def _check_revoke_rejection(body: RevokeRejectionBody) -> None:
    check_id(body.id)
    if body.text != "":
        check_text(body.text)
    check_reason(body.reason)


def _check_undo(body: UndoBody) -> None:
    check_id(body.id)
    event = cast(object, body.event)
    if not isinstance(event, tuple) or len(cast("tuple[object, ...]", event)) != 3:
        raise Invalid("event", "is not (epoch, index, place)")
    for number in cast("tuple[object, ...]", event):
        check_integer("event", number, 0, INTEGER_LIMIT)
    check_reason(body.reason)


def _check_attest(body: AttestBody) -> None:
    check_id(body.id)
    check_json("evidence", body.evidence)


def _check_fix(body: FixBody) -> None:
    check_id(body.id)


def _check_erase(body: EraseBody) -> None:
    check_id(body.id)
    check_reason(body.reason)


def _check_issue_token(body: IssueTokenBody) -> None:
    check_key("key", body.key)
    check_bytes("digest", body.digest, TOKEN_DIGEST_BYTES)
    check_name("label", body.label)
    if body.expires_us is not None:
        check_moment("expires", body.expires_us)


def _check_revoke_token(body: RevokeTokenBody) -> None:
    check_bytes("id", body.id, TOKEN_ID_BYTES)
    check_string("reason", body.reason, limits.REASON_CHARACTERS_LIMIT)


TRUST_CHECKS: Final[Mapping[type[Any], Callable[[Any], None]]] = {
    EnrollBody: _check_enroll,
    RevokeBody: _check_revoke,
    RotateBody: _check_rotate,
    GrantBody: _check_grant,
    ReviewBody: _check_review,
    EditBody: _check_edit,
    RevokeRejectionBody: _check_revoke_rejection,
    UndoBody: _check_undo,
    AttestBody: _check_attest,
    FixBody: _check_fix,
    EraseBody: _check_erase,
    IssueTokenBody: _check_issue_token,
    RevokeTokenBody: _check_revoke_token,
}
