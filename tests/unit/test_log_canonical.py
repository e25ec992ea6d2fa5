"""Canonical bytes: one value, one encoding."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.log.canonical import DEPTH_LIMIT, Canonical, NotCanonical, decode, encode, tagged_hash

INTEGERS = st.integers(min_value=-(1 << 63), max_value=(1 << 64) - 1)
SCALARS = st.none() | st.booleans() | INTEGERS | st.text() | st.binary()
VALUES = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=6), max_leaves=40)


@given(VALUES)
def test_a_value_comes_back_as_it_was(value: Canonical) -> None:
    assert decode(encode(value)) == value


@given(VALUES, VALUES)
def test_different_values_have_different_encodings(one: Any, other: Any) -> None:
    # Python thinks that True == 1; the encoding does not.
    assert (encode(one) == encode(other)) == (repr(one) == repr(other))


@given(st.binary(max_size=60))
def test_what_decodes_at_all_is_the_one_encoding_of_its_value(raw: bytes) -> None:
    try:
        value = decode(raw)
    except NotCanonical:
        return
    assert encode(value) == raw


@given(VALUES, st.data())
def test_a_flipped_byte_never_decodes_to_the_same_value(value: Canonical, data: st.DataObject) -> None:
    raw = bytearray(encode(value))
    raw[data.draw(st.integers(0, len(raw) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        other = decode(bytes(raw))
    except NotCanonical:
        return
    assert repr(other) != repr(value)


@pytest.mark.parametrize(
    "value",
    [1.5, {}, {"a": 1}, {1}, [[1.0]], [{}], 1 << 64, -(1 << 63) - 1, "\ud800", bytearray(b"x")],
    ids=repr,
)
def test_values_outside_the_form_are_refused(value: Any) -> None:
    with pytest.raises(NotCanonical):
        encode(value)


@pytest.mark.parametrize(
    ("raw", "what"),
    [
        (b"", "nothing"),
        (b"\x01\x02", "two values"),
        (b"\xcc\x05", "5 in two bytes"),
        (b"\xd9\x01a", "a short string with a long head"),
        (b"\xdc\x00\x01\x01", "a short array with a long head"),
        (b"\xc5\x00\x01a", "short bytes with a long head"),
        (b"\xcb\x3f\xf8\x00\x00\x00\x00\x00\x00", "a float"),
        (b"\xca\x3f\xc0\x00\x00", "a short float"),
        (b"\x80", "an empty map"),
        (b"\x81\xa1a\x01", "a map"),
        (b"\xd4\x01\x00", "an extension"),
        (b"\xd6\xff\x00\x00\x00\x00", "a timestamp"),
        (b"\xa1\xff", "text that is not UTF-8"),
        (b"\xc1", "the unused byte"),
        (b"\x92\x01", "an array cut short"),
        (b"\xdf\xff\xff\xff\xff", "a map with a huge head"),
        (b"\x91" * 100_000 + b"\x01", "a hundred thousand brackets"),
    ],
)
def test_other_msgpack_is_refused(raw: bytes, what: str) -> None:
    with pytest.raises(NotCanonical):
        decode(raw)


def test_arrays_nest_as_deep_as_the_limit_and_no_deeper() -> None:
    value: Canonical = 0
    for _ in range(DEPTH_LIMIT):
        value = [value]
    assert decode(encode(value)) == value
    with pytest.raises(NotCanonical, match="deeper"):
        encode([value])


def test_a_tag_keeps_hashes_of_the_same_bytes_apart() -> None:
    assert tagged_hash(b"one\0", b"x") != tagged_hash(b"two\0", b"x")
    assert tagged_hash(b"one\0", b"x", b"y") == tagged_hash(b"one\0", b"xy")
