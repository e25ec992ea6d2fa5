"""Histories that go on under another id: after a restore, and after a majority was lost.

A history that was taken over by other members is another one, since nobody can say that the first does not go on
somewhere. The entry that begins it is a configuration which says what it follows; the new id is a hash over that
entry's members and over the whole of what came before, so that it proves itself like that of a founding.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from .canonical import Canonical, NotCanonical, encode, tagged_hash
from .configuration import Configuration

RESUMED_TAG = b"veridical/resumed/1\0"
RESTORED = "restored"
RECOVERED = "recovered"


class Ancestor(NamedTuple):
    """A history that an entry of this log belongs to, and its last entry here."""

    id: str
    last: int


class Resumption(NamedTuple):
    """What a resumed history follows: the id and end of the one before, how it came to be (`RESTORED`, `RECOVERED`).

    `note` says in a sentence by whom, and what may be missing.
    """

    origin: str
    last: int
    hash: bytes
    manner: str
    note: str

    def canonical(self) -> Canonical:
        """The fields behind those of the configuration, in the events of the entry."""
        return [self.origin, self.last, self.hash, self.manner, self.note]

    @staticmethod
    def from_canonical(value: Any) -> Resumption:
        """Read back what `canonical` wrote. Raises `NotCanonical` when it is something else."""
        match value:
            case [str(origin), int(last), bytes(hash), str(manner), str(note)]:
                return Resumption(origin, last, hash, manner, note)
            case _:
                raise NotCanonical("a configuration goes on with what is not the end of another history")


def resumed_id(name: str, configuration: Configuration, resumption: Resumption) -> str:
    """The identity of a resumed history: 32 hex digits over its first members and all of the history before."""
    members: list[Canonical] = [[m.name, m.id, m.public_key] for m in configuration.members]
    return tagged_hash(RESUMED_TAG, encode([name, members, resumption.canonical()])).hex()[:32]
