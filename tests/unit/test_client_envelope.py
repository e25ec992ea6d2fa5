"""A client writes the same bytes as the log reads, without sharing code with it."""

from hypothesis import given
from hypothesis import strategies as st

from veridical.client.envelope import (
    COMMAND_BYTES_LIMIT,
    COMMANDS_LIMIT,
    ENVELOPE_BYTES_LIMIT,
    SALT_BYTES,
    Command,
    command_id,
    signed_envelope,
)
from veridical.client.requests import chunks_of
from veridical.log import entry
from veridical.log.entry import CommandHead, Envelope, body_hash
from veridical.log.identifier import uuid7, uuid7_time_us
from veridical.security.keys import verify
from veridical.security.principal import Principal

commands = st.builds(
    Command, st.binary(min_size=16, max_size=16), st.sampled_from(["memory.write", "memory.pin"]), st.binary()
)
moments = st.integers(0, 2**47 * 1000)


@given(st.lists(commands, min_size=1, max_size=5), moments, st.binary(min_size=32, max_size=32), st.data())
def test_an_envelope_is_the_one_that_the_log_would_write(
    made: list[Command], wall_us: int, seed: bytes, data: st.DataObject
):
    """Byte for byte, and with a signature that verifies."""
    size = SALT_BYTES * len(made)
    salts = data.draw(st.binary(min_size=size, max_size=size))
    principal = Principal(seed)
    envelope = signed_envelope("c" * 32, principal, made, wall_us, salts)
    heads = tuple(
        CommandHead(each.id, each.kind, body_hash(body)) for each, body in zip(made, envelope.bodies, strict=True)
    )
    expected = Envelope("c" * 32, principal.public_key, wall_us, heads)
    assert envelope.raw == expected.raw
    assert Envelope.parse(envelope.raw) == expected
    assert [body[SALT_BYTES:] for body in envelope.bodies] == [each.content for each in made]
    assert verify(principal.public_key, expected.signed_bytes, envelope.signature)


@given(moments, st.binary(min_size=8, max_size=8))
def test_a_command_id_is_the_one_that_the_log_would_make(wall_us: int, entropy: bytes):
    """UUIDv7, in the one way in which nodes read its time back."""
    id = command_id(wall_us, entropy)
    assert id == uuid7(wall_us, entropy)
    assert uuid7_time_us(id) == wall_us


def test_the_limits_are_those_of_the_log():
    """What a client would send, a node would take."""
    assert (COMMANDS_LIMIT, COMMAND_BYTES_LIMIT, ENVELOPE_BYTES_LIMIT, SALT_BYTES) == (
        entry.COMMANDS_PER_ENVELOPE_LIMIT,
        entry.COMMAND_BYTES_LIMIT,
        entry.ENVELOPE_BYTES_LIMIT,
        entry.SALT_BYTES,
    )


def test_bulk_is_cut_into_pieces_that_an_envelope_holds():
    """In order, at most 256 commands and 4 MiB each."""
    small = [Command(bytes(16), "k", b"x") for _ in range(600)]
    assert [len(chunk) for chunk in chunks_of(small)] == [256, 256, 88]
    large = [Command(bytes(16), "k", bytes(1_000_000)) for _ in range(9)]
    assert [len(chunk) for chunk in chunks_of(large)] == [4, 4, 1]
    assert [each for chunk in chunks_of(large) for each in chunk] == large
