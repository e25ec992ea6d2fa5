"""Exports: a history in one file."""

from __future__ import annotations

import io
from zlib import crc32

import pytest
from log_world import CLUSTER, NAME, Scribe, altered, short_history

from veridical.log.canonical import encode
from veridical.log.errors import LogDamaged, LogForeign
from veridical.log.export import FRAME_BYTES_LIMIT, Export, ExportHeader, write_export
from veridical.log.verify import Verification, verify

HEADER = ExportHeader(CLUSTER, NAME)


def _exported(scribe: Scribe) -> bytes:
    stream = io.BytesIO()
    assert write_export(stream, HEADER, scribe.history) == scribe.end
    return stream.getvalue()


def _verified(raw: bytes) -> Verification:
    export = Export(io.BytesIO(raw), "history.vlog")
    return verify(export.history(), export.header.cluster_id, export.header.cluster)


def test_a_history_comes_back_with_seals_and_bodies() -> None:
    scribe = short_history()
    scribe.entries[3] = altered(scribe.entries[3], bodies=(None, b"salt of 16 bytes"))
    export = Export(io.BytesIO(_exported(scribe)), "history.vlog")
    history = list(export.history())
    assert export.header == HEADER
    assert history == scribe.history
    assert [entry.bodies for entry, _ in history] == [entry.bodies for entry in scribe.entries]


def test_an_empty_history_is_exported_too() -> None:
    assert list(Export(io.BytesIO(_exported(Scribe())), "history.vlog").history()) == []


def test_an_export_verifies_by_itself() -> None:
    assert _verified(_exported(short_history())).is_good


def test_a_flipped_byte_anywhere_is_found_at_its_entry() -> None:
    scribe = short_history()
    raw = _exported(scribe)
    beginnings = [_beginning(scribe, count) for count in range(len(scribe.entries) + 1)]
    stops = [len(_exported(beginning)) - len(_end(beginning)) for beginning in beginnings]
    for place in range(0, len(raw), 3):
        flipped = raw[:place] + bytes([raw[place] ^ 0x10]) + raw[place + 1 :]
        if place < stops[0]:
            with pytest.raises(LogForeign):
                _verified(flipped)
        else:
            expected = sum(place >= stop for stop in stops)
            assert _verified(flipped).bad_index == expected, f"byte {place}"


def _beginning(scribe: Scribe, count: int) -> Scribe:
    part = Scribe()
    part.entries, part.seals = scribe.entries[:count], scribe.seals
    return part


def _end(scribe: Scribe) -> bytes:
    """As many bytes as the last frame of its export has."""
    return bytes(8) + encode(["end", scribe.end.index, scribe.end.hash])


def test_a_cut_at_any_byte_is_found() -> None:
    raw = _exported(short_history())
    header_bytes = len(_exported(Scribe())) - len(_end(Scribe()))
    for length in range(0, len(raw), 7):
        if length < header_bytes:
            with pytest.raises(LogForeign):
                _verified(raw[:length])
        else:
            found = _verified(raw[:length])
            assert found.bad_index == found.last.index + 1
            assert "ends too early" in found.what


def test_what_follows_the_end_is_found() -> None:
    found = _verified(_exported(short_history()) + b"x")
    assert found.bad_index == 8
    assert "goes on after its end" in found.what


@pytest.mark.parametrize("raw", [b"", b"a text of no particular kind, longer than a prefix", bytes(100)])
def test_other_files_are_no_exports(raw: bytes) -> None:
    with pytest.raises(LogForeign, match="not an export"):
        Export(io.BytesIO(raw), "history.vlog")


def test_an_export_of_a_later_version_is_named() -> None:
    stream = io.BytesIO(_framed([*("veridical-log", 2), CLUSTER, NAME]))
    with pytest.raises(LogForeign, match="version 2"):
        Export(stream, "history.vlog")


@pytest.mark.parametrize(
    "frame",
    [
        ["other"],
        ["entry", [1], None],
        ["entry", 1, None],
        ["end", 5, bytes(32)],
        [],
        7,
    ],
    ids=repr,
)
def test_frames_that_do_not_belong_there_are_refused(frame: list[object] | int) -> None:
    header = _framed(["veridical-log", 1, CLUSTER, NAME])
    with pytest.raises(LogDamaged) as caught:
        list(Export(io.BytesIO(header + _framed(frame)), "history.vlog").history())
    assert (caught.value.file, caught.value.index) == ("history.vlog", 1)


def test_a_frame_beyond_the_limit_is_refused_before_it_is_read() -> None:
    header = _framed(["veridical-log", 1, CLUSTER, NAME])
    huge = (FRAME_BYTES_LIMIT + 1).to_bytes(4, "big") + bytes(4)
    with pytest.raises(LogDamaged, match="limit"):
        list(Export(io.BytesIO(header + huge), "history.vlog").history())


def _framed(value: object) -> bytes:
    payload = encode(value)  # pyright: ignore[reportArgumentType]
    return len(payload).to_bytes(4, "big") + crc32(payload).to_bytes(4, "big") + payload
