"""Identity: what a fact is about decides which record it meets, and nothing else does (MEMORY § 2)."""

from __future__ import annotations

from functools import lru_cache
from hashlib import sha256
from typing import Final
from unicodedata import normalize

ID_BYTES: Final = 16
NAMES_KEPT: Final = 1_024
RESERVED_PREDICATES: Final = frozenset({"author_trust", "fails", "design_rule", "schema", "tool"})
RESERVED_SCOPES: Final = frozenset({"meta:authors"})

# What the product itself learns, by the kind of its records: a record of another kind cannot pose as one of them.
OWN_KINDS: Final = {"fails": "failure", "design_rule": "design_rule", "schema": "schema", "tool": "skill"}

_KEY_TAG: Final = b"veridical/record/1\0"
_SENTENCE_TAG: Final = b"veridical/sentence/1\0"
_EPISODE_TAG: Final = b"veridical/episode/1\0"
_VALUE_TAG: Final = b"veridical/value/1\0"


def normal_name(name: str) -> str:
    """A subject, predicate or scope as it is compared: NFC, lower case, no outer white space."""
    if name.isascii():
        return name.strip().lower()
    return normalize("NFC", normalize("NFC", name).lower()).strip()


def make_key(subject: str, predicate: str, scope: str) -> str:
    """The key of a fact: its three names, normal and escaped so that different names never give one key."""
    return f"{_escaped(subject)}|{_escaped(predicate)}|{_escaped(scope)}"


def make_id(key: str) -> str:
    """The id of a key: 128 bits of SHA-256 as 32 hex digits."""
    return record_id(key).hex()


def record_id(key: str) -> bytes:
    """`make_id` as 16 bytes."""
    return sha256(_KEY_TAG + key.encode("utf-8", "surrogatepass")).digest()[:ID_BYTES]


def sentence_id(scope: str, value_digest: bytes) -> bytes:
    """The id of an atomic sentence, which has no subject and predicate: made of its scope and its keyed digest."""
    return sha256(_SENTENCE_TAG + value_digest + normal_name(scope).encode()).digest()[:ID_BYTES]


def value_id(key: str, value_digest: bytes) -> bytes:
    """The id of one value of a multi-valued predicate: its values live side by side."""
    return sha256(_VALUE_TAG + value_digest + key.encode()).digest()[:ID_BYTES]


@lru_cache(maxsize=NAMES_KEPT)
def is_reserved_key(predicate: str, scope: str) -> bool:
    """Whether a predicate or scope belongs to the product's own state, in whatever spelling."""
    return normal_name(predicate) in RESERVED_PREDICATES or normal_name(scope) in RESERVED_SCOPES


def is_own_record(kind: str, predicate: str, scope: str) -> bool:
    """Whether a record under a reserved predicate is of the kind that the predicate is reserved for."""
    return OWN_KINDS.get(normal_name(predicate)) == kind and normal_name(scope) not in RESERVED_SCOPES


def id_by_value(subject: str, predicate: str, scope: str, value_digest: bytes) -> bytes:
    """The id of a record whose value is part of its key: a sentence, or one of many values."""
    if not subject:
        return sentence_id(scope, value_digest)
    return value_id(make_key(subject, predicate, scope), value_digest)


def episode_id(scope: str, value_digest: bytes, source: bytes, follows: bytes, occurred_us: int | None) -> bytes:
    """The id of an episode: what was said, where it comes from (a digest), after what, and when."""
    moment = b"" if occurred_us is None else occurred_us.to_bytes(8, "big", signed=True)
    place = b"".join(len(part).to_bytes(1, "big") + part for part in (value_digest, source, follows, moment))
    return sha256(_EPISODE_TAG + place + normal_name(scope).encode()).digest()[:ID_BYTES]


def _escaped(name: str) -> str:
    normal = normal_name(name)
    if "%" in normal or "|" in normal:
        return normal.replace("%", "%25").replace("|", "%7c")
    return normal
