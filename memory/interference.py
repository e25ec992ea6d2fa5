"""What a write meets (MEMORY § 2): identity by key alone, equality by canonical value alone, never by similarity."""

from __future__ import annotations

from typing import Any, NamedTuple

from . import events, rules
from .commands import MULTI_VALUED, WriteBody
from .context import VOUCH, WRITE, Context, Digester
from .derivation import NOTHING, Named, named_sources, resting_on
from .events import Event, refused
from .fields import EMPTY_JSON
from .grounds import CORROBORATED_PPM, raises, room
from .keys import episode_id, is_own_record, is_reserved_key, make_key, normal_name, record_id, sentence_id, value_id
from .lifecycle import INITIAL_CONFIDENCE_PPM, VOLATILE_US, is_expired
from .limits import CONTENDERS_LIMIT
from .record import EPISODE, PPM, VERIFIED, Record
from .scope import scope_matches
from .sources import RECALLED, Source, is_known, is_saturated, source_of, supports
from .state import State
from .text import comparison_key, value_key

_VALUE = b"value"


class Claim(NamedTuple):
    """A write with its identity worked out: the record it is about, its value, and who says so.

    `named` are the records that it rests on, if it names any. What is only derived is nobody's statement: it has no
    principal, and its source does not count.
    """

    id: bytes
    value: bytes
    source: Source
    body: WriteBody
    now_us: int
    named: Named = NOTHING
    corrects: bool = False

    @property
    def expires_at_us(self) -> int | None:
        """When its time to live is over, counted from the write itself."""
        return None if self.body.ttl_us is None else self.now_us + self.body.ttl_us

    @property
    def is_recalled(self) -> bool:
        """Whether it is this memory's own text coming back."""
        return self.body.source.startswith(RECALLED)

    @property
    def is_derived(self) -> bool:
        """Whether no independent source says it: it follows from other records, or is text that was recalled."""
        return self.is_recalled or bool(self.body.derived_from and not self.named.episodes)

    @property
    def said_by(self) -> bytes | None:
        """The source of the statement as its event has it; None where it is no independent one."""
        return None if self.is_derived else self.source.digest


def decide_write(
    state: State,
    body: WriteBody,
    author: bytes | None,
    now_us: int,
    context: Context,
    corrects: bool = False,
    voice: Source | None = None,
) -> Event:
    """The one event of a write. One that `corrects` may return to what was corrected before.

    `voice` is whose it counts as, where that is not the author who says it nor the source that it cites.
    """
    if not context.rights.holds(author, WRITE, body.scope):
        return refused(rules.NOT_GRANTED)
    if body.vouched and not context.rights.holds(author, VOUCH, body.scope):
        return refused(rules.NOT_GRANTED)
    if is_reserved_key(body.predicate, body.scope) and not is_own_record(body.kind, body.predicate, body.scope):
        return refused(rules.RESERVED_KEY)
    source = voice or source_of(author, body.source, context.digests, body.vouched)
    if body.kind == EPISODE:
        return _decide_episode(state, body, author, now_us, context, source)
    if body.derived_from:
        return _decide_grounded(state, body, author, now_us, context, source)
    value = value_digest(body.text, context.digests)
    claim = Claim(_identity(state, body, value, (source.digest,)), value, source, body, now_us, NOTHING, corrects)
    return _barred(state, claim) or _met(state, claim)


def _decide_episode(
    state: State, body: WriteBody, author: bytes | None, now_us: int, context: Context, source: Source
) -> Event:
    """The event of an episode: the same of the same source at the same place is a repetition, and changes nothing."""
    value = context.digests.digest(_VALUE, comparison_key(body.text).encode())
    id = episode_id(body.scope, value, source.digest, body.follows, body.valid_from_us)
    claim = Claim(id, value, source, body, now_us)
    event = _barred(state, claim) or _met(state, claim)
    if event[0] != events.ASSERTED or not body.follows:
        return event
    previous = named_sources(state, (body.follows,), author, now_us, context)
    held = state.record(body.follows)
    if previous is None or not previous.episodes or held is None or held.scope != body.scope:
        return refused(rules.NO_PREDECESSOR, id)
    return [*event, body.follows]


def _decide_grounded(
    state: State, body: WriteBody, author: bytes | None, now_us: int, context: Context, source: Source
) -> Event:
    """The event of a write that names what it rests on: those records are its sources, and must be there."""
    named = named_sources(state, body.derived_from, author, now_us, context)
    if named is None:
        return refused(rules.SOURCE_GONE)
    value = value_digest(body.text, context.digests)
    id = _identity(state, body, value, named.ids)
    named = named.less([source for source in named.ids if state.retracted(id, value, source)])
    if not named.ids:
        return refused(rules.FORGOTTEN_SOURCE, id)
    resting = resting_on(state, id)
    if resting is None:
        return refused(rules.WITHDRAWN_FULL, id)
    named = named.less(resting)
    if not named.ids:
        return refused(rules.CIRCULAR_SOURCE, id)
    principal = source.principal if named.episodes else None
    claim = Claim(id, value, Source(named.ids[0], principal), body, now_us, named)
    return _barred(state, claim) or _met(state, claim)


def value_digest(text: str, digests: Digester) -> bytes:
    """The keyed digest of a value, the same for all its look-alike spellings."""
    return digests.digest(_VALUE, value_key(text).encode())


def is_multi_valued(state: State, predicate: str, scope: str) -> bool:
    """Whether that (normal) predicate was declared to hold many values side by side in that scope."""
    declared = state.setting(MULTI_VALUED)
    if not isinstance(declared, tuple):
        return False
    return any(
        isinstance(item, tuple) and item[1] == predicate and scope_matches(str(item[0]), scope) for item in declared
    )


def _identity(state: State, body: WriteBody, value: bytes, sources: tuple[bytes, ...]) -> bytes:
    if not body.subject:
        return sentence_id(body.scope, value)
    key = make_key(body.subject, body.predicate, body.scope)
    single = record_id(key)
    if state.setting(MULTI_VALUED) is None or not is_multi_valued(state, normal_name(body.predicate), body.scope):
        return single
    return single if _is_known_under(state, single, value, sources) else value_id(key, value)


def _is_known_under(state: State, id: bytes, value: bytes, sources: tuple[bytes, ...]) -> bool:
    """Whether the id of before the predicate was declared multi-valued holds this value, or bars it."""
    present = state.record(id)
    holds = present is not None and present.value_digest == value
    return holds or state.rejected(id, value) or any(state.retracted(id, value, source) for source in sources)


def _barred(state: State, claim: Claim) -> Event | None:
    if state.rejected(claim.id, claim.value):
        return refused(rules.REJECTED_VALUE, claim.id)
    if not state.retracted(claim.id, claim.value, claim.source.digest):
        return None
    if not _was_corrected(state, claim):
        return refused(rules.FORGOTTEN_SOURCE, claim.id)
    return None if claim.corrects else refused(rules.CORRECTED_VALUE, claim.id)


def _was_corrected(state: State, claim: Claim) -> bool:
    """Whether what bars the claim is that another record took this one's place, and not that it was forgotten."""
    last = None if state.record(claim.id) else state.last_past(claim.id)
    return last is not None and last.ended_by == events.SUPERSEDED and claim.source.digest in last.record.sources


def _met(state: State, claim: Claim) -> Event:
    present = state.record(claim.id)
    if present is not None and is_expired(present, claim.now_us):
        present = None
    if present is not None and present.kind != claim.body.kind:
        return refused(rules.OTHER_KIND, claim.id)
    if present is not None and present.value_digest == claim.value:
        return _same_value(present, claim)
    if claim.is_recalled:
        return refused(rules.RECALLED_TEXT, claim.id)
    if present is None:
        return _new_value(events.ASSERTED, claim)
    if present.trust != VERIFIED or supports(present, claim.source):
        return _new_value(events.SUPERSEDED, claim)
    return _contend(state, claim)


def _new_value(code: str, claim: Claim) -> Event:
    body = claim.body
    volatile_until_us = claim.now_us + VOLATILE_US if body.volatile else None
    event: Event = [
        code, claim.id, list(body.ignored), claim.value, claim.source.digest, claim.source.principal, body.kind,
        INITIAL_CONFIDENCE_PPM, claim.expires_at_us, volatile_until_us, body.valid_from_us, body.valid_to_us,
    ]  # fmt: skip
    if claim.named is not NOTHING:
        support = _voices(claim, claim.named)
        event[4] = claim.said_by
        event[7] += CORROBORATED_PPM * raises(support)
        event += [support, *map(list, claim.named)]
    return event


def _voices(claim: Claim, named: Named) -> int:
    """How many independent sources speak when a claim is taken from those records: a principal is always one."""
    return len(named.episodes) if claim.source.principal is None else min(1, len(named.episodes))


def _adds(row: Record, claim: Claim) -> tuple[int, Named]:
    """What a claim does for a row of its value: by how much its support rises, and what it comes to rest on too."""
    if claim.is_recalled or row.kind == EPISODE or is_saturated(row):
        return 0, NOTHING
    if claim.named is NOTHING:
        return int(not is_known(row, claim.source)), NOTHING
    named = claim.named.less(_known_grounds(row, claim.source.principal)).first(room(row))
    return _voices(claim, named) if not supports(row, claim.source) else 0, named


def _known_grounds(row: Record, principal: bytes | None) -> set[bytes]:
    """The records that the row rests on already, as far as that author is concerned. To an anonymous one, all."""
    if principal is None:
        return {*row.sources}
    return {id for id, speaker in row.grounds if speaker in (principal, None)}


def _same_value(present: Record, claim: Claim) -> Event:
    may_amend = present.trust != VERIFIED or supports(present, claim.source)
    amends = may_amend and not claim.is_recalled and _says_more(present, claim.body)
    ends = _longer(present.expires_at_us, claim.expires_at_us) if may_amend else present.expires_at_us
    interval = _interval(present, claim.body) if amends else (present.valid_from_us, present.valid_to_us)
    ignored = list(claim.body.ignored)
    counts, named = _adds(present, claim)
    if not counts:
        event = [events.REPEATED, present.id, ignored, _repeated_source(present, claim), ends, *interval, amends]
        return event + _repeated_grounds(present, claim, named)
    return [
        events.CORROBORATED, present.id, ignored, claim.source.digest, claim.source.principal,
        _raised(present, counts), present.support + counts, ends, *interval, amends,
        *(map(list, named) if named.ids else ()),
    ]  # fmt: skip


def _raised(row: Record, counts: int) -> int:
    return min(PPM, row.confidence_ppm + CORROBORATED_PPM * (raises(row.support + counts) - raises(row.support)))


def _repeated_source(present: Record, claim: Claim) -> bytes | None:
    """The source that a repetition adds; none where the row can take up no further record to rest on."""
    return None if claim.named is not NOTHING and is_saturated(present) else claim.said_by


def _repeated_grounds(present: Record, claim: Claim, named: Named) -> list[Any]:
    """What a repetition says of grounds: those it adds, or that somebody with grounds has said it apart from them."""
    principal = claim.source.principal
    apart = principal is not None and any(speaker == principal for _, speaker in present.grounds)
    if named.ids or (apart and claim.named is NOTHING and not claim.is_recalled):
        return [principal, *map(list, named)]
    return []


def _says_more(present: Record, body: WriteBody) -> bool:
    """A write without metadata or dates keeps those that are there; one with other metadata or dates replaces them."""
    return (
        body.metadata not in (EMPTY_JSON, present.metadata)
        or body.detail not in (EMPTY_JSON, present.detail)
        or _interval(present, body) != (present.valid_from_us, present.valid_to_us)
    )


def _interval(present: Record, body: WriteBody) -> tuple[int | None, int | None]:
    if body.valid_from_us is None and body.valid_to_us is None:
        return present.valid_from_us, present.valid_to_us
    return body.valid_from_us, body.valid_to_us


def _longer(one_us: int | None, other_us: int | None) -> int | None:
    """The later of two ends, where None never ends: saying a thing again does not shorten its life."""
    return None if one_us is None or other_us is None else max(one_us, other_us)


def _contend(state: State, claim: Claim) -> Event:
    contenders = state.contending(claim.id)
    rival = next((contender for contender in contenders if contender.value_digest == claim.value), None)
    if rival is None and len(contenders) >= CONTENDERS_LIMIT:
        return refused(rules.CONTENDERS_FULL, claim.id)
    event = _new_value(events.CONFLICTED, claim)
    support, named = 1, claim.named
    if named is not NOTHING:
        support, event[12:] = event[12], event[13:]
    if rival is not None:
        counts, named = _adds(rival, claim)
        event[4], event[7] = _repeated_source(rival, claim), _raised(rival, counts)
        support, event[12:] = rival.support + counts, map(list, named) if named.ids else ()
    event.insert(8, support)
    return event
