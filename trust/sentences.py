"""What plain English sentences state, by pattern: what finds facts where no model is given. Same text, same facts.

It takes a sentence only when it is a statement in a form it knows, and leaves everything else: a fact that was not
learnt can still be told, one that was made up has to be noticed first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

SPEAKER: Final = "user"
"""Who says "I" in a transcript that names nobody."""

_TURN: Final = re.compile(r"^\s*(?:\[[^\]\n]{1,40}\]\s*)?([A-Z][\w.'-]{0,30}|[a-z]{1,20})\s*:\s+(.+)$")
_GAPS: Final = re.compile(r"\s+")
_SENTENCE: Final = re.compile(r"[^.!?\n]+(?:[.](?=\S)[^.!?\n]*)*[.!?]?")
_CLAUSE: Final = re.compile(r"\s*(?:,\s*|\s)(?:and|but)\s+(?=(?:I|we|my|our)\b)", re.IGNORECASE)
_OPENING: Final = re.compile(
    r"^(?:hi|hello|hey|yes|yeah|no|ok|okay|well|so|and|but|actually|also|please note)\b[,:]?\s*", re.IGNORECASE
)
_DOUBT: Final = re.compile(
    r"\b(?:if|maybe|perhaps|might|may|could|would|should|probably|possibly|guess|wonder|not sure|think so|not|never|"
    r"don'?t|doesn'?t|isn'?t|aren'?t|won'?t|can'?t|didn'?t|wasn'?t|no longer)\b",
    re.IGNORECASE,
)
_NAME: Final = re.compile(r"^(?:I am|I'm|I’m|my name is|this is|call me)\s+([A-Z][\w'-]{1,30})\b", re.IGNORECASE)
_VERBS: Final = (
    "works? (?:at|for|on|in|as)|lives? in|moved to|depends? on|deploys? (?:to|with|via|on)|runs? on|listens? on|"
    "belongs? to|reports? to|prefers?|likes?|loves?|hates?|uses?|needs?|wants?|owns?|maintains?|leads?|manages?|"
    "speaks?|knows?|requires?|supports?|has|have|is|are|am|was|were"
)
_FIRST_PERSON: Final = re.compile(rf"^(?:I|we)\s+(?:\w+ly\s+)?({_VERBS})\s+(.+)$", re.IGNORECASE)
_CONTRACTED: Final = re.compile(r"^(?:I|we)['’](?:m|re)\s+(.+)$", re.IGNORECASE)
_OF_MINE: Final = re.compile(r"^(?:my|our)\s+([\w -]{2,40}?)\s+(?:is|are)\s+(.+)$", re.IGNORECASE)
_THIRD_PERSON: Final = re.compile(
    rf"^((?:the\s+)?[\w./@-]+(?:\s+[\w./@-]+){{0,3}}?)\s+({_VERBS})\s+(.+)$", re.IGNORECASE
)
_LASTING: Final = re.compile(r"(?:an?|the|based|from|responsible|allergic|on the)\b", re.IGNORECASE)
_NO_SUBJECT: Final = frozenset("it this that there they he she you who what which these those here one".split())
_NAMELESS: Final = frozenset("user human me assistant ai system".split())

Stated = tuple[str, str, str]


def stated_facts(transcript: str) -> Iterator[Stated]:
    """Subject, predicate and value of each statement, in the order in which they are made."""
    names: dict[str, str] = {}
    for speaker, said in _turns(transcript):
        if speaker.lower() in ("assistant", "ai", "system", "bot"):
            continue  # what a model says is no evidence
        for sentence in _SENTENCE.findall(said):
            for clause in _CLAUSE.split(sentence):
                yield from _stated(_plain(clause), speaker, names)


def _turns(transcript: str) -> Iterator[tuple[str, str]]:
    speaker = SPEAKER
    for spaced in transcript.splitlines():
        line = _GAPS.sub(" ", spaced)
        turn = _TURN.match(line)
        if turn is not None:
            speaker = turn[1]
        yield speaker, turn[2] if turn is not None else line


def _plain(clause: str) -> str:
    plain = clause.strip().rstrip(".!;,")
    while (opened := _OPENING.sub("", plain)) != plain:
        plain = opened
    return plain.strip()


def _stated(clause: str, speaker: str, names: dict[str, str]) -> Iterator[Stated]:
    if clause.endswith("?") or _DOUBT.search(clause):
        return
    name = _NAME.match(clause)
    if name is not None and name[1][0].isupper():
        names[speaker] = name[1]
        return
    me = names.get(speaker) or (SPEAKER if speaker.lower() in _NAMELESS else speaker)
    mine = _OF_MINE.match(clause)
    if mine is not None:
        yield me, mine[1].lower(), mine[2]
        return
    contracted = _CONTRACTED.match(clause)
    first = _FIRST_PERSON.match(clause)
    verb, what = (
        ("am", contracted[1]) if contracted is not None else (first[1].lower(), first[2]) if first else ("", "")
    )
    if verb in ("am", "are"):
        if _LASTING.match(what):
            yield me, "is", what
    elif verb:
        yield me, _third_person(verb), what
    else:
        yield from _of_others(clause)


def _of_others(clause: str) -> Iterator[Stated]:
    other = _THIRD_PERSON.match(clause)
    if other is None or other[1].lower().split()[0] in _NO_SUBJECT:
        return
    subject = re.sub(r"^the\s+", "", other[1], flags=re.IGNORECASE)
    yield subject, _third_person(other[2].lower()), other[3]


def _third_person(verb: str) -> str:
    """`prefer` as `prefers`: one predicate, whoever says it."""
    first, _, rest = verb.partition(" ")
    first = {"am": "is", "are": "is", "was": "was", "were": "was", "have": "has"}.get(first, first)
    if not first.endswith("s") and first != "moved":
        first += "s"
    return f"{first} {rest}".strip()
