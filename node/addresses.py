"""Addresses as people write them, where nodes look for them."""

from __future__ import annotations

from ..proto.addresses import is_loopback, is_wildcard, split

__all__ = ["is_loopback", "is_wildcard", "split"]
