"""What a reviewer looks at, and who is known: models that callers see, built at the border like `view.MemoryRecord`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict, field_serializer

from .record import PPM, PastVersion, Record
from .reputation import PRINCIPALS_NEEDED, AuthorTrust
from .view import MemoryRecord, RecordVersion, datetime_of

__all__ = ["AuthorTrust", "BarredValue", "Contender", "KnownPrincipal", "KnownToken", "ReviewItem"]


class Contender(BaseModel):
    """A value that waits beside the one that is held. `value` is the digest that `approve` and `reject` take."""

    model_config = ConfigDict(frozen=True)

    value: str
    text: str
    metadata: dict[str, Any]
    author: str
    source: str
    provenance: list[str]
    reason: str
    support_count: int
    supporters: int
    epistemic_confidence: float
    recorded_at: datetime

    @staticmethod
    def from_record(record: Record) -> Contender:
        """The contender that a row is."""
        return Contender(
            value=record.value_digest.hex(),
            text=record.text,
            metadata=json.loads(record.metadata),
            author=record.author,
            source=record.source,
            provenance=list(record.provenance),
            reason=record.reason,
            support_count=record.support,
            supporters=len(record.principals),
            epistemic_confidence=record.confidence_ppm / PPM,
            recorded_at=datetime_of(record.updated_at_us),
        )


class ReviewItem(BaseModel):
    """A record that waits for a reviewer, with its evidence. Of its corrections the last five are shown.

    `value` is the digest of what is held. `supporters` counts the principals that stated it, `confirmed_by` those of
    them that count towards verification, of which `principals_needed` make it verified; `corroborations` and
    `contradictions` count who said that it is so, and that it is not. `doubted`: a reviewer demoted it, so that no
    number of voices verifies it. `barred` counts the values that were rejected under its key (`rejections` lists them).
    `author` tells how often its author was right, `author_standing` whether that key is in force (`enrolled`,
    `rotated`, `revoked`, or `stranger`, who was never enrolled); None and empty where nobody signed it.
    """

    model_config = ConfigDict(frozen=True)

    record: MemoryRecord
    value: str
    contenders: list[Contender]
    supporters: int
    confirmed_by: int
    principals_needed: int
    corroborations: int
    contradictions: int
    doubted: bool
    barred: int
    author: AuthorTrust | None
    author_standing: str = ""

    @field_serializer("author")
    def _author_by_name(self, author: AuthorTrust | None) -> dict[str, Any] | None:
        return None if author is None else author._asdict()

    @property
    def is_contended(self) -> bool:
        """Whether other values wait beside it."""
        return bool(self.contenders)

    @staticmethod
    def of(
        record: Record,
        now_us: int,
        contenders: Sequence[Record],
        corrections: Sequence[PastVersion],
        barred: int,
        author: AuthorTrust | None,
        author_standing: str,
    ) -> ReviewItem:
        """The item of these rows at `now_us`."""
        return ReviewItem(
            record=MemoryRecord.from_record(record, now_us, corrections),
            value=record.value_digest.hex(),
            contenders=list(map(Contender.from_record, contenders)),
            supporters=len(record.principals),
            confirmed_by=len(record.authenticated),
            principals_needed=PRINCIPALS_NEEDED if author is None else author.principals_needed,
            corroborations=len(record.corroborators),
            contradictions=len(record.contradictors),
            doubted=record.doubted,
            barred=barred,
            author=author,
            author_standing=author_standing,
        )


class KnownPrincipal(BaseModel):
    """Somebody known by a key: who that is, and what the key may do.

    `standing` is `enrolled`, `rotated` (a later key of theirs stands for them), `revoked`, or `stranger` (only signed
    something). `identity` is their first key: `kept`, `lost` and `rate` are of the person, whatever the key. `version`
    names the command that made it so, None for one of whom nothing is known.
    """

    model_config = ConfigDict(frozen=True)

    key: str
    identity: str
    name: str
    standing: str
    grants: dict[str, list[str]]
    kept: int
    lost: int
    rate: float
    principals_needed: int
    version: RecordVersion | None


class KnownToken(BaseModel):
    """A bearer token that was issued for the principal of a key (hex). Its secret is known to its holder alone.

    `standing` is `issued`, `expired` or `revoked`; one that is issued opens what its principal is granted, while the
    principal's key is in force. `version` names the command that made it so.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    principal: str
    label: str
    standing: str
    issued_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    version: RecordVersion


class BarredValue(NamedTuple):
    """A value that was rejected under an id: its digest in hex, and its text where a version that is kept held it."""

    value: str
    text: str | None
