"""Whole envelopes: what the leader calls to decide one, and what every node calls to fold one.

An entry's events are a canonical array with one *item* per command, in the order of the envelope:

    [content_digest, event, …]                                     decided here; each event is [code, …]
    ["seen", code, rule, record id, count, ignored, version]       the id was seen before: its first outcome
    ["conflict"]                                                   the id was seen before with other content
    ["window", rule, time_us]                                      the id is too old, or too far ahead of that time
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from .record import Version
from .state import Workspace


class Rights(Protocol):
    """What an author may do. `author` is a public key (32 bytes), or None for an anonymous one."""

    def holds(self, author: bytes | None, right: str, scope: str) -> bool:
        """Whether that author holds `right` (read, write, review, attest, vouch, admin) in that scope."""
        ...


class Digester(Protocol):
    """Keyed digests (`security.digests.DigestKey`): 16 bytes that tell nothing without the cluster's key."""

    def digest(self, *parts: bytes) -> bytes:
        """The digest of the parts; the borders between parts count."""
        ...


class Context(NamedTuple):
    """What a decision needs beside the state: the digest key, the rights, and the epoch of the deciding leader."""

    digests: Digester
    rights: Rights
    epoch: int


class Command(NamedTuple):
    """One command of an envelope: `content` is its body without the salt, `author` its authenticated principal."""

    id: bytes
    kind: str
    content: bytes
    author: bytes | None


class Outcome(NamedTuple):
    """What a command came to. `code` is the event's name (asserted, corroborated, …, refused, conflict).

    `rule` names the refusing rule, `reason` says it in a sentence; `record_id` is empty when there is none; `count` says
    how many records a batch changed; `ignored` lists fields of the request that no caller can set; `version` is where the
    outcome was recorded, which for a retry is the first time (`repeated_command`).
    """

    code: str
    rule: str
    reason: str
    record_id: bytes
    count: int
    ignored: tuple[str, ...]
    version: Version
    repeated_command: bool


def decide_envelope(
    workspace: Workspace, commands: Sequence[Command], now_us: int, context: Context, index: int
) -> list[list[Any]]:
    """Decide the commands of one envelope, each on the state after the one before; returns the items of its entry.

    `index` is the entry's place-to-be, `now_us` its time. `workspace` is changed as if the entry were folded already.
    """
    raise NotImplementedError


def evolve_entry(
    workspace: Workspace,
    index: int,
    epoch: int,
    time_us: int,
    author: bytes | None,
    heads: Sequence[tuple[bytes, str]],
    items: Sequence[Sequence[Any]],
    bodies: Sequence[bytes | None],
) -> None:
    """Fold one entry. `heads` are `(command id, kind)`, `bodies` contents without salt, or None once erased.

    Entries of other kinds (`leader.elected`, `cluster.configured`) let time pass and change nothing else.
    Raises `Bug` for events that this version does not know.
    """
    raise NotImplementedError


def outcomes(items: Sequence[Sequence[Any]], epoch: int, index: int) -> list[Outcome]:
    """The answers that an entry's items hold, one for each command. Needs no state."""
    raise NotImplementedError
