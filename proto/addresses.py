"""Addresses as people write them: host:port, IPv6 hosts in brackets."""

from __future__ import annotations

import ipaddress
from typing import Final

PORT_LIMIT: Final = 65_535
LOOPBACK_NAMES: Final = frozenset({"localhost", "localhost."})


def split(address: str) -> tuple[str, int]:
    """Host (without brackets) and port. Raises `ValueError` that says what is wrong."""
    host, colon, port = address.rpartition(":")
    if not colon or not host:
        raise ValueError(f"{address!r} is not host:port")
    if not port.isdecimal() or int(port) > PORT_LIMIT:
        raise ValueError(f"{address!r}: the port is not a number up to {PORT_LIMIT}")
    bracketed = host.startswith("[") and host.endswith("]")
    if ":" in host and not bracketed:
        raise ValueError(f"{address!r}: an IPv6 host stands in brackets, as in [::1]:7400")
    return (host[1:-1] if bracketed else host), int(port)


def is_loopback(address: str) -> bool:
    """Whether only this machine can reach it."""
    host, _ = split(address)
    ip = _ip(host)
    return host.lower() in LOOPBACK_NAMES if ip is None else ip.is_loopback


def is_wildcard(address: str) -> bool:
    """Whether it means every address of a machine, and so tells nobody where it is."""
    host, _ = split(address)
    ip = _ip(host)
    return host == "*" or (ip is not None and ip.is_unspecified)


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
