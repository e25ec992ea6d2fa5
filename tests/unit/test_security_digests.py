"""Keyed digests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.security.digests import DigestKey

KEY = DigestKey(b"k" * 32)
PARTS = st.lists(st.binary(max_size=8), max_size=4)


@given(PARTS, PARTS)
def test_equal_parts_and_only_they_have_equal_digests(one: list[bytes], other: list[bytes]) -> None:
    assert len(KEY.digest(*one)) == 16
    assert (KEY.digest(*one) == KEY.digest(*other)) == (one == other)


def test_another_key_gives_other_digests() -> None:
    assert KEY.digest(b"value") != DigestKey(b"l" * 32).digest(b"value")


@given(st.permutations([b"one", b"two", b"three"]))
def test_founders_agree_on_a_key_in_whatever_order_their_shares_arrive(shares: list[bytes]) -> None:
    assert DigestKey.from_shares(shares).secret == DigestKey.from_shares([b"one", b"two", b"three"]).secret


def test_every_share_counts() -> None:
    assert DigestKey.from_shares([b"one", b"two"]).secret != DigestKey.from_shares([b"one", b"too"]).secret
    assert DigestKey.from_shares([b"ab", b"c"]).secret != DigestKey.from_shares([b"a", b"bc"]).secret


def test_a_secret_of_another_length_is_refused() -> None:
    with pytest.raises(ValueError, match="32 bytes"):
        DigestKey(b"short")


def test_no_text_of_a_digest_key_shows_it() -> None:
    assert "k" * 8 not in repr(KEY)
