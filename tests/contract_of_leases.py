"""What every lease source that keeps claims promises: one class, run against each of them."""

from __future__ import annotations

from veridical.lease.sources import LeaseSource

TTL_US = 600_000


class ContractOfLeases:
    """What every source that keeps claims promises."""

    def test_first_come_gets_the_claim(self, source: LeaseSource) -> None:
        """The first owner may try, another may not until the claim runs out."""
        claim = source.acquire("brain", "A", TTL_US, 1000)
        assert claim
        assert claim.until_us == 1000 + TTL_US
        assert source.acquire("brain", "B", TTL_US, 2000) is None

    def test_owner_renews_with_the_same_token(self, source: LeaseSource) -> None:
        """A renewal moves the end and keeps the token."""
        first = source.acquire("brain", "A", TTL_US, 1000)
        again = source.acquire("brain", "A", TTL_US, 5000)
        assert first
        assert again
        assert again.token == first.token
        assert again.until_us == 5000 + TTL_US

    def test_token_grows_with_every_owner(self, source: LeaseSource) -> None:
        """After the claim ran out the next owner gets a greater token."""
        first = source.acquire("brain", "A", TTL_US, 1000)
        second = source.acquire("brain", "B", TTL_US, 1000 + TTL_US)
        assert first
        assert second
        assert second.token > first.token

    def test_release_frees_it_at_once_and_never_lowers_the_token(self, source: LeaseSource) -> None:
        """A released claim is free, and its token is not used again."""
        first = source.acquire("brain", "A", TTL_US, 1000)
        source.release("brain", "A")
        second = source.acquire("brain", "B", TTL_US, 1001)
        assert first
        assert second
        assert second.token > first.token

    def test_only_the_owner_releases(self, source: LeaseSource) -> None:
        """A release by somebody else changes nothing."""
        source.acquire("brain", "A", TTL_US, 1000)
        source.release("brain", "B")
        assert source.acquire("brain", "B", TTL_US, 1001) is None

    def test_clusters_are_apart(self, source: LeaseSource) -> None:
        """Two cluster keys do not see each other."""
        source.acquire("brain", "A", TTL_US, 1000)
        assert source.acquire("other", "B", TTL_US, 1000)

    def test_clock_of_an_earlier_boot_locks_nobody_out(self, source: LeaseSource) -> None:
        """A claim far in the future of a clock that restarted counts as run out."""
        source.acquire("brain", "A", TTL_US, 10**12)
        assert source.acquire("brain", "B", TTL_US, 1000)
