"""What an envelope must be before anybody decides it."""

import asyncio
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from veridical.log.entry import CONFIGURED, ELECTED, SALT_BYTES, CommandHead, Envelope, body_hash
from veridical.memory.errors import Invalid, Refused, TooLarge
from veridical.node.ports import Submission
from veridical.node.settings import Limits
from veridical.node.verifier import LONE_BYTES, Border, Verifier, check_size, verified
from veridical.security.principal import Principal

PRINCIPAL = Principal(bytes([7]) * 32)
CLUSTER = "c" * 32
BORDER = Border(CLUSTER, Limits())
BODY = bytes(SALT_BYTES) + b"content"


def envelope(
    kind: str = "memory.write", count: int = 1, on_behalf: str = "", cluster: str = CLUSTER, body: bytes = BODY
) -> Envelope:
    heads = tuple(CommandHead(bytes([place]) * 16, kind, body_hash(body)) for place in range(count))
    return Envelope(cluster, PRINCIPAL.public_key, 1, heads, on_behalf)


def submission(signed: Envelope, bodies: tuple[bytes, ...] | None = None) -> Submission:
    bodies = (BODY,) * len(signed.commands) if bodies is None else bodies
    return Submission(signed.raw, PRINCIPAL.sign(signed.signed_bytes), bodies, 1_000_000)


def test_a_sound_envelope_passes_with_its_exact_bytes() -> None:
    """What is decided and logged is what was signed, byte for byte."""
    sent = submission(envelope(count=3))
    proposal = verified(sent, BORDER)
    assert (proposal.raw, proposal.signature, proposal.bodies) == (sent.envelope, sent.signature, sent.bodies)
    assert proposal.author == PRINCIPAL.public_key


def test_a_foreign_signature_is_refused() -> None:
    """One flipped bit anywhere in the signed part is not the author's any more."""
    sent = submission(envelope())
    forged = replace(sent, signature=bytes([sent.signature[0] ^ 1]) + sent.signature[1:])
    with pytest.raises(Refused) as refusal:
        verified(forged, BORDER)
    assert refusal.value.rule == "signature"


def test_another_cluster_s_envelope_is_refused() -> None:
    """A signed command cannot be replayed in another cluster."""
    with pytest.raises(Refused) as refusal:
        verified(submission(envelope(cluster="d" * 32)), BORDER)
    assert refusal.value.rule == "cluster"


def test_only_members_sign_on_behalf() -> None:
    """Whoever is not a node cannot say that somebody else said something."""
    with pytest.raises(Refused) as refusal:
        verified(submission(envelope(on_behalf="anonymous")), BORDER)
    assert refusal.value.rule == "on-behalf"
    member = replace(BORDER, member_keys=frozenset({PRINCIPAL.public_key}))
    assert verified(submission(envelope(on_behalf="anonymous")), member).author is None


@pytest.mark.parametrize("kind", ["", "memory.explode", "x" * 100])
def test_a_kind_that_nobody_can_decide_is_invalid(kind: str) -> None:
    """It ends at the border: the one who decides must never meet it."""
    with pytest.raises(Invalid, match="is not a command") as caught:
        verified(submission(envelope(kind)), BORDER)
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize("kind", [ELECTED, CONFIGURED])
def test_nobody_sends_the_cluster_s_own_commands(kind: str) -> None:
    """An author cannot elect a leader or change the configuration by sending a command of that kind."""
    with pytest.raises(Refused) as refusal:
        verified(submission(envelope(kind)), BORDER)
    assert refusal.value.rule == "system-command"


@pytest.mark.parametrize(
    ("bodies", "field"),
    [((), "bodies"), ((BODY, BODY), "bodies"), ((BODY[:-1],), "bodies[0]"), ((b"short",), "bodies[0]")],
)
def test_bodies_must_be_those_that_were_signed(bodies: tuple[bytes, ...], field: str) -> None:
    """A missing, surplus, changed or saltless body is named."""
    with pytest.raises(Invalid) as error:
        verified(submission(envelope(), bodies), BORDER)
    assert error.value.field == field


def test_hostile_bytes_are_invalid() -> None:
    """Whatever arrives in the place of an envelope, the answer is a typed error."""
    for raw in (b"", b"\xc1", b"\x93\x01", bytes(1000)):
        with pytest.raises(Invalid):
            verified(Submission(raw, bytes(64), (), 1), BORDER)


def test_one_id_twice_in_an_envelope_is_invalid() -> None:
    """The second would be answered with the first one's outcome."""
    heads = (CommandHead(bytes(16), "memory.write", body_hash(BODY)),) * 2
    with pytest.raises(Invalid, match="share an id"):
        verified(submission(Envelope(CLUSTER, PRINCIPAL.public_key, 1, heads)), BORDER)


def test_sizes_are_refused_by_name_before_anything_is_read() -> None:
    """1 MiB a command, 4 MiB an envelope, 256 commands: each error says size and limit."""
    limits = Limits()
    cases = [
        ((bytes(limits.command_bytes + 1),), limits.command_bytes + 1, limits.command_bytes),
        ((bytes(limits.command_bytes),) * 5, 5 * limits.command_bytes + 3, limits.envelope_bytes),
        ((b"",) * 257, 257, 256),
    ]
    for bodies, size, limit in cases:
        with pytest.raises(TooLarge) as error:
            check_size(Submission(b"raw", b"", bodies, 1), limits)
        assert (error.value.size, error.value.limit) == (size, limit)


def test_the_threads_answer_each_caller_its_own() -> None:
    """Under load results come back in groups; every caller gets its own envelope or its own error."""

    async def verify_all() -> tuple[int, int, int]:
        failures: list[None] = []
        verifier = Verifier(2, lambda: failures.append(None))
        large = BODY + bytes(LONE_BYTES)
        sent = [submission(envelope(body=large), (large,))]
        sent += [submission(envelope(count=place % 3 + 1)) for place in range(1, 200)]
        sent = [replace(one, signature=bytes(64)) if place % 10 == 0 else one for place, one in enumerate(sent)]
        futures = [verifier.verify(one, BORDER) for one in sent]
        results = await asyncio.gather(*futures, return_exceptions=True)
        await asyncio.to_thread(verifier.stop)
        matched = sum(getattr(result, "raw", None) == one.envelope for one, result in zip(sent, results, strict=True))
        return matched, sum(isinstance(result, Refused) for result in results), len(failures)

    assert asyncio.run(verify_all()) == (180, 20, 20)


def test_a_lone_small_envelope_needs_no_thread() -> None:
    """Its result is there when the call returns; a large one, and what comes while one is out, goes to the threads."""

    async def verify() -> tuple[bool, bool, bool, int]:
        failures: list[None] = []
        verifier = Verifier(1, lambda: failures.append(None))
        large = BODY + bytes(LONE_BYTES)
        lone = verifier.verify(submission(envelope()), BORDER).done()
        with capture_logs() as logged:
            forged = verifier.verify(replace(submission(envelope()), signature=bytes(64)), BORDER)
            assert isinstance(forged.exception(), Refused)
        assert [line["event"] for line in logged] == ["not authenticated"]
        slow, after = (verifier.verify(submission(envelope(body=body), (body,)), BORDER) for body in (large, BODY))
        waited = slow.done(), after.done()
        await asyncio.gather(slow, after)
        await asyncio.to_thread(verifier.stop)
        return lone, *waited, len(failures)

    assert asyncio.run(verify()) == (True, False, False, 1)
