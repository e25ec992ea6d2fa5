"""What a row rests on, and what is left of it when some of that is gone. Pure: rows in, rows out.

A value that was derived from other records, or taken from an episode, has the ids of those among its sources, so that
it lives while it has a source, whatever kind of source that is. `grounds` says in addition who took it from there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from .limits import SOURCES_LIMIT
from .record import Ground, Record

ANONYMOUS: Final = b""
APART: Final = b""
CORROBORATED_PPM: Final = 100_000
ENDORSED_PPM: Final = 150_000


def grounds_of(principal: bytes | None, episodes: Iterable[bytes], others: Iterable[bytes]) -> tuple[Ground, ...]:
    """The grounds of one statement: episodes are where its author has it from, of the others it is a consequence."""
    speaker = ANONYMOUS if principal is None else principal
    return (*((id, speaker) for id in episodes), *((id, None) for id in others))


def grounded(record: Record, principal: bytes | None, episodes: Iterable[bytes], others: Iterable[bytes]) -> Record:
    """The record as it rests on what a further statement of its value rests on.

    Of a principal whose statements rest on records it is also noted when one of them does not.
    """
    further = grounds_of(principal, episodes, others)
    has_grounds = any(speaker == principal for _, speaker in record.grounds)
    if principal is not None and (not further or (principal in record.principals and not has_grounds)):
        further = ((APART, principal), *further)
    sources = tuple(dict.fromkeys((*record.sources, *(id for id, _ in further if id))))
    return record._replace(sources=sources, grounds=tuple(dict.fromkeys((*record.grounds, *further))))


def room(record: Record) -> int:
    """How many further records a value may rest on."""
    return max(0, SOURCES_LIMIT - max(len(record.sources), len(record.grounds)))


def silenced(record: Record, lost: Collection[bytes]) -> frozenset[bytes]:
    """The principals that have stated the value on nothing but these records."""
    speakers = {speaker for id, speaker in record.grounds if id in lost}
    left = {speaker for id, speaker in record.grounds if id not in lost}
    return frozenset(speaker for speaker in speakers - left if speaker)


def without(record: Record, lost: Collection[bytes], unrecognised: Collection[bytes] = ()) -> Record:
    """The record as it is once these records are gone: with them goes the support that they gave.

    `unrecognised` are those who counted towards verification by nothing else.
    """
    silent = silenced(record, lost)
    fewer = len(silent) + sum(id in lost and speaker == ANONYMOUS for id, speaker in record.grounds)
    support = max(0, record.support - fewer)
    return record._replace(
        grounds=tuple(ground for ground in record.grounds if ground[0] not in lost),
        sources=tuple(source for source in record.sources if source not in lost),
        principals=tuple(principal for principal in record.principals if principal not in silent),
        authenticated=tuple(speaker for speaker in record.authenticated if speaker not in unrecognised),
        support=support,
        confidence_ppm=max(0, record.confidence_ppm - CORROBORATED_PPM * (raises(record.support) - raises(support))),
    )


def unsaid(record: Record, voice: bytes, unrecognised: Collection[bytes]) -> Record:
    """The record without the statement of one principal, or of one anonymous source.

    Where nobody is left who states it, it rests on what it was derived from, and else on nothing.
    """
    grounds = tuple(ground for ground in record.grounds if ground[1] != voice)
    left = {id for id, _ in grounds}
    lost = {voice, *(id for id, _ in record.grounds)} - left
    support = max(0, record.support - 1)
    sources = (source for source in record.sources if (source not in lost if support else source in left))
    fewer = CORROBORATED_PPM * (raises(record.support) - raises(support))
    return record._replace(
        grounds=grounds,
        sources=tuple(sources),
        principals=tuple(principal for principal in record.principals if principal != voice),
        authenticated=tuple(speaker for speaker in record.authenticated if speaker not in unrecognised),
        corroborators=tuple(mark for mark in record.corroborators if mark != voice),
        support=support,
        confidence_ppm=max(0, record.confidence_ppm - (ENDORSED_PPM if voice in record.corroborators else fewer)),
    )


def resting_instead(record: Record, replaced: Collection[bytes], successor: bytes) -> Record:
    """The record as it rests on one record in the place of others."""
    grounds = ((successor if id in replaced else id, speaker) for id, speaker in record.grounds)
    sources = (successor if source in replaced else source for source in record.sources)
    return record._replace(grounds=tuple(dict.fromkeys(grounds)), sources=tuple(dict.fromkeys(sources)))


def raises(support: int) -> int:
    """How often so much support has raised the confidence: the first independent statement sets it."""
    return max(0, support - 1)
