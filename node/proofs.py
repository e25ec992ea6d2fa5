"""That a member asks and nobody else: a signature by its node key over what it asks for, and when."""

from __future__ import annotations

from typing import Final

from ..memory.errors import Refused
from ..security.keys import verify
from .identity import DataDirectory
from .members import Members
from .ports import MemberProof
from .system import Clock

PROOF_AGE_LIMIT_US: Final = 300_000_000


class Proofs:
    """Makes this node's proofs, and checks those of others against the configuration in force."""

    def __init__(self, directory: DataDirectory, members: Members, clock: Clock) -> None:
        self._directory = directory
        self._members = members
        self._clock = clock

    def made(self, purpose: str) -> MemberProof:
        """The proof that this node asks for that."""
        identity = self._directory.identity
        unsigned = MemberProof(identity.node_id, identity.cluster_id, self._clock.wall_us(), b"")
        signature = self._directory.key.sign(unsigned.signed_bytes(purpose))
        return MemberProof(unsigned.node_id, unsigned.cluster_id, unsigned.wall_us, signature)

    def require(self, proof: MemberProof, purpose: str) -> None:
        """Raises `Refused` unless a member of this node's cluster asks for that, within five minutes by the clock."""
        member = self._members.member(proof.node_id)
        in_time = abs(self._clock.wall_us() - proof.wall_us) <= PROOF_AGE_LIMIT_US
        is_ours = in_time and proof.cluster_id == self._directory.identity.cluster_id
        if member is None or not is_ours or not verify(
            member.public_key, proof.signed_bytes(purpose), proof.signature
        ):  # fmt: skip
            raise Refused("members", "this is told to members of this cluster only")
