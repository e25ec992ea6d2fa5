"""How a member comes by the cluster's digest key: from its founding, or sealed to its node key by another member."""

from __future__ import annotations

import asyncio

from ..log.configuration import Member
from ..memory.errors import Refused, Unavailable, VeridicalError
from ..security.digests import DigestKey
from ..security.keys import UnsealError, sealed_to, verify
from .identity import DataDirectory
from .members import Members
from .ports import KeyRequest, Transport
from .system import Clock

SECOND_US = 1_000_000
ASK_TIMEOUT_US = 2 * SECOND_US
ASK_PAUSE_S = 0.2
REQUEST_AGE_LIMIT_US = 300 * SECOND_US


class Keyring:
    """Hands the digest key out, and asks for it."""

    def __init__(self, directory: DataDirectory, members: Members, transport: Transport, clock: Clock) -> None:
        self._directory = directory
        self._members = members
        self._transport = transport
        self._clock = clock

    def answer(self, request: KeyRequest) -> bytes:
        """The key, sealed to the asker. Raises `Refused` for anyone but a member, `Unavailable` without one."""
        member = self._members.member(request.node_id)
        if member is None or not self._proves(request, member):
            raise Refused("keys", "the digest key is handed to members of this cluster only")
        secret = self._directory.digest_secret
        if secret is None:
            raise Unavailable("this node does not hold the digest key itself")
        return sealed_to(member.public_key, secret)

    def _proves(self, request: KeyRequest, member: Member) -> bool:
        age_us = abs(self._clock.wall_us() - request.wall_us)
        in_time = age_us <= REQUEST_AGE_LIMIT_US and request.cluster_id == self._directory.identity.cluster_id
        return in_time and verify(member.public_key, request.signed_bytes(), request.signature)

    async def obtain(self) -> None:
        """Ask the members, again and again, until one of them answers; then keep the key."""
        loop = asyncio.get_running_loop()
        secret = await self._asked()
        while secret is None:
            await asyncio.sleep(ASK_PAUSE_S)
            secret = await self._asked()
        await loop.run_in_executor(None, self._directory.store_digest_secret, secret)

    async def _asked(self) -> bytes | None:
        others = self._members.others
        if self._members.all and not others:
            return DigestKey.from_shares([self._directory.founding_share]).secret
        for member in others:
            try:
                box = await self._transport.keys(member, self._request(), ASK_TIMEOUT_US)
                return self._directory.key.unsealed(box)
            except (VeridicalError, UnsealError):
                continue
        return None

    def _request(self) -> KeyRequest:
        identity = self._directory.identity
        unsigned = KeyRequest(identity.node_id, identity.cluster_id, self._clock.wall_us(), b"")
        signature = self._directory.key.sign(unsigned.signed_bytes())
        return KeyRequest(unsigned.node_id, unsigned.cluster_id, unsigned.wall_us, signature)
