"""As much of protobuf's wire format as a call to etcd needs, so that no generated code has to be installed."""

from __future__ import annotations

LENGTH_DELIMITED = 2


def field(number: int, value: bytes) -> bytes:
    """One length-delimited field."""
    return bytes([number << 3 | LENGTH_DELIMITED]) + _varint(len(value)) + value


def integers(message: bytes) -> dict[int, int]:
    """The integers among the top-level fields of a message."""
    return {number: value for number, value in _fields(message).items() if isinstance(value, int)}


def part(message: bytes, number: int) -> bytes:
    """A length-delimited top-level field; empty where there is none."""
    value = _fields(message).get(number, b"")
    return value if isinstance(value, bytes) else b""


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])


def _fields(message: bytes) -> dict[int, int | bytes]:
    found: dict[int, int | bytes] = {}
    place = 0
    while place < len(message):
        key, place = _read_varint(message, place)
        value, place = _read_varint(message, place)
        if key & 7 == LENGTH_DELIMITED:
            found[key >> 3] = message[place : place + value]
            place += value
        else:
            found[key >> 3] = value
    return found


def _read_varint(message: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[place]
        place += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, place
