"""The one history: what any node ever took for committed, in order, folded once more as the nodes' reference."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ..log.configuration import Configuration
from ..log.entry import Entry, Position
from ..memory.machine import Outcome, outcomes
from .fold import Erasure, Fold, parsed
from .violations import Violation

if TYPE_CHECKING:
    from .process import Process

NOT_EXECUTED = ("seen", "conflict", "window")
"""First words of items whose command was not executed by that entry."""


@dataclass(frozen=True, slots=True)
class Execution:
    """Where a command was executed, and what it came to."""

    index: int
    outcome: Outcome


class History:
    """Committed entries. `committed_in` holds, for each, the epoch in which a node first knew it was committed."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        self.committed_in: list[int] = []
        self.configuration: Configuration | None = None
        self.executions: dict[bytes, Execution] = {}
        self.fold = Fold()
        self._holders: dict[bytes, set[str]] = {}
        self._erasures: set[Erasure] = set()
        self._texts: dict[bytes, tuple[list[int], list[str | None]]] = {}

    @property
    def length(self) -> int:
        """How many entries are known to be committed."""
        return len(self.entries)

    def watch(self, record_id: bytes) -> None:
        """Remember every value that this record ever had."""
        self._texts[record_id] = ([0], [None])

    def text_at(self, record_id: bytes, index: int) -> str | None:
        """The text of a watched record after the entry at `index`."""
        indexes, texts = self._texts[record_id]
        return texts[bisect_right(indexes, index) - 1]

    def position_at(self, index: int) -> Position:
        """The position of the committed log if it ended at `index`."""
        return self.entries[index - 1].position if index else Position(0, 0)

    def erases(self, erasure: Erasure) -> bool:
        """Whether that is committed."""
        return erasure in self._erasures

    # --- durability ---

    def holds(self, node: str, entry: Entry) -> None:
        """The entry is durable at `node`."""
        self._holders.setdefault(entry.hash, set()).add(node)

    # --- commits ---

    def commit(self, process: Process, commit_index: int, epoch: int) -> int:
        """A process takes everything up to `commit_index` for committed; returns how many entries are new."""
        log, known = process.log, len(self.entries)
        if commit_index > len(log):
            raise Violation("committed", f"{process.holder.run} applies {commit_index}, its log ends at {len(log)}")
        self._check_agreement(process, min(commit_index, known))
        for entry in log[known:commit_index]:
            self._check_durable(process, entry)
            self._take(entry, epoch)
        return max(0, commit_index - known)

    def _check_agreement(self, process: Process, index: int) -> None:
        if index and process.log[index - 1].hash != self.entries[index - 1].hash:
            mine, theirs = process.log[index - 1], self.entries[index - 1]
            raise Violation(
                "committed entries never change",
                f"{process.holder.run} applies ({mine.epoch}, {index}) where ({theirs.epoch}, {index}) is committed",
            )

    def _check_durable(self, process: Process, entry: Entry) -> None:
        """Committed means durable on W members of the configuration in force, at whoever says so or at another."""
        holders = self._holders.get(entry.hash, set())
        for other in (process, *process.cluster.processes):
            configuration = _newest_configuration(other.log)
            if configuration and len(holders & configuration.voters) >= configuration.write_quorum:
                return
        raise Violation(
            "committed means durable on W members",
            f"{process.holder.run} applies ({entry.epoch}, {entry.index}), which only {sorted(holders)} ever held",
        )

    def _take(self, entry: Entry, epoch: int) -> None:
        self.entries.append(entry)
        self.committed_in.append(epoch)
        self.configuration = entry.configuration or self.configuration
        self._execute(entry)
        self.fold.apply([entry])
        self._erasures.update(self.fold.erasures[len(self._erasures) :])
        for record_id, (indexes, texts) in self._texts.items():
            text = self.fold.text(record_id)
            if text != texts[-1]:
                indexes.append(entry.index)
                texts.append(text)

    def _execute(self, entry: Entry) -> None:
        _, heads, items, *_ = parsed(entry)
        if entry.configuration or _is_election(heads):
            return
        for (id, _), item, outcome in zip(heads, items, outcomes(items, entry.epoch, entry.index), strict=True):
            if _was_executed(item):
                if id in self.executions:
                    raise Violation(
                        "exactly once", f"{id.hex()} is executed at {self.executions[id].index} and at {entry.index}"
                    )
                self.executions[id] = Execution(entry.index, outcome)


def _was_executed(item: Any) -> bool:
    return not item or item[0] not in NOT_EXECUTED


def _is_election(heads: tuple[tuple[bytes, str], ...]) -> bool:
    return len(heads) == 1 and heads[0][1] == "leader.elected"


def _newest_configuration(log: list[Entry]) -> Configuration | None:
    return next((found for entry in reversed(log) if (found := entry.configuration)), None)
