"""What a memory is made of: one immutable row per key, and the rows that it replaced.

All numbers are integers: shares are parts per million (`_ppm`), times microseconds since 1970 UTC (`_us`). A row is a
tuple in a fixed field order, so that its canonical bytes, and with them its digest, are those of the tuple.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

PPM: Final = 1_000_000

CANDIDATE: Final = "candidate"
VERIFIED: Final = "verified"
REJECTED: Final = "rejected"

ANY_SOURCE: Final = bytes(16)
EPISODE: Final = "episode"

Ground: TypeAlias = "tuple[bytes, bytes | None]"


class Version(NamedTuple):
    """Which command made this: epoch and index of the entry, and the place of the command in it. Greater is newer."""

    epoch: int
    index: int  # pyright: ignore[reportIncompatibleMethodOverride]
    place: int


ORIGIN: Final = Version(0, 0, 0)


class Record(NamedTuple):
    """What is held under one key now. Ids and digests are 16 bytes.

    Text (erasable, never decided by in `evolve`): subject, predicate, scope, text, metadata, detail, source,
    provenance, reason. `metadata` and `detail` are JSON objects; `source` names the episode that stated the value,
    `reason` is what the last reviewer said. `value_digest` is the keyed digest of the canonical value.

    `sources` digests every episode (or else author) that stated the value; `principals` the signing or vouched-for
    authors among its supporters; `authenticated` names those of them that count towards verification: by key (32 bytes)
    an enrolled one, by digest one that was vouched for. Once a reviewer has `doubted` it, however many do not verify
    it; `confirmed` is what those alone have verified, and nothing else has. `corroborators` and
    `contradictors` are who has used that verb on it (the latter with the evidence, 32 bytes).
    `author` is the hex key of who wrote the value, empty for an anonymous writer.

    `grounds` are `(id, speaker)`: a record that the value rests on, whose id is a source as well, and who took it from
    there: None where it was derived (no support at all), a principal, or empty bytes for an anonymous author, where an
    episode states it. With an empty id that principal has said so apart from any such record. An episode `follows` the
    one before it in its conversation, or none (empty).

    `updated_at_us` is the recorded time of this version; `strength_ppm` was true at `strength_at_us`; None is an open
    end. `cause` names the event that made this version.
    """

    id: bytes
    kind: str
    subject: str
    predicate: str
    scope: str
    text: str
    metadata: str
    detail: str
    source: str
    provenance: tuple[str, ...]
    reason: str
    value_digest: bytes
    trust: str
    confidence_ppm: int
    strength_ppm: int
    strength_at_us: int
    support: int
    sources: tuple[bytes, ...]
    principals: tuple[bytes, ...]
    authenticated: tuple[bytes, ...]
    doubted: bool
    confirmed: bool
    corroborators: tuple[bytes, ...]
    contradictors: tuple[bytes, ...]
    grounds: tuple[Ground, ...]
    follows: bytes
    author: str
    created_at_us: int
    updated_at_us: int
    last_seen_us: int
    valid_from_us: int | None
    valid_to_us: int | None
    expires_at_us: int | None
    volatile_until_us: int | None
    pinned: bool
    corrections_count: int
    cause: str
    version: Version

    @property
    def expiry_us(self) -> int | None:
        """When this stops being recalled: the earlier of its time to live and the end of its volatile day, or None."""
        if self.expires_at_us is None:
            return self.volatile_until_us
        if self.volatile_until_us is None:
            return self.expires_at_us
        return min(self.expires_at_us, self.volatile_until_us)

    @property
    def is_erased(self) -> bool:
        """Whether its content was destroyed: no other record is without a text."""
        return not self.text

    @property
    def derived_from(self) -> tuple[bytes, ...]:
        """The records that the value rests on, in the order in which they were named."""
        return tuple(dict.fromkeys(id for id, _ in self.grounds if id))


TEXT_FIELDS: Final = ("subject", "predicate", "scope", "text", "metadata", "detail", "source", "provenance", "reason")


def without_content(record: Record) -> Record:
    """What is left of a record whose text is destroyed: ids, digests, numbers and times."""
    return record._replace(
        subject="", predicate="", scope="", text="", metadata="{}", detail="{}", source="", provenance=(), reason=""
    )


class PastVersion(NamedTuple):
    """A row that was replaced or removed: it was held from `record.updated_at_us` until `until_us`.

    `ended_by` names the event that ended it (superseded, promoted, forgotten, expired, …), `until` is that event's
    version, `reason` (text) what was said about it.
    A *correction* is a past version that ended by `superseded`.
    """

    record: Record
    until: Version
    until_us: int
    ended_by: str
    reason: str

    @property
    def without_content(self) -> PastVersion:
        """The same with its text destroyed."""
        return self._replace(record=without_content(self.record), reason="")
