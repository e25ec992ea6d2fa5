"""Bearer tokens: how they are spelled, what is kept of them, and where they may travel."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from random import Random

import grpc
import pytest
from memory_world import CAROL, World

from veridical.cli.bearers import seconds
from veridical.client import environment
from veridical.client.bearer import metadata_of, token_of
from veridical.memory import rules
from veridical.memory.errors import Invalid, Refused
from veridical.memory.limits import TOKENS_LIMIT
from veridical.memory.tokens import TOKENS, bearer
from veridical.memory.trust_commands import ISSUE_TOKEN, REVOKE_TOKEN, IssueTokenBody, RevokeTokenBody
from veridical.node.access import Caller
from veridical.node.bearer import bearer_shown, is_private
from veridical.node.transport import GrpcTransport
from veridical.security.principal import Principal
from veridical.security.tokens import BearerToken, authorization, authorized

SECRET = bytes(range(32))
TOKEN = BearerToken.of(SECRET)
TEXT = "vdt_" + SECRET.hex()
REMOTE, LOCAL = "memory.example:7400", "127.0.0.1:7400"


def test_a_token_is_kept_as_a_digest() -> None:
    """The SHA-256 of its bytes; its id is the first half, and nothing that prints it says more."""
    assert (TOKEN.reveal(), TOKEN.digest, TOKEN.id) == (TEXT, sha256(SECRET).digest(), sha256(SECRET).digest()[:16])
    assert BearerToken(TEXT) == TOKEN != BearerToken.of(bytes(32))
    assert SECRET.hex() not in f"{TOKEN} {TOKEN!r} {[TOKEN]}" and TOKEN.id.hex() in str(TOKEN)


@pytest.mark.parametrize(
    "text",
    ["", "vdt_", TEXT[:-1], TEXT + "0", TEXT.upper(), TEXT.removeprefix("vdt_"), f" {TEXT}", TEXT + "\n", "é" * 68],
)
def test_what_is_no_token_is_not_repeated(text: str) -> None:
    """An error may be logged: whatever was shown, mistyped or not, is not in it."""
    for read in (BearerToken, token_of if text.strip() != TEXT else BearerToken):
        with pytest.raises((ValueError, Invalid)) as error:
            read(text)
        assert len(text) < len("vdt_00") or text not in str(error.value)


def test_the_header_is_that_of_bearer_tokens() -> None:
    """RFC 6750; the scheme in any case, another one is refused."""
    assert authorization(TOKEN) == ("authorization", f"Bearer {TEXT}")
    assert authorized(f"bearer  {TEXT}") == bearer_shown(f"Bearer {TEXT}").token == TOKEN
    for header in (TEXT, f"Basic {TEXT}", "Bearer", f"Bearer {TEXT} more"):
        with pytest.raises(Refused, match="token_unknown") as refusal:
            bearer_shown(header)
        assert SECRET.hex() not in str(refusal.value)


def test_a_token_goes_nowhere_in_clear() -> None:
    """Over TLS anywhere, without it to this machine only; a principal shows a ticket instead."""
    shown = (authorization(TOKEN),)
    assert metadata_of(TOKEN, REMOTE, is_encrypted=True) == metadata_of(TOKEN, LOCAL, is_encrypted=False) == shown
    with pytest.raises(Invalid, match=r"TLS only, and memory\.example:7400 is on another machine"):
        metadata_of(TOKEN, REMOTE, is_encrypted=False)
    assert metadata_of(Principal(SECRET), REMOTE, is_encrypted=False) == metadata_of(None, REMOTE, False) == ()


def test_a_node_takes_none_that_could_be_read() -> None:
    """By how gRPC says who calls, and over what."""
    tls: dict[str, list[bytes]] = {"transport_security_type": [b"ssl"]}
    clear: dict[str, list[bytes]] = {"transport_security_type": [b"insecure"]}
    for peer in ("ipv4:127.0.0.1:5", "ipv6:[::1]:5", "ipv6:%5B::1%5D:5", "unix:/run/node"):
        assert is_private(peer, {}) and is_private(peer, clear)
    for peer in ("ipv4:10.0.0.1:5", "ipv6:[2001:db8::1]:5", "ipv4:12.7.0.0:1", ""):
        assert is_private(peer, tls) and not is_private(peer, {}) and not is_private(peer, clear)


def test_a_node_passes_a_token_on_where_nobody_can_read_it() -> None:
    """Without TLS to a member on this machine only; with it, to any."""
    clear = GrpcTransport(lambda: None, Random(1))
    shown = (authorization(TOKEN),)
    assert clear.shown(Caller(token=TOKEN), LOCAL) == shown
    assert clear.shown(Caller(), REMOTE) == ()
    with pytest.raises(Refused, match="token_exposed"):
        clear.shown(Caller(token=TOKEN), REMOTE)
    encrypted = GrpcTransport(grpc.ssl_channel_credentials, Random(1))
    assert encrypted.shown(Caller(token=TOKEN), REMOTE) == shown


def test_the_environment_and_a_file_say_a_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that others may read is refused, as are files that are not there or hold something else."""
    monkeypatch.delenv(environment.TOKEN_VARIABLE, raising=False)
    assert environment.token() is None
    monkeypatch.setenv(environment.TOKEN_VARIABLE, f" {TEXT}\n")
    assert environment.token() == environment.connection_options()["token"] == TOKEN
    monkeypatch.setenv(environment.TOKEN_VARIABLE, TEXT[:-1])
    with pytest.raises(Invalid) as error:
        environment.token()
    assert SECRET.hex()[:-1] not in str(error.value)
    file = tmp_path / "token"
    with pytest.raises(Invalid, match="No such file"):
        environment.token_in(file)
    file.write_text(TEXT + "\n")
    file.chmod(0o640)
    with pytest.raises(Invalid, match="chmod 600"):
        environment.token_in(file)
    file.chmod(0o600)
    assert environment.token_in(file) == TOKEN
    file.write_text("something else")
    with pytest.raises(Invalid, match="64 hex digits"):
        environment.token_in(file)


def test_a_length_of_time_is_spelled_in_words() -> None:
    """With one unit behind a number."""
    assert [seconds(text) for text in ("5s", "30m", "12h", "90d")] == [5, 1_800, 43_200, 7_776_000]
    for text in ("", "h", "12", "0h", "-1h", "1.5h", "1w"):
        with pytest.raises(Invalid, match="12h"):
            seconds(text)


# --- the rules, without a door --------------------------------------------------------------------------------------


@pytest.fixture
def world() -> World:
    """Carol administers."""
    world = World()
    world.guard(CAROL)
    return world


def issue(world: World, digest: bytes, expires_us: int | None = None, author: bytes | None = CAROL) -> str:
    """What becomes of it: the rule, or the outcome."""
    outcome = world.send(ISSUE_TOKEN, IssueTokenBody(CAROL, digest, "label", expires_us), author)
    return outcome.rule or outcome.code


def whose(world: World, digest: bytes, now_us: int | None = None) -> bytes | str:
    """Whose token that is, or the rule."""
    try:
        return bearer(world.state, digest, world.now_us if now_us is None else now_us)
    except Refused as refusal:
        return refusal.rule


def test_a_token_is_in_force_until_it_is_not(world: World) -> None:
    """To the microsecond; half a digest is none, nor is one that was issued while its time was over."""
    ends_us = world.now_us + 1_000_000_000
    assert issue(world, TOKEN.digest, ends_us) == "token_issued"
    assert whose(world, TOKEN.digest, ends_us - 1) == CAROL
    assert whose(world, TOKEN.digest, ends_us) == rules.TOKEN_EXPIRED
    assert whose(world, TOKEN.digest[:16] + bytes(16)) == whose(world, bytes(32)) == rules.TOKEN_UNKNOWN
    assert issue(world, bytes(32), world.now_us - 1) == rules.TOKEN_EXPIRED
    assert issue(world, TOKEN.digest) == rules.TOKEN_KNOWN
    assert world.send(REVOKE_TOKEN, RevokeTokenBody(TOKEN.id), CAROL).code == "token_revoked"
    assert whose(world, TOKEN.digest) == rules.TOKEN_REVOKED
    assert issue(world, TOKEN.digest) == rules.TOKEN_KNOWN


def test_nobody_in_particular_issues_none(world: World) -> None:
    """Neither without a signature in a guarded store, nor for anybody in one without principals."""
    assert issue(world, TOKEN.digest, author=None) == rules.NOT_GRANTED
    assert issue(World(), TOKEN.digest, author=None) == rules.STRANGER


def test_tokens_in_force_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were revoked do not count."""
    assert TOKENS_LIMIT == 10_000
    monkeypatch.setattr("veridical.memory.decide_tokens.TOKENS_LIMIT", 2)
    digests = [bytes([number]) * 32 for number in range(3)]
    assert [issue(world, digest) for digest in digests] == ["token_issued", "token_issued", rules.TOKENS_FULL]
    world.send(REVOKE_TOKEN, RevokeTokenBody(digests[0][:16]), CAROL)
    assert world.state.setting(TOKENS) == 1
    assert issue(world, digests[2]) == "token_issued"
