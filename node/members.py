"""The members as this node sees them: where they live, how they are called, what they sign with, when they spoke.

The configuration says who is a member. An endpoint is an attribute that may change at every restart, so that what this
node was started with (`peers`, by name) goes before what the log says.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..log.configuration import Configuration, Member
from ..replication.messages import Role
from ..replication.replica import Status
from .ports import MemberStatus, Transport


class Members:
    """Follows the configuration in force."""

    def __init__(self, me: str, peers: Mapping[str, str], transport: Transport) -> None:
        self.me = me
        self._peers = dict(peers)
        self._transport = transport
        self._heard_us: dict[str, int] = {}
        self.configuration: Configuration | None = None

    def adopt(self, configuration: Configuration | None) -> bool:
        """Take over the configuration in force; whether it was another one."""
        if configuration is None or configuration is self.configuration:
            return False
        self.configuration = configuration
        others = self.others
        self._transport.addresses({id: self.endpoint(id) for id in others}, {id: self.name(id) for id in others})
        return True

    @property
    def all(self) -> tuple[Member, ...]:
        """Everybody in the configuration, this node too."""
        return self.configuration.members if self.configuration else ()

    @property
    def others(self) -> list[str]:
        """Ids of all but this node."""
        return [member.id for member in self.all if member.id != self.me]

    @property
    def keys(self) -> frozenset[bytes]:
        """The public keys of all members."""
        return frozenset(member.public_key for member in self.all)

    def member(self, id: str) -> Member | None:
        """The member of that id."""
        return self.configuration.member(id) if self.configuration else None

    def name(self, id: str) -> str:
        """What people call that member; its id when it is not known."""
        member = self.member(id)
        return member.name if member else id

    def endpoint(self, id: str) -> str:
        """Where that member is reached; empty when it is not known."""
        member = self.member(id)
        return self._peers.get(member.name, member.endpoint) if member else ""

    # --- who is there ---

    def heard(self, id: str, now_us: int) -> None:
        """That member has just spoken."""
        self._heard_us[id] = now_us

    def live(self, now_us: int, within_us: int) -> frozenset[str]:
        """Members that spoke within that time, and this node."""
        live = {id for id, heard_us in self._heard_us.items() if now_us - heard_us <= within_us}
        return frozenset(live | {self.me})

    def statuses(self, status: Status, now_us: int) -> tuple[MemberStatus, ...]:
        """One for every member of the configuration."""
        return tuple(self._status(member, status, now_us) for member in self.all)

    def _status(self, member: Member, status: Status, now_us: int) -> MemberStatus:
        leads = status.role is Role.LEADER
        applied = {**status.follower_applied, self.me: status.applied_index}
        heard_us = now_us if member.id == self.me else self._heard_us.get(member.id)
        return MemberStatus(
            member.id, member.name, self.endpoint(member.id), member.voting,
            status.matches.get(member.id) if leads else None,
            applied.get(member.id) if leads or member.id == self.me else None,
            None if heard_us is None else now_us - heard_us,
        )  # fmt: skip
