"""What happened, by name. An event is an array of integers, booleans, nil, byte strings and short strings:

    asserted, superseded   id, ignored, value, source, principal, kind, confidence, expires, volatile until,
                           valid from, valid to; where it rests on records: support, episodes, others; an
                           episode that follows another: that
    conflicted             the same with support after confidence: the value stands beside the verified one
    corroborated           id, ignored, source, principal, confidence, support, expires, valid from, valid to, amends;
                           where it rests on records: episodes, others
    repeated               id, ignored, source, expires, valid from, valid to, amends; where it, or an earlier statement
                           of that principal, rests on records: principal, episodes, others
    corrected              id, [id …], [id …], event: what a write of the other value leads to, for the record of the
                           first id, which takes the place of the second ones, if any; the third rest on it instead
    respelled              id: the same value, written otherwise
    endorsed               id, mark, source, principal, confidence, support, strength
    contradicted           id, mark, confidence, strength; with `rejected` when it went too low
    promoted, demoted, rejected, annotated, forgotten      id
    flagged                id, expires, volatile until
    pinned, unpinned       id, strength
    pruned                 id …
    reinforced             [id, strength] …
    embedded               id, value: a service has made the vector of that value
    set                    name, value …
    recognised             id, speaker: the statement came from an enrolled principal (its key, 32 bytes), or from one
                           that was vouched for (its digest); follows the event of the statement
    confirmed              id: enough such principals have stated it
    unconfirmed            id …: too few of those are left, and nothing else had verified it; follows the event that
                           took statements, or what they rested on, away
    preferred, dismissed   id, value: of a contending version
    edited                 id, value, source, principal, confidence
    rejection_revoked      id, value, confidence
    undone                 id, whether a former row returns; and where it rested on records that are gone, those and
                           the speakers that are authenticated no longer
    unsaid                 id, voice, [speaker …], whether the record goes: a principal or a source took its statement
                           back, and with it what those speakers counted for
    withdrawn              id, cause, [id …], [[id, value, [speaker …]] …], [[id, value] …]: what rested on that record
                           alone is gone, present and contending rows that rested on it too rest on it no longer, and
                           contending rows that rested on it alone are gone; follows the event that took it away
    erased                 id, digest of the scope, id …: the first is forgotten if it was held, the text of all that
                           was ever held or waited under any of them is destroyed
    attested               id, receipt, key of the grader, whether it passed: verified if so, and else rejected
    fixed                  id, strength: of a failure; verified and pinned
    enrolled               key, grants: an array of [scope pattern, [right …]]
    granted, taken         key, grants: all that the principal holds from then on
    revoked                key
    rotated                key, successor
    token_issued           digest of its secret (32 bytes), key that it stands for, when it ends, or nil
    token_revoked          digest of its secret
    unchanged              id: the command asked for what is so already, or may not count again
    refused                id, rule

Shares are parts per million, times microseconds, digests and ids 16 bytes; a mark of a contradiction has 32.
`episodes` and `others` are ids of records; `source` is nil where no independent source says it.
`amends` says that the body's metadata, detail and source replace the record's.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

Event: TypeAlias = "list[Any]"

ASSERTED: Final = "asserted"
SUPERSEDED: Final = "superseded"
CONFLICTED: Final = "conflicted"
CORROBORATED: Final = "corroborated"
REPEATED: Final = "repeated"
CORRECTED: Final = "corrected"
RESPELLED: Final = "respelled"
ENDORSED: Final = "endorsed"
CONTRADICTED: Final = "contradicted"
PROMOTED: Final = "promoted"
DEMOTED: Final = "demoted"
REJECTED: Final = "rejected"
ANNOTATED: Final = "annotated"
FLAGGED: Final = "flagged"
PINNED: Final = "pinned"
UNPINNED: Final = "unpinned"
PRUNED: Final = "pruned"
FORGOTTEN: Final = "forgotten"
REINFORCED: Final = "reinforced"
EMBEDDED: Final = "embedded"
SET: Final = "set"
RECOGNISED: Final = "recognised"
CONFIRMED: Final = "confirmed"
UNCONFIRMED: Final = "unconfirmed"
PREFERRED: Final = "preferred"
DISMISSED: Final = "dismissed"
EDITED: Final = "edited"
REJECTION_REVOKED: Final = "rejection_revoked"
UNDONE: Final = "undone"
UNSAID: Final = "unsaid"
WITHDRAWN: Final = "withdrawn"
ERASED: Final = "erased"
ATTESTED: Final = "attested"
FIXED: Final = "fixed"
ENROLLED: Final = "enrolled"
GRANTED: Final = "granted"
TAKEN: Final = "taken"
REVOKED: Final = "revoked"
ROTATED: Final = "rotated"
TOKEN_ISSUED: Final = "token_issued"
TOKEN_REVOKED: Final = "token_revoked"
UNCHANGED: Final = "unchanged"
REFUSED: Final = "refused"

EXPIRED: Final = "expired"  # ends a past version; never an event of its own

OF_WRITES: Final = frozenset({ASSERTED, SUPERSEDED, CONFLICTED, CORROBORATED, REPEATED})
OF_BATCHES: Final = frozenset({PRUNED, REINFORCED})
OF_PRINCIPALS: Final = frozenset({ENROLLED, GRANTED, TAKEN, REVOKED, ROTATED, TOKEN_ISSUED, TOKEN_REVOKED})


def refused(rule: str, id: bytes = b"") -> Event:
    """A rule stood against the command."""
    return [REFUSED, id, rule]


def unchanged(id: bytes) -> Event:
    """Nothing was to be done."""
    return [UNCHANGED, id]
