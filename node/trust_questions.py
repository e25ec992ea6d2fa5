"""Reads about trust as protobuf and back: what waits for reviewers, who is known, the lattice, and what is barred.

See `questions.py`, whose tables these are part of.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ..memory.errors import Invalid
from ..memory.grants import Grant
from ..memory.principals import Principal
from ..memory.record import Record, Version
from ..memory.reputation import AuthorTrust
from ..memory.tokens import Token
from ..projection.answers import Barred, Known, KnownPage, ReadPoint, Review, ReviewPage, TokenPage
from ..proto.generated import memory_pb2
from . import wire
from .rows import past_of, past_row_of, record_of, row_of

KEY_BYTES: Final = 32

LatticePairs = tuple[tuple[str, str], ...]

# --- what waits for reviewers -----------------------------------------------------------------------------------------


def review_page_to_wire(page: ReviewPage) -> memory_pb2.ReviewPage:
    """A page of the queue."""
    reviews = map(_review_to_wire, page.items)
    return memory_pb2.ReviewPage(reviews=reviews, after=page.after or b"", unknown_scopes=page.unknown_scopes)


def review_page(raw: memory_pb2.ReviewPage, point: ReadPoint) -> ReviewPage:
    """A page of the queue that another member gave."""
    return ReviewPage(point, tuple(map(_review, raw.reviews)), raw.after or None, tuple(raw.unknown_scopes))


def _review_to_wire(review: Review) -> memory_pb2.Review:
    return memory_pb2.Review(
        row=row_of(review.record),
        contenders=map(row_of, review.contenders),
        corrections=map(past_row_of, review.corrections),
        barred=review.barred,
        author=None if review.author is None else memory_pb2.AuthorTrust(**review.author._asdict()),
        standing=review.standing,
    )


def _review(raw: memory_pb2.Review) -> Review:
    contenders = tuple(map(_present, raw.contenders))
    corrections = tuple(map(past_of, raw.corrections))
    author = _trust(raw.author) if raw.author.author else None
    return Review(_present(raw.row), contenders, corrections, raw.barred, author, raw.standing)


def _present(row: bytes) -> Record:
    record = record_of(row)
    if record is None:
        raise wire.Malformed("a row is missing")
    return record


def _trust(raw: memory_pb2.AuthorTrust) -> AuthorTrust:
    return AuthorTrust(raw.author, raw.kept, raw.lost, raw.rate_ppm, raw.principals_needed)


# --- who is known -----------------------------------------------------------------------------------------------------


def principals_to_wire(args: Mapping[str, Any]) -> memory_pb2.Principals:
    """The question who is known."""
    return memory_pb2.Principals(key=args.get("key", b""), after=args.get("after", b""), limit=args.get("limit", 0))


def principals(raw: memory_pb2.Principals) -> Mapping[str, Any]:
    """Its arguments. Raises `Invalid` for a key that is none."""
    if raw.key and len(raw.key) != KEY_BYTES:
        raise Invalid("key", f"is not {KEY_BYTES} bytes")
    args: dict[str, Any] = {"key": raw.key, "after": raw.after}
    return args | ({"limit": raw.limit} if raw.limit else {})


def known_page_to_wire(page: KnownPage) -> memory_pb2.KnownPage:
    """A page of principals."""
    return memory_pb2.KnownPage(known=map(_known_to_wire, page.known), after=page.after or b"")


def known_page(raw: memory_pb2.KnownPage, point: ReadPoint) -> KnownPage:
    """A page of principals that another member gave."""
    return KnownPage(point, tuple(map(_known, raw.known)), raw.after or None)


def _known_to_wire(known: Known) -> memory_pb2.Known:
    principal, trust = known
    version = principal.version
    return memory_pb2.Known(
        key=principal.key,
        identity=principal.identity,
        name=principal.name,
        standing=principal.standing,
        grants=[memory_pb2.GrantedRights(pattern=pattern, rights=rights) for pattern, rights in principal.grants],
        trust=memory_pb2.AuthorTrust(**trust._asdict()),
        version=memory_pb2.Version(epoch=version.epoch, index=version.index, place=version.place),
    )


def _known(raw: memory_pb2.Known) -> Known:
    trust = _trust(raw.trust)
    grants = tuple(Grant(grant.pattern, tuple(grant.rights)) for grant in raw.grants)
    version = Version(raw.version.epoch, raw.version.index, raw.version.place)
    return Known(
        Principal(raw.key, raw.identity, raw.name, raw.standing, grants, trust.kept, trust.lost, version), trust
    )


# --- which tokens there are -------------------------------------------------------------------------------------------


def tokens_to_wire(args: Mapping[str, Any]) -> memory_pb2.Tokens:
    """The question which tokens there are."""
    return memory_pb2.Tokens(after=args.get("after", b""), limit=args.get("limit", 0))


def tokens(raw: memory_pb2.Tokens) -> Mapping[str, Any]:
    """Its arguments."""
    args: dict[str, Any] = {"after": raw.after}
    return args | ({"limit": raw.limit} if raw.limit else {})


def token_page_to_wire(page: TokenPage) -> memory_pb2.TokenPage:
    """A page of tokens: by their ids, since of a secret nobody is told more."""
    return memory_pb2.TokenPage(tokens=map(_token_to_wire, page.tokens), after=page.after or b"")


def token_page(raw: memory_pb2.TokenPage, point: ReadPoint) -> TokenPage:
    """A page of tokens that another member gave."""
    return TokenPage(point, tuple(map(_token, raw.tokens)), raw.after or None)


def _token_to_wire(token: Token) -> memory_pb2.IssuedToken:
    version = token.version
    return memory_pb2.IssuedToken(
        digest=token.digest,
        principal=token.principal,
        label=token.label,
        issued_us=token.issued_us,
        expires_us=token.expires_us,
        revoked_us=token.revoked_us,
        version=memory_pb2.Version(epoch=version.epoch, index=version.index, place=version.place),
    )


def _token(raw: memory_pb2.IssuedToken) -> Token:
    return Token(
        raw.digest,
        raw.principal,
        raw.label,
        raw.issued_us,
        raw.expires_us if raw.HasField("expires_us") else None,
        raw.revoked_us if raw.HasField("revoked_us") else None,
        Version(raw.version.epoch, raw.version.index, raw.version.place),
    )


# --- what lies within what, what is barred ----------------------------------------------------------------------------


def lattice_to_wire(pairs: LatticePairs) -> memory_pb2.LatticePairs:
    """Scopes with their parents."""
    return memory_pb2.LatticePairs(
        pairs=[memory_pb2.LatticePair(scope=scope, parent=parent) for scope, parent in pairs]
    )


def lattice(raw: memory_pb2.LatticePairs, _: ReadPoint) -> LatticePairs:
    """Scopes with their parents, as another member gave them."""
    return tuple((pair.scope, pair.parent) for pair in raw.pairs)


def barred_to_wire(values: tuple[Barred, ...]) -> memory_pb2.BarredValues:
    """Rejected values."""
    return memory_pb2.BarredValues(values=[memory_pb2.BarredValue(value=value, text=text) for value, text in values])


def barred(raw: memory_pb2.BarredValues, _: ReadPoint) -> tuple[Barred, ...]:
    """Rejected values, as another member gave them."""
    return tuple(Barred(one.value, one.text if one.HasField("text") else None) for one in raw.values)
