"""The notary's seals and system entries."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from log_world import CLUSTER, CONFIGURATION, NODE_KEYS, Scribe

from veridical.log.canonical import decode
from veridical.log.entry import CONFIGURED, ELECTED, Envelope, body_hash
from veridical.log.identifier import uuid7_time_us
from veridical.log.notary import Notary
from veridical.security.keys import verify

NOTARY = Notary(CLUSTER, "node-1", NODE_KEYS["node-1"])
OTHER_KEY = NODE_KEYS["node-2"].public_key


def test_a_seal_checks_against_its_sealers_key_only() -> None:
    seal = NOTARY.seal(3, 17, bytes(32))
    assert seal.sealer == "node-1"
    assert NOTARY.check(seal, NOTARY.public_key)
    assert not NOTARY.check(seal, OTHER_KEY)


@pytest.mark.parametrize(
    "change", [{"epoch": 4}, {"index": 18}, {"hash": b"\1" * 32}, {"signature": bytes(64)}], ids=str
)
def test_a_seal_covers_epoch_index_and_hash(change: dict[str, Any]) -> None:
    assert not NOTARY.check(replace(NOTARY.seal(3, 17, bytes(32)), **change), NOTARY.public_key)


def test_a_seal_of_another_cluster_does_not_check() -> None:
    assert not Notary("other", "node-1", NODE_KEYS["node-1"]).check(NOTARY.seal(3, 17, bytes(32)), NOTARY.public_key)


def test_system_entries_are_signed_envelopes_of_one_command_without_content() -> None:
    for draft, kind in ((NOTARY.elected(7, 1000), ELECTED), (NOTARY.configured(CONFIGURATION, 1000), CONFIGURED)):
        envelope = Envelope.parse(draft.envelope)
        [head], [body] = envelope.commands, draft.bodies
        assert body is not None
        assert (head.kind, head.body_hash, len(body)) == (kind, body_hash(body), 16)
        assert uuid7_time_us(head.id) == draft.time_us == 1000
        assert verify(NOTARY.public_key, envelope.signed_bytes, draft.signature)


def test_their_events_say_what_happened() -> None:
    assert decode(NOTARY.elected(7, 1000).events) == [[7, "node-1"]]
    [configured, _] = Scribe().found()
    assert configured.configuration == replace(CONFIGURATION, epoch=1, index=1)


def test_the_same_arguments_make_the_same_entry_and_others_another_id() -> None:
    assert NOTARY.elected(7, 1000) == NOTARY.elected(7, 1000)
    ids = {
        Envelope.parse(draft.envelope).commands[0].id
        for draft in (
            NOTARY.elected(7, 1000),
            NOTARY.elected(8, 1000),
            NOTARY.elected(7, 1001),
            NOTARY.configured(CONFIGURATION, 1000),
            Notary(CLUSTER, "node-2", NODE_KEYS["node-2"]).elected(7, 1000),
        )
    }
    assert len(ids) == 5
