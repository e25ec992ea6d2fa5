"""Command ids."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.log.identifier import TIME_LIMIT_US, NotAnIdentifier, uuid7, uuid7_time_us

TIMES = st.integers(0, TIME_LIMIT_US - 1)
ENTROPY = st.binary(min_size=8, max_size=16)


@given(TIMES, ENTROPY)
def test_an_id_tells_its_time_to_the_microsecond(time_us: int, entropy: bytes) -> None:
    assert uuid7_time_us(uuid7(time_us, entropy)) == time_us


@given(TIMES, TIMES, ENTROPY, ENTROPY)
def test_ids_sort_by_time(one_us: int, other_us: int, one: bytes, other: bytes) -> None:
    if one_us != other_us:
        assert (uuid7(one_us, one) < uuid7(other_us, other)) == (one_us < other_us)


@given(TIMES, ENTROPY)
def test_version_and_variant_are_those_of_rfc_9562(time_us: int, entropy: bytes) -> None:
    id = uuid7(time_us, entropy)
    assert len(id) == 16
    assert id[6] >> 4 == 7
    assert id[8] >> 6 == 0b10


def test_ids_of_one_microsecond_differ_by_their_entropy() -> None:
    assert uuid7(1, bytes(8)) != uuid7(1, bytes(7) + b"\1")


def test_the_example_of_the_rfc_is_read() -> None:
    # RFC 9562, appendix A.6: 2022-02-22 19:22:22 UTC, with random bits where ours hold microseconds.
    id = bytes.fromhex("017F22E279B07CC398C4DC0C0C07398F")
    assert uuid7_time_us(id) // 1000 == 1_645_557_742_000


@pytest.mark.parametrize("id", [b"", bytes(16), bytes(15), b"\xff" * 16, uuid7(1, bytes(8)) + b"\0"], ids=repr)
def test_other_bytes_are_no_id(id: bytes) -> None:
    with pytest.raises(NotAnIdentifier):
        uuid7_time_us(id)


@pytest.mark.parametrize("time_us", [-1, TIME_LIMIT_US])
def test_times_that_do_not_fit_are_refused(time_us: int) -> None:
    with pytest.raises(ValueError, match="outside"):
        uuid7(time_us, bytes(8))


def test_too_little_entropy_is_refused() -> None:
    with pytest.raises(ValueError, match="random bytes"):
        uuid7(1, bytes(7))
