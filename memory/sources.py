"""Who says something, in digests: support counts different, independent sources, never repetitions (MEMORY § 2)."""

from __future__ import annotations

from functools import lru_cache
from typing import Final, NamedTuple

from .context import REVIEW, Context, Digester
from .limits import SOURCES_LIMIT
from .principals import vouched_key
from .record import VERIFIED, Record

RECALLED: Final = "recall:"  # a source of this form is this memory itself, talking back

KEY_BYTES: Final = 32

_AUTHOR: Final = b"author"
_EPISODE: Final = b"episode"
_VOUCHED: Final = b"vouched"
_SCOPE: Final = b"scope"


class Source(NamedTuple):
    """Where a statement comes from: the digest of its episode, or else of its author, who may be authenticated."""

    digest: bytes
    principal: bytes | None


def source_of(author: bytes | None, episode: str, digests: Digester, vouched: str = "") -> Source:
    """The source of a statement by `author` (None: anonymous) taken from `episode` (empty: from nowhere else).

    `vouched` names (by `vouched_name`) who says so in place of the author, who has authenticated them.
    """
    if vouched:
        principal = vouched_digest(digests, vouched)
    else:
        principal = None if author is None else _author_digest(digests, author)
    if episode:
        return Source(digests.digest(_EPISODE, episode.encode()), principal)
    return Source(principal or _author_digest(digests, b""), principal)


def claimed_source(identity: bytes, digests: Digester) -> Source:
    """The source of what is said under a token of that principal: it speaks as nobody, and always as the same one."""
    return Source(_author_digest(digests, identity), None)


def anonymous_digest(digests: Digester) -> bytes:
    """What stands for the anonymous author among sources."""
    return _author_digest(digests, b"")


def vouched_digest(digests: Digester, vouched: str) -> bytes:
    """What stands for somebody who was vouched for: the holder of a key as that key's holder, others by their name."""
    key = vouched_key(vouched)
    return digests.digest(_VOUCHED, vouched.encode()) if key is None else _author_digest(digests, key)


def scope_digest(digests: Digester, scope: str) -> bytes:
    """What tells a scope again without naming it."""
    return digests.digest(_SCOPE, scope.encode())


def speaker_digest(digests: Digester, speaker: bytes) -> bytes:
    """What stands among principals for one of the authenticated: they are named by key, or by that digest itself."""
    return _author_digest(digests, speaker) if len(speaker) == KEY_BYTES else speaker


@lru_cache(maxsize=1024)
def _author_digest(digests: Digester, author: bytes) -> bytes:
    return digests.digest(_AUTHOR, author)


def is_known(record: Record, source: Source) -> bool:
    """Whether this source speaks for the record already: the same principal, or for the anonymous the same source."""
    if source.principal is not None:
        return source.principal in record.principals
    return source.digest in record.sources


def supports(record: Record, source: Source) -> bool:
    """Whether the author is one of the principals that support the record. An anonymous author never is."""
    return source.principal is not None and source.principal in record.principals


def is_saturated(record: Record) -> bool:
    """Whether the record counts as many sources as it can hold."""
    return record.support >= SOURCES_LIMIT or len(record.sources) >= SOURCES_LIMIT


def may_alter(record: Record, author: bytes | None, context: Context) -> bool:
    """Whether the author may flag, annotate or forget it: a verified one is for its supporters and reviewers."""
    if record.trust != VERIFIED or context.rights.holds(author, REVIEW, record.scope):
        return True
    return supports(record, source_of(author, "", context.digests))
