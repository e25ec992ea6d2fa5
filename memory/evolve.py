"""What an event does to the state. Runs on every replica and in every replay; never refuses, never looks at a clock.

    evolve(workspace, happening) -> None

*fold-without-bodies*: every choice here is made by the event and by numbers and digests of the state. Text is taken
from the body where there is one and left empty where it was erased; no branch depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias, cast

from . import events
from .commands import (
    LATTICE,
    MULTI_VALUED,
    AnnotateBody,
    CorrectBody,
    EmbedBody,
    WriteBody,
    stored_body,
)
from .correction import rewritten
from .errors import Bug
from .evolve_trust import TRUST_EVOLVERS
from .fields import EMPTY_JSON
from .grounds import grounded, grounds_of, resting_instead, unsaid, without
from .happening import Happening, changing_row, held_row, present_row, said
from .limits import SOURCES_LIMIT
from .merging import joined, merged_json
from .record import ANY_SOURCE, CANDIDATE, EPISODE, PPM, REJECTED, VERIFIED, Record, without_content
from .reputation import judged
from .state import Embedding, SettingValue, Workspace

_Digests: TypeAlias = "tuple[bytes, ...]"
_NOTHING_SAID: Final = WriteBody("", "", "", "", "")


def evolve(workspace: Workspace, happening: Happening) -> None:
    """Change the workspace as the event says. Raises `Bug` for an event that this version does not know."""
    evolver = _EVOLVERS.get(happening.event[0])
    if evolver is None:
        raise Bug(f"history holds an event {happening.event[0]!r} that this version cannot read")
    evolver(workspace, happening)


# --- writes ---------------------------------------------------------------------------------------------------------


def _assert(workspace: Workspace, happening: Happening) -> None:
    present = workspace.record(happening.event[1])
    if present is not None:
        workspace.retire(present, happening.at, happening.time_us, events.EXPIRED)
    _hold(workspace, _fresh(happening))


def _supersede(workspace: Workspace, happening: Happening) -> None:
    present = present_row(workspace, happening)
    reason = "" if happening.written is None else said(happening)
    workspace.retire(present, happening.at, happening.time_us, events.SUPERSEDED, reason)
    successor = _fresh(happening)._replace(
        created_at_us=present.created_at_us, pinned=present.pinned, corrections_count=present.corrections_count + 1
    )
    _hold(workspace, successor)


def _hold(workspace: Workspace, record: Record) -> None:
    workspace.records[record.id] = record
    contenders = workspace.contending(record.id)
    if contenders:
        left = tuple(other for other in contenders if other.value_digest != record.value_digest)
        workspace.contenders[record.id] = left


def _contend(workspace: Workspace, happening: Happening) -> None:
    _, id, _, value, source, principal, _, confidence, support, *_ = happening.event
    contenders = workspace.contending(id)
    place = next((place for place, rival in enumerate(contenders) if rival.value_digest == value), None)
    if place is None:
        workspace.contenders[id] = (*contenders, _fresh(happening))
        return
    rival = contenders[place]
    episodes, others = happening.event[13:] or ((), ())
    if episodes or others:
        rival = grounded(rival, principal, episodes, others)
    joined_rival = rival._replace(
        confidence_ppm=confidence,
        support=support,
        sources=_with(rival.sources, source),
        principals=_with(rival.principals, principal),
        provenance=joined(rival.provenance, _written(happening).provenance),
        last_seen_us=happening.time_us,
        version=happening.at,
    )
    workspace.contenders[id] = (*contenders[:place], joined_rival, *contenders[place + 1 :])


def _fresh(happening: Happening) -> Record:
    code, id, _, value, source, principal, kind, confidence, *numbers = happening.event
    support, sources, grounds, follows = 1, (source,), (), b""
    if code == events.CONFLICTED:
        support, *numbers = numbers
    expires_at_us, volatile_until_us, valid_from_us, valid_to_us, *rest = numbers
    if kind == EPISODE:
        [follows] = rest or [follows]
    elif rest:
        *supports, episodes, others = rest
        support = supports[0] if supports else support
        sources, grounds = (*episodes, *others), grounds_of(principal, episodes, others)
    body, time_us = _written(happening), happening.time_us
    return Record(
        id, kind, body.subject, body.predicate, body.scope, body.text, body.metadata, body.detail, body.source,
        body.provenance, "", value, CANDIDATE, confidence, PPM, time_us, support, sources,
        () if principal is None else (principal,), (), False, False, (), (), grounds, follows, happening.author,
        time_us, time_us, time_us, valid_from_us, valid_to_us, expires_at_us, volatile_until_us, False, 0, code,
        happening.at,
    )  # fmt: skip


def _corroborated(workspace: Workspace, happening: Happening) -> None:
    _, id, _, source, principal, confidence, support, ends, valid_from, valid_to, amends, *grounds = happening.event
    record = changing_row(workspace, happening)
    if grounds:
        record = grounded(record, principal, *grounds)
    workspace.records[id] = _amended(record, happening, amends)._replace(
        confidence_ppm=confidence,
        strength_ppm=PPM,
        strength_at_us=happening.time_us,
        support=support,
        sources=_with(record.sources, source),
        principals=_with(record.principals, principal),
        provenance=joined(record.provenance, _written(happening).provenance),
        last_seen_us=happening.time_us,
        valid_from_us=valid_from,
        valid_to_us=valid_to,
        expires_at_us=ends,
        volatile_until_us=None,
    )


def _repeated(workspace: Workspace, happening: Happening) -> None:
    _, id, _, source, ends, valid_from, valid_to, amends, *grounds = happening.event
    record = changing_row(workspace, happening) if amends else present_row(workspace, happening)
    if grounds:
        record = grounded(record, *grounds)
    workspace.records[id] = _amended(record, happening, amends)._replace(
        sources=_with(record.sources, source),
        last_seen_us=happening.time_us,
        valid_from_us=valid_from,
        valid_to_us=valid_to,
        expires_at_us=ends,
        version=happening.at,
    )


def _amended(record: Record, happening: Happening, amends: bool) -> Record:
    if not amends:
        return record
    body = _written(happening)
    return record._replace(
        metadata=record.metadata if body.metadata == EMPTY_JSON else body.metadata,
        detail=record.detail if body.detail == EMPTY_JSON else body.detail,
        source=body.source or record.source,
    )


# --- corrections ----------------------------------------------------------------------------------------------------


def _corrected(workspace: Workspace, happening: Happening) -> None:
    _, id, replaced, dependants, inner = happening.event
    first = held_row(workspace, replaced[0] if replaced else id, happening)
    body = None if happening.content is None else cast(CorrectBody, stored_body(happening.kind, happening.content))
    evolve(workspace, happening._replace(event=inner, written=rewritten(first, body)))
    if replaced:
        _take_places(workspace, happening, inner[0] == events.ASSERTED)
        for dependant in dependants:
            _move(workspace, happening, dependant)


def _take_places(workspace: Workspace, happening: Happening, is_new: bool) -> None:
    """Retire what was replaced, both where it was and into the history of what takes its place."""
    id, replaced = happening.event[1:3]
    rows = [held_row(workspace, other, happening) for other in replaced]
    record = held_row(workspace, id, happening)
    if is_new:
        _readmit(workspace, record)
        record = record._replace(created_at_us=min(row.created_at_us for row in rows))
    for row in rows:
        workspace.take_over(id, row.id)
        reason = said(happening)
        workspace.retire(
            row._replace(id=id, created_at_us=record.created_at_us),
            happening.at,
            happening.time_us,
            events.SUPERSEDED,
            reason,
        )
        reason = f"{reason} ({id.hex()} took its place)".strip()
        workspace.retire(row, happening.at, happening.time_us, events.SUPERSEDED, reason)
        workspace.records[row.id] = None
        _bar(workspace, row.id, row.value_digest, row.sources)
    workspace.records[id] = record._replace(
        pinned=record.pinned or any(row.pinned for row in rows),
        corrections_count=record.corrections_count + sum(1 + row.corrections_count for row in rows),
        cause=happening.event[0],
        version=happening.at,
    )


def _readmit(workspace: Workspace, record: Record) -> None:
    """What was corrected once and is corrected back is heard again from the sources that had stated it."""
    last = workspace.last_past(record.id)
    if last is not None and last.ended_by == events.SUPERSEDED:
        lifted = {(record.id, record.value_digest, source): False for source in (*last.record.sources, ANY_SOURCE)}
        workspace.retractions.update(lifted)


def _move(workspace: Workspace, happening: Happening, dependant: bytes) -> None:
    id, replaced = happening.event[1:3]
    record = held_row(workspace, dependant, happening)
    workspace.records[dependant] = resting_instead(record, replaced, id)._replace(version=happening.at)
    contenders = workspace.contending(dependant)
    if contenders:
        workspace.contenders[dependant] = tuple(resting_instead(row, replaced, id) for row in contenders)


def _respelled(workspace: Workspace, happening: Happening) -> None:
    record = changing_row(workspace, happening)
    body = None if happening.content is None else cast(CorrectBody, stored_body(happening.kind, happening.content))
    texts = rewritten(record, body)
    workspace.records[record.id] = record._replace(text=texts.text, metadata=texts.metadata, reason=said(happening))


# --- opinions and reviews -------------------------------------------------------------------------------------------


def _endorsed(workspace: Workspace, happening: Happening) -> None:
    _, id, mark, source, principal, confidence, support, strength = happening.event
    record = changing_row(workspace, happening)
    is_independent = support > record.support
    workspace.records[id] = record._replace(
        confidence_ppm=confidence,
        strength_ppm=strength,
        strength_at_us=happening.time_us,
        support=support,
        sources=_with(record.sources, source) if is_independent else record.sources,
        principals=_with(record.principals, principal),
        corroborators=_with(record.corroborators, mark),
        last_seen_us=happening.time_us,
        volatile_until_us=None,
    )


def _contradicted(workspace: Workspace, happening: Happening) -> None:
    _, id, mark, confidence, strength, rejects = happening.event
    record = changing_row(workspace, happening)
    doubted = record._replace(
        confidence_ppm=confidence,
        strength_ppm=strength,
        strength_at_us=happening.time_us,
        contradictors=_with(record.contradictors, mark),
        reason=said(happening),
    )
    workspace.records[id] = _rejected_row(workspace, doubted) if rejects else doubted


def _promoted(workspace: Workspace, happening: Happening) -> None:
    record = changing_row(workspace, happening)
    workspace.records[record.id] = judged(workspace, record, VERIFIED, happening.at)._replace(
        reason=said(happening), last_seen_us=happening.time_us, volatile_until_us=None
    )


def _demoted(workspace: Workspace, happening: Happening) -> None:
    record = changing_row(workspace, happening)
    workspace.records[record.id] = judged(workspace, record, CANDIDATE, happening.at)._replace(
        doubted=True, reason=said(happening)
    )


def _rejected(workspace: Workspace, happening: Happening) -> None:
    record = changing_row(workspace, happening)._replace(reason=said(happening))
    workspace.records[record.id] = _rejected_row(workspace, record)


def _rejected_row(workspace: Workspace, record: Record) -> Record:
    workspace.rejections[record.id, record.value_digest] = True
    return judged(workspace, record, REJECTED, record.version)


# --- notes and flags ------------------------------------------------------------------------------------------------


def _annotated(workspace: Workspace, happening: Happening) -> None:
    record = changing_row(workspace, happening)
    if happening.content is not None:
        body = cast(AnnotateBody, stored_body(happening.kind, happening.content))
        record = record._replace(
            metadata=merged_json("metadata", record.metadata, body.metadata),
            detail=merged_json("detail", record.detail, body.detail),
        )
    workspace.records[record.id] = record


def _flagged(workspace: Workspace, happening: Happening) -> None:
    _, id, ends, volatile_until = happening.event
    record = changing_row(workspace, happening)
    workspace.records[id] = record._replace(expires_at_us=ends, volatile_until_us=volatile_until)


def _pinned(workspace: Workspace, happening: Happening) -> None:
    code, id, strength = happening.event
    record = changing_row(workspace, happening)
    workspace.records[id] = record._replace(
        pinned=code == events.PINNED, strength_ppm=strength, strength_at_us=happening.time_us
    )


def _reinforced(workspace: Workspace, happening: Happening) -> None:
    for id, strength in happening.event[1:]:
        record = held_row(workspace, id, happening)
        workspace.records[id] = record._replace(
            strength_ppm=strength, strength_at_us=happening.time_us, version=happening.at
        )


def _embedded(workspace: Workspace, happening: Happening) -> None:
    """No row changes: the vector is for whoever keeps an index by that embedder. It is text, and goes with its body."""
    if happening.content is not None:
        body = cast(EmbedBody, stored_body(happening.kind, happening.content))
        workspace.embeddings[body.id] = Embedding(body.embedder, body.vector, body.value, happening.at)


# --- ends -----------------------------------------------------------------------------------------------------------


def _pruned(workspace: Workspace, happening: Happening) -> None:
    for id in happening.event[1:]:
        _remove(workspace, held_row(workspace, id, happening), happening)


def _forgotten(workspace: Workspace, happening: Happening) -> None:
    record = present_row(workspace, happening)
    _retract(workspace, record)
    _remove(workspace, record, happening)


def _erased(workspace: Workspace, happening: Happening) -> None:
    """What is held is forgotten, without its text; and what was held before keeps none."""
    _, id, _, *others = happening.event
    for one in (id, *others):
        workspace.erase(one)
    record = workspace.record(id)
    if record is not None:
        _retract(workspace, record)
        _remove(workspace, without_content(record), happening)


def _retract(workspace: Workspace, record: Record) -> None:
    """The retraction covers every value that the key ever held and every source that stated it."""
    held = (record, *workspace.contending(record.id))
    for value_digest, sources in [*workspace.witnesses(record.id), *((row.value_digest, row.sources) for row in held)]:
        _bar(workspace, record.id, value_digest, sources)


def _bar(workspace: Workspace, id: bytes, value_digest: bytes, sources: _Digests) -> None:
    workspace.retractions.update({(id, value_digest, source): True for source in sources})
    if len(sources) >= SOURCES_LIMIT:  # the record stopped listing sources: none of them may bring the value back
        workspace.retractions[id, value_digest, ANY_SOURCE] = True


def _withdrawn(workspace: Workspace, happening: Happening) -> None:
    """What rested on the record that the event before took away: gone with it, or resting on the rest."""
    _, source, cause, fallen, cut, dropped = happening.event
    epoch, index, place = happening.at
    reason = f"it rested on {source.hex()} alone: {cause} at {epoch}.{index}.{place}"
    ended_by = events.FORGOTTEN if cause in (events.FORGOTTEN, events.ERASED) else events.WITHDRAWN
    for id in fallen:
        workspace.retire(held_row(workspace, id, happening), happening.at, happening.time_us, ended_by, reason)
        workspace.records[id] = None
        if workspace.contending(id):
            workspace.contenders[id] = ()
    for id, value in dropped:
        workspace.contenders[id] = tuple(row for row in workspace.contending(id) if row.value_digest != value)
    lost = {*fallen} if workspace.record(source) else {source, *fallen}
    for id, value, unrecognised in cut:
        _cut(workspace, happening, id, value, lost, unrecognised)


def _cut(
    workspace: Workspace, happening: Happening, id: bytes, value: bytes, lost: set[bytes], unrecognised: list[bytes]
) -> None:
    record = held_row(workspace, id, happening)
    if record.value_digest == value:
        workspace.retire(record, happening.at, happening.time_us, events.WITHDRAWN)
        workspace.records[id] = without(record, lost, unrecognised)._replace(
            updated_at_us=happening.time_us, cause=events.WITHDRAWN, version=happening.at
        )
        return
    workspace.contenders[id] = tuple(
        without(row, lost, unrecognised)._replace(version=happening.at) if row.value_digest == value else row
        for row in workspace.contending(id)
    )


def _unsaid(workspace: Workspace, happening: Happening) -> None:
    _, id, voice, unrecognised, goes = happening.event
    if goes:
        _remove(workspace, held_row(workspace, id, happening), happening)
    else:
        workspace.records[id] = unsaid(changing_row(workspace, happening), voice, unrecognised)


def _remove(workspace: Workspace, record: Record, happening: Happening) -> None:
    reason = "" if happening.event[0] == events.PRUNED else said(happening)
    workspace.retire(record, happening.at, happening.time_us, happening.event[0], reason)
    workspace.records[record.id] = None
    if workspace.contending(record.id):
        workspace.contenders[record.id] = ()


# --- settings -------------------------------------------------------------------------------------------------------


def _set(workspace: Workspace, happening: Happening) -> None:
    _, name, *values = happening.event
    if name == MULTI_VALUED:
        workspace.settings[name] = _declared(workspace, *values)
    elif name == LATTICE:
        workspace.settings[name] = _placed(workspace, *values)
    else:
        workspace.settings[name] = values[0]


def _declared(workspace: Workspace, pattern: str, predicate: str) -> SettingValue:
    declared = set(cast("tuple[tuple[str, str], ...]", workspace.setting(MULTI_VALUED) or ()))
    return tuple(sorted(declared | {(pattern, predicate)}))


def _placed(workspace: Workspace, child: str, parent: str) -> SettingValue:
    parents = dict(cast("tuple[tuple[str, str], ...]", workspace.setting(LATTICE) or ()))
    parents.pop(child, None)
    if parent:
        parents[child] = parent
    return tuple(sorted(parents.items()))


def _nothing(workspace: Workspace, happening: Happening) -> None:
    """The command changed nothing; its outcome is remembered all the same."""


# --- parts ----------------------------------------------------------------------------------------------------------


def _with(digests: _Digests, further: bytes | None) -> _Digests:
    if further is None or further in digests or len(digests) >= SOURCES_LIMIT:
        return digests
    return (*digests, further)


def _written(happening: Happening) -> WriteBody:
    if happening.written is not None:
        return happening.written
    if happening.content is None:
        return _NOTHING_SAID
    return cast(WriteBody, stored_body(happening.kind, happening.content))


_EVOLVERS: Final[Mapping[str, Callable[[Workspace, Happening], None]]] = {
    events.ASSERTED: _assert,
    events.SUPERSEDED: _supersede,
    events.CONFLICTED: _contend,
    events.CORROBORATED: _corroborated,
    events.REPEATED: _repeated,
    events.CORRECTED: _corrected,
    events.RESPELLED: _respelled,
    events.ENDORSED: _endorsed,
    events.CONTRADICTED: _contradicted,
    events.PROMOTED: _promoted,
    events.DEMOTED: _demoted,
    events.REJECTED: _rejected,
    events.ANNOTATED: _annotated,
    events.FLAGGED: _flagged,
    events.PINNED: _pinned,
    events.UNPINNED: _pinned,
    events.PRUNED: _pruned,
    events.FORGOTTEN: _forgotten,
    events.ERASED: _erased,
    events.UNSAID: _unsaid,
    events.WITHDRAWN: _withdrawn,
    events.REINFORCED: _reinforced,
    events.EMBEDDED: _embedded,
    events.SET: _set,
    **TRUST_EVOLVERS,
    events.UNCHANGED: _nothing,
    events.REFUSED: _nothing,
}
