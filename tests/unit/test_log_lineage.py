"""Histories that go on under another id."""

from __future__ import annotations

import io
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st
from log_world import CLUSTER, NAME, NODE_KEYS, Scribe, short_history

from veridical.log.configuration import Configuration, Member
from veridical.log.entry import Entry
from veridical.log.errors import LogError
from veridical.log.export import Export, ExportHeader, write_export
from veridical.log.lineage import RESTORED, Ancestor, Resumption, resumed_id
from veridical.log.notary import Notary
from veridical.log.seal import Seal
from veridical.log.verify import verify
from veridical.security.keys import KeyPair

KEY = KeyPair(bytes([9]) * 32)
ALONE = Configuration((Member("node-9", "n1", KEY.public_key, "localhost:7409"),), 1, 1)
BACKUP = ExportHeader(CLUSTER, NAME, 1_700_000_000_000_000, "0123456789abcdef")


def _resumed(scribe: Scribe, **changes: object) -> tuple[str, list[tuple[Entry, Seal | None]]]:
    """The scribe's history with an entry of node 9 behind it that begins another one, and that one's id."""
    end = scribe.end
    resumption = Resumption(CLUSTER, end.index, end.hash, RESTORED, "by a test")._replace(**changes)
    id = resumed_id(NAME, ALONE, resumption)
    notary = Notary(id, "node-9", KEY)
    entry = Entry.chain(end.hash, end.index + 1, end.epoch + 1, *notary.resumed(ALONE, resumption, end.time_us))
    return id, [*scribe.history, (entry, notary.seal(entry.epoch, entry.index, entry.hash))]


def test_it_verifies_under_its_own_id_and_names_its_ancestor() -> None:
    scribe = short_history()
    id, history = _resumed(scribe)
    found = verify(history, id, NAME)
    assert (found.bad_index, found.what, found.unsealed) == (None, "", 0)
    assert found.ancestors == (Ancestor(CLUSTER, scribe.end.index),)
    assert found.configuration == replace(ALONE, epoch=3, index=scribe.end.index + 1)


def test_it_is_not_the_history_that_it_goes_on_from() -> None:
    id, history = _resumed(short_history())
    assert verify(history, CLUSTER, NAME).bad_index == 1
    assert verify(history[:-1], id, NAME).bad_index == 1
    assert verify(history[:-1], CLUSTER, NAME).is_good


def test_it_must_go_on_where_the_other_ends() -> None:
    scribe = short_history()
    for changes in ({"origin": "0" * 32}, {"last": 3}, {"hash": bytes(32)}):
        id, history = _resumed(scribe, **changes)
        found = verify(history, id, NAME)
        assert found.bad_index == scribe.end.index + 1
        assert "does not go on" in found.what


def test_who_holds_a_key_of_before_cannot_go_on_in_its_name() -> None:
    id, history = _resumed(short_history())
    entry, seal = history[-1]
    assert seal is not None
    forged = Notary(id, "node-1", NODE_KEYS["node-1"]).seal(seal.epoch, seal.index, seal.hash)
    found = verify([*history[:-1], (entry, replace(forged, sealer="node-9"))], id, NAME)
    assert found.bad_index == entry.index


def test_seals_of_before_are_checked_for_the_history_that_they_were_made_for() -> None:
    scribe = short_history()
    id, history = _resumed(scribe)
    follower = Notary(id, "node-9", KEY, (Ancestor(CLUSTER, scribe.end.index),))
    stranger = Notary(id, "node-9", KEY)
    old, new = scribe.seals[2], history[-1][1]
    assert new is not None
    key = NODE_KEYS[old.sealer].public_key
    assert follower.check(old, key)
    assert not stranger.check(old, key)
    assert follower.check(new, KEY.public_key)
    later = Notary(CLUSTER, old.sealer, NODE_KEYS[old.sealer]).seal(new.epoch, new.index, new.hash)
    assert not follower.check(later, key), "the other history goes on elsewhere, and not here"


def _backup() -> bytes:
    stream = io.BytesIO()
    write_export(stream, BACKUP, short_history().history)
    return stream.getvalue()


RAW = _backup()


def _is_good(raw: bytes) -> bool:
    try:
        export = Export(io.BytesIO(raw), "one.vlog")
        found = verify(export.history(), export.header.cluster_id, export.header.cluster)
    except LogError:
        return False
    return found.is_good and export.header == BACKUP


def test_a_backup_says_when_it_was_made_and_which_key_it_needs() -> None:
    assert _is_good(RAW)


@given(st.integers(0, len(RAW) - 1), st.integers(1, 255))
def test_any_changed_byte_of_a_backup_is_found(place: int, change: int) -> None:
    raw = bytearray(RAW)
    raw[place] ^= change
    assert not _is_good(bytes(raw))


@given(st.integers(0, len(RAW) - 1))
def test_any_cut_of_a_backup_is_found(length: int) -> None:
    assert not _is_good(RAW[:length])
