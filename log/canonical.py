"""Canonical bytes: the one way in which signed and hashed values are written as msgpack.

A value is an array of fixed field order made of integers (shortest width), booleans, nil, UTF-8 strings, byte
strings and arrays. Maps and floats do not occur, so one value has exactly one encoding. Examples for clients in
other languages are published in `tests/vectors/canonical.json`.
"""

from __future__ import annotations

import hashlib
from types import NoneType
from typing import Any, TypeAlias, Union, cast

import msgpack

Canonical: TypeAlias = Union[int, bool, str, bytes, "list[Canonical]", "tuple[Canonical, ...]", None]

DEPTH_LIMIT = 32
"""Arrays nest no deeper, so that a hostile value cannot exhaust the stack of any client."""

ZERO_HASH = bytes(32)

_SCALARS = frozenset((int, bool, str, bytes, NoneType))


class NotCanonical(ValueError):
    """The bytes are not the canonical encoding of any value; refuse them, they were not written by this protocol."""


def encode(value: Canonical) -> bytes:
    """The canonical bytes of `value`. Raises `NotCanonical` for floats, maps and anything else outside the form."""
    _check(value, DEPTH_LIMIT)
    return pack(value)


def pack(value: Canonical) -> bytes:
    """`encode` for values whose types the caller vouches for: it does not look for floats and maps."""
    try:
        return cast("bytes", msgpack.packb(value, use_bin_type=True))  # pyright: ignore[reportUnknownMemberType]
    except (OverflowError, UnicodeEncodeError) as error:
        raise NotCanonical(str(error)) from error


def decode(raw: bytes) -> Any:
    """The value that `raw` encodes; arrays come back as lists.

    Raises `NotCanonical` unless `encode` gives `raw` again.
    """
    try:
        value = cast("Any", msgpack.unpackb(raw, raw=False))  # pyright: ignore[reportUnknownMemberType]
    except Exception as error:  # msgpack has no common base class for what hostile bytes can make it raise
        raise NotCanonical(f"not msgpack: {error}") from error
    if encode(value) != raw:
        raise NotCanonical("not in the shortest form")
    return value


def tagged_hash(tag: bytes, *parts: bytes) -> bytes:
    """SHA-256 over a domain tag and the parts, 32 bytes. The tag keeps hashes of different kinds apart."""
    return hashlib.sha256(tag + b"".join(parts)).digest()


def _check(value: object, depth: int) -> None:
    if isinstance(value, list | tuple) and not isinstance(value, msgpack.ExtType):
        if depth == 0:
            raise NotCanonical(f"arrays nest deeper than {DEPTH_LIMIT}")
        for item in cast("list[object]", value):
            if type(item) not in _SCALARS:
                _check(item, depth - 1)
    elif not isinstance(value, int | str | bytes | NoneType):
        raise NotCanonical(f"{type(value).__name__} has no canonical form")
