"""History folded up to an index: a projection of its own, and every record as it was then."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from ..memory.errors import Invalid
from ..memory.view import MemoryRecord, datetime_of
from ..projection.projection import Projection
from ..projection.reader import Reader
from .comparing import whole_digest
from .sources import PROJECTION_FILE, Source

RECORDS_FILE: Final = "records.jsonl"
FOLDED_AT_ONCE: Final = 256


@dataclass(frozen=True, slots=True)
class Replayed:
    """The state after entry `index`: how much there was, its digest, and where it lies now.

    `erased_by` is the last entry behind `index` that erased a text which was held then and is missing now; 0: none did.
    """

    source: str
    index: int
    epoch: int
    time: str
    records: int
    past_versions: int
    rejections: int
    digest: str
    erased_by: int
    out: str

    @property
    def fields(self) -> dict[str, Any]:
        """What `--json` prints; the records themselves are in `records.jsonl`."""
        counts = ("records", "past_versions", "rejections")
        names = ("source", "index", "epoch", "time", *counts, "digest", "erased_by", "out")
        return {name: getattr(self, name) for name in names}

    def first_records(self, count: int) -> Iterator[str]:
        """A line for each of the first records."""
        with (Path(self.out) / RECORDS_FILE).open() as file:
            for line in islice(file, count):
                fields = json.loads(line)
                about = f"{fields['subject']} / {fields['predicate']}: " if fields["subject"] else ""
                yield f"{fields['id']} [{fields['trust']}, {fields['scope']}] {about}{fields['text']}"


def replayed(source: Source, to: int, out: Path, progress: Callable[[int], None]) -> Replayed:
    """Fold the history of `source` up to entry `to` into the new directory `out`. Raises `Invalid`, `LogDamaged`."""
    if source.last is not None and to > source.last:
        raise Invalid("to", f"history ends at entry {source.last}")
    out.mkdir(parents=True, exist_ok=True)
    if any(out.iterdir()):
        raise Invalid("out", f"{out} is not empty")
    projection = Projection.open(out / PROJECTION_FILE)
    try:
        entries = (entry for entry, _ in source.history(last=to))
        while batch := list(islice(entries, FOLDED_AT_ONCE)):
            projection.apply(batch)
            progress(projection.applied.index)
        if projection.applied.index != to:
            raise Invalid("to", f"history ends at entry {projection.applied.index}")
        reader = projection.reader()
        try:
            return _described(source.name, projection, reader, out)
        finally:
            reader.close()
    finally:
        projection.close()


def _described(name: str, projection: Projection, reader: Reader, out: Path) -> Replayed:
    count, time_us = 0, projection.time_us
    with (out / RECORDS_FILE).open("w") as file:
        for page in reader.all(time_us):
            for record in page.records:
                fields = MemoryRecord.from_record(record, time_us).model_dump(mode="json")
                file.write(json.dumps(fields, ensure_ascii=False) + "\n")
                count += 1
    counts, applied = reader.counts(), projection.applied
    erased_by = projection.whole_after if projection.whole_after > applied.index else 0
    return Replayed(
        name, applied.index, applied.epoch, datetime_of(time_us).isoformat(), count, counts.past_versions,
        counts.rejections, whole_digest(reader.buckets()[1]).hex(), erased_by, str(out),
    )  # fmt: skip
