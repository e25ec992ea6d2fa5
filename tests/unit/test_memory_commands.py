"""Bodies of commands: one encoding, clear errors, limits by name."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, cast

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.memory import limits
from veridical.memory.commands import (
    ANNOTATE,
    BODIES,
    CORROBORATE,
    DEMOTE,
    FORGET,
    PROMOTE,
    PRUNE,
    REINFORCE,
    SETTING,
    WRITE,
    AnnotateBody,
    Body,
    CorroborateBody,
    DemoteBody,
    ForgetBody,
    PromoteBody,
    PruneBody,
    ReinforceBody,
    SettingBody,
    WriteBody,
    decode_body,
    encode_body,
)
from veridical.memory.errors import Invalid, TooLarge
from veridical.memory.fields import json_object, json_text

encode = cast(Callable[[Any], bytes], msgpack.packb)
ID = b"i" * 16
GOOD = WriteBody("fact", "auth", "uses", "repo:app", "JWT")

names = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=9)
finite = st.floats(allow_nan=False, allow_infinity=False)
scalars = st.integers() | names | st.none() | st.booleans() | finite
bodies = st.builds(
    WriteBody,
    st.sampled_from(["fact", "skill"]),
    names,
    names,
    st.sampled_from(["global", "user:dana"]),
    names,
    st.dictionaries(names, scalars).map(lambda value: json_text("metadata", value)),
    st.just("{}"),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=9),
    st.lists(names, max_size=3).map(tuple),
    st.none() | st.integers(-5, 0),
    st.none() | st.integers(1, 5),
    st.none() | st.integers(1, 5),
    st.booleans(),
    vouched=names | st.just(""),
    derived_from=st.lists(st.binary(min_size=16, max_size=16), max_size=3).map(tuple),
    follows=st.just(b""),
)


@given(bodies)
def test_a_body_survives_the_way(body: WriteBody) -> None:
    """What was encoded is what is read."""
    assert decode_body(WRITE, encode_body(WRITE, body)) == body


def test_the_published_form_of_a_write() -> None:
    """An array that begins with the version of the form: a client in another language can write it."""
    assert encode_body(WRITE, GOOD) == encode(
        [
            1,
            "fact",
            "auth",
            "uses",
            "repo:app",
            "JWT",
            "{}",
            "{}",
            "",
            [],
            None,
            None,
            None,
            False,
            [],
        ]
    )


@given(st.sampled_from(sorted(BODIES)), st.binary(max_size=60))
def test_hostile_bytes_are_invalid_and_nothing_else(kind: str, raw: bytes) -> None:
    """No bytes raise anything but `Invalid`."""
    with suppress(Invalid):
        decode_body(kind, raw)


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), 1 << 63) | st.text(max_size=5) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(st.sampled_from(sorted(BODIES)), st.lists(values, max_size=16))
def test_wrong_types_are_invalid_and_nothing_else(kind: str, fields: list[Any]) -> None:
    """Whatever stands where a field should, it is named as invalid or it is right."""
    with suppress(Invalid):
        decode_body(kind, encode([1, *fields]))


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"kind": "opinion"}, "kind"),
        ({"text": ""}, "text"),
        ({"text": " \u200b\n"}, "text"),
        ({"text": 5}, "text"),
        ({"subject": ""}, "subject"),
        ({"predicate": ""}, "predicate"),
        ({"subject": " a"}, "subject"),
        ({"subject": "a\u200bb"}, "subject"),
        ({"predicate": "a\nb"}, "predicate"),
        ({"scope": "TEAM"}, "scope"),
        ({"scope": "u/*"}, "scope"),
        ({"scope": ""}, "scope"),
        ({"scope": None}, "scope"),
        ({"metadata": "[]"}, "metadata"),
        ({"metadata": "{"}, "metadata"),
        ({"metadata": '{"a":NaN}'}, "metadata"),
        ({"detail": "x"}, "detail"),
        ({"metadata": '{"a":' * 20 + "1" + "}" * 20}, "metadata"),
        ({"metadata": '{"a":"\\ud800"}'}, "metadata"),
        ({"valid_from_us": 2, "valid_to_us": 2}, "valid_to"),
        ({"valid_from_us": 1.5}, "valid_from"),
        ({"valid_to_us": 1 << 62}, "valid_to"),
        ({"ttl_us": 0}, "ttl"),
        ({"ttl_us": -1}, "ttl"),
        ({"ttl_us": True}, "ttl"),
        ({"volatile": 1}, "volatile"),
        ({"provenance": ("a", 5)}, "provenance"),
        ({"text": "\ud800"}, WRITE),
    ],
)
def test_a_write_that_is_wrong_names_the_field(change: dict[str, Any], field: str) -> None:
    """Every wrong field has an error of its own."""
    with pytest.raises(Invalid) as caught:
        encode_body(WRITE, GOOD._replace(**change))
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("change", "size", "limit"),
    [
        ({"text": "x" * 20_001}, 20_001, limits.TEXT_CHARACTERS_LIMIT),
        ({"subject": "x" * 513}, 513, limits.NAME_CHARACTERS_LIMIT),
        ({"source": "x" * 513}, 513, limits.NAME_CHARACTERS_LIMIT),
        ({"provenance": ("x",) * 33}, 33, limits.PROVENANCE_LIMIT),
        ({"scope": "x" * 257}, 257, limits.SCOPE_CHARACTERS_LIMIT),
        ({"metadata": '{"a":"' + "x" * 65_530 + '"}'}, 65_538, limits.JSON_BYTES_LIMIT),
    ],
)
def test_what_is_too_large_says_by_how_much(change: dict[str, Any], size: int, limit: int) -> None:
    """Nothing is ever shortened."""
    with pytest.raises(TooLarge) as caught:
        encode_body(WRITE, GOOD._replace(**change))
    assert (caught.value.size, caught.value.limit) == (size, limit)


def test_a_text_of_exactly_the_limit_is_taken() -> None:
    """The limit itself is allowed."""
    assert encode_body(WRITE, GOOD._replace(text="x" * 20_000))


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (PROMOTE, PromoteBody(ID, "  ")),
        (PROMOTE, PromoteBody(b"short", "why")),
        (DEMOTE, DemoteBody(ID, "verified", "why")),
        (DEMOTE, DemoteBody(ID, "", "")),
        (FORGET, ForgetBody(ID, "x" * 2_001)),
        (CORROBORATE, CorroborateBody(ID, "x" * 513)),
        (ANNOTATE, AnnotateBody(ID, "null")),
        (REINFORCE, ReinforceBody((ID,) * 1_001)),
        (REINFORCE, ReinforceBody((b"",))),
        (PRUNE, PruneBody(0, 0, ())),
        (PRUNE, PruneBody(0, 1, (), -1)),
        (SETTING, SettingBody("colour", 5)),
        (SETTING, SettingBody("window_us", 0)),
        (SETTING, SettingBody("window_us", True)),
        (SETTING, SettingBody("multi_valued", ("A", "likes"))),
        (SETTING, SettingBody("multi_valued", ("a*", "likes"))),
        (SETTING, SettingBody("multi_valued", ("a", ""))),
        (WRITE, ForgetBody(ID)),
        ("memory.nonsense", ForgetBody(ID)),
    ],
)
def test_other_bodies_that_are_wrong(kind: str, body: Body) -> None:
    """Each is refused before it is sent."""
    with pytest.raises(Invalid):
        encode_body(kind, body)


@pytest.mark.parametrize("value", [{"a": float("nan")}, {"a": object()}, {"a": {"b": frozenset[int]()}}])
def test_what_json_cannot_hold_is_invalid(value: dict[str, Any]) -> None:
    """It is named, not stored as something else."""
    with pytest.raises(Invalid, match="metadata"):
        json_text("metadata", value)


def test_types_in_json_are_kept_apart() -> None:
    """A number, a decimal, a string, a boolean and null stay what they are."""
    value = {"a": 20230601, "b": 20230601.0, "c": "20230601", "d": True, "e": None}
    again = json_object("metadata", json_text("metadata", value))
    assert [(type(item), item) for item in again.values()] == [(type(item), item) for item in value.values()]
