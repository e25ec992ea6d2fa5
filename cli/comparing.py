"""Whether the members hold the same state: equal applied index, equal digests (PROTOCOL § 9)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Final

from ..memory.errors import Unavailable
from ..node.system import Clock
from .survey import MemberRow, surveyed
from .target import admin
from .tickets import ticket

ANSWER_TIMEOUT_S: Final = 5.0
PAUSE_S: Final = 0.1
SECOND_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class MemberDigest:
    """What a member's state came to at the index that it had applied."""

    id: str
    name: str
    endpoint: str
    index: int
    digest: str
    buckets: tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Comparison:
    """The members at one index. `silent` ones did not answer; `differing` are the buckets that are not equal."""

    index: int
    members: tuple[MemberDigest, ...]
    silent: tuple[str, ...]
    differing: tuple[int, ...]

    @property
    def fields(self) -> dict[str, Any]:
        """What `--json` prints."""
        members = [{name: value for name, value in asdict(each).items() if name != "buckets"} for each in self.members]
        return {
            "equal": not self.differing, "index": self.index,
            "digest": None if self.differing else self.members[0].digest,
            "members": members, "silent": list(self.silent), "differing_buckets": list(self.differing),
        }  # fmt: skip


def compared(endpoints: Sequence[str], clock: Clock, timeout_s: float) -> Comparison:
    """Ask all members until those that answer have applied equally much. Raises `Unavailable` when they never have."""
    deadline_us = clock.elapsed_us() + round(timeout_s * SECOND_US)
    survey = asyncio.run(surveyed(endpoints))
    while True:
        found = asyncio.run(_digests(survey.members, survey.cluster_id))
        silent = tuple(member.name for member in survey.members if member.id not in {each.id for each in found})
        enough = len(found) >= min(2, len(survey.members)) > 0
        if enough and len({each.index for each in found}) == 1:
            buckets = range(len(found[0].buckets))
            differing = tuple(place for place in buckets if len({each.buckets[place] for each in found}) > 1)
            return Comparison(found[0].index, tuple(found), silent, differing)
        if clock.elapsed_us() >= deadline_us:
            raise Unavailable("the members never stood at one index together", silent)
        time.sleep(PAUSE_S)


async def _digests(members: Sequence[MemberRow], cluster_id: str) -> list[MemberDigest]:
    questions = (_digest_of(member, cluster_id) for member in members)
    found = await asyncio.gather(*questions, return_exceptions=True)
    answers: list[MemberDigest] = []
    for each in found:
        if isinstance(each, MemberDigest):
            answers.append(each)
        elif not isinstance(each, Unavailable):
            raise each
    return answers


async def _digest_of(member: MemberRow, cluster_id: str) -> MemberDigest:
    from ..proto.generated import admin_pb2

    async with admin(member.endpoint) as stub:
        request = admin_pb2.BucketsRequest(ticket=ticket(cluster_id))
        reply = await stub.Buckets(request, timeout=ANSWER_TIMEOUT_S)
    buckets = tuple(reply.digests)
    return MemberDigest(
        member.id, member.name, member.endpoint, reply.applied_index, whole_digest(buckets).hex(), buckets
    )  # fmt: skip


def whole_digest(buckets: Sequence[bytes]) -> bytes:
    """One digest of a whole state, 32 bytes: SHA-256 over the digests of its buckets."""
    return sha256(b"".join(buckets)).digest()
