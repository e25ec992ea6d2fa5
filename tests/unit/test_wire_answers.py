"""Questions and answers survive the wire between members, and submissions with what became of them."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from veridical.log.canonical import decode, encode
from veridical.log.configuration import Member, founding
from veridical.log.entry import Position
from veridical.memory.errors import Invalid
from veridical.memory.grants import Grant
from veridical.memory.machine import Outcome
from veridical.memory.principals import Principal
from veridical.memory.record import PastVersion, Record, Version
from veridical.memory.reputation import AuthorTrust
from veridical.memory.tokens import Token
from veridical.node import calls, questions
from veridical.node.ports import (
    BareCommand,
    HelloReply,
    KeyRequest,
    MemberStatus,
    NodeStatus,
    ReadReply,
    ReadRequest,
    Submission,
    SubmitResult,
    Verb,
    Wait,
)
from veridical.node.queries import StateDigest
from veridical.node.rows import record_of, row_of
from veridical.projection.answers import (
    Barred,
    Counts,
    Filters,
    Found,
    HistoryItem,
    HistoryPage,
    Hit,
    Known,
    KnownPage,
    Page,
    ReadPoint,
    Recalled,
    Review,
    ReviewPage,
    ScopeRecords,
    TokenPage,
)
from veridical.proto.generated import admin_pb2, memory_pb2
from veridical.replication.messages import ReadMode

numbers = st.integers(0, 2**62)
texts = st.text(max_size=20)
digests = st.binary(min_size=16, max_size=16)
several = st.lists(digests, max_size=3).map(tuple)
versions = st.builds(Version, numbers, numbers, st.integers(0, 255))
maybe = st.one_of(st.none(), numbers)
shares = st.floats(0, 1)

FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": digests,
    "value_digest": digests,
    "provenance": st.lists(texts, max_size=2).map(tuple),
    "sources": several,
    "principals": several,
    "corroborators": several,
    "contradictors": several,
    "pinned": st.booleans(),
    "version": versions,
} | dict.fromkeys(("valid_from_us", "valid_to_us", "expires_at_us", "volatile_until_us"), maybe)


def field_of(name: str) -> st.SearchStrategy[Any]:
    if name in FIELDS:
        return FIELDS[name]
    return numbers if name.endswith(("_us", "_ppm", "support", "_count")) else texts


records = st.builds(Record, *(field_of(name) for name in Record._fields))
pasts = st.builds(PastVersion, records, versions, numbers, texts, texts)
founds = st.one_of(st.none(), st.builds(Found, records, st.lists(pasts, max_size=2).map(tuple)))
small = st.integers(0, 2**31)
authors = st.builds(AuthorTrust, texts.filter(bool), small, small, small, small)
reviews = st.builds(
    Review, records, st.lists(records, max_size=2).map(tuple), st.lists(pasts, max_size=2).map(tuple), small,
    st.one_of(st.none(), authors), texts,
)  # fmt: skip
grants = st.lists(st.builds(Grant, texts, st.lists(texts, max_size=2).map(tuple)), max_size=2).map(tuple)
principals = st.builds(Principal, digests, digests, texts, texts, grants, small, small, versions)


def known_of(principal: Principal, trust: AuthorTrust) -> Known:
    return Known(principal, trust._replace(kept=principal.kept, lost=principal.lost))


known = st.builds(known_of, principals, authors)
tokens = st.builds(Token, st.binary(min_size=32, max_size=32), digests, texts, numbers, maybe, maybe, versions)
filters = st.builds(
    Filters, st.one_of(st.none(), st.lists(texts, max_size=2).map(tuple)), st.one_of(st.none(), texts),
    st.one_of(st.none(), texts), maybe,
)  # fmt: skip

record_questions: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries({"id": digests})
page_questions: st.SearchStrategy[dict[str, Any]] = st.fixed_dictionaries(
    {"filters": filters, "after": digests}, optional={"limit": st.integers(1, 100)}
)

ARGS: dict[Verb, st.SearchStrategy[dict[str, Any]]] = {
    Verb.GET_MANY: st.fixed_dictionaries({"ids": several}, optional={"as_of_us": numbers, "valid_at_us": numbers}),
    Verb.RECALL: st.fixed_dictionaries({"query": texts, "filters": filters}, optional={"k": st.integers(1, 1000)}),
    Verb.ALL: st.fixed_dictionaries({"filters": filters, "after": digests}, optional={"limit": st.integers(1, 1000)}),
    Verb.HISTORY: st.fixed_dictionaries(
        {"id": digests, "before": st.one_of(st.none(), versions)}, optional={"limit": st.integers(1, 1000)}
    ),
    Verb.PRUNABLE: st.fixed_dictionaries({"at_us": numbers, "half_life_us": numbers, "limit": st.integers(1, 1000)}),
    Verb.SCOPES: st.just({}),
    Verb.COUNTS: st.just({}),
    Verb.DIGEST: st.just({}),
    Verb.REVIEW_QUEUE: st.one_of(record_questions, page_questions),
    Verb.PRINCIPALS: st.fixed_dictionaries(
        {"key": st.one_of(st.just(b""), st.binary(min_size=32, max_size=32)), "after": digests},
        optional={"limit": st.integers(1, 1000)},
    ),
    Verb.LATTICE: st.just({}),
    Verb.REJECTIONS: st.fixed_dictionaries({"id": digests}),
    Verb.TOKENS: st.fixed_dictionaries({"after": digests}, optional={"limit": st.integers(1, 1000)}),
}


def values(point: ReadPoint) -> dict[Verb, st.SearchStrategy[Any]]:
    hits = st.lists(
        st.builds(Hit, records, shares, shares, st.dictionaries(texts, shares, max_size=2)), max_size=2
    ).map(tuple)
    names = st.lists(texts, max_size=2).map(tuple)
    items = st.lists(st.builds(HistoryItem, records, maybe, texts, texts), max_size=2).map(tuple)
    scopes = st.lists(st.builds(ScopeRecords, texts, numbers), max_size=2).map(tuple)
    buckets = st.lists(st.binary(min_size=32, max_size=32), max_size=3).map(tuple)
    return {
        Verb.GET: founds,
        Verb.GET_MANY: st.lists(founds, max_size=2).map(tuple),
        Verb.RECALL: st.builds(Recalled, st.just(point), hits, st.one_of(st.none(), names), names, names),
        Verb.ALL: st.builds(
            Page, st.just(point), st.lists(records, max_size=2).map(tuple), st.one_of(st.none(), digests), names
        ),
        Verb.HISTORY: st.builds(HistoryPage, st.just(point), items, st.one_of(st.none(), versions)),
        Verb.PRUNABLE: st.lists(digests, max_size=3),
        Verb.SCOPES: scopes,
        Verb.COUNTS: st.builds(Counts, *[numbers] * 6),
        Verb.DIGEST: st.builds(StateDigest, st.binary(min_size=32, max_size=32), buckets),
        Verb.REVIEW_QUEUE: st.builds(
            ReviewPage, st.just(point), st.lists(reviews, max_size=2).map(tuple), st.one_of(st.none(), digests), names
        ),
        Verb.PRINCIPALS: st.builds(
            KnownPage, st.just(point), st.lists(known, max_size=2).map(tuple), st.one_of(st.none(), digests)
        ),
        Verb.LATTICE: st.lists(st.tuples(texts, texts), max_size=2).map(tuple),
        Verb.TOKENS: st.builds(
            TokenPage, st.just(point), st.lists(tokens, max_size=2).map(tuple), st.one_of(st.none(), digests)
        ),
        Verb.REJECTIONS: st.lists(st.builds(Barred, digests, st.one_of(st.none(), texts)), max_size=2).map(tuple),
    }


def test_every_verb_is_tested_here():
    """`get` is asked as `get_many` of one id; all others have a form of their own."""
    assert set(ARGS) == set(Verb) - {Verb.GET}
    assert set(values(ReadPoint(0, 0, 0))) == set(Verb)


@pytest.mark.parametrize("verb", list(ARGS))
@given(data=st.data())
def test_a_question_survives_the_wire(verb: Verb, data: st.DataObject):
    """With its mode, its time, and where it must not be older than."""
    request = ReadRequest(
        verb,
        data.draw(ARGS[verb]),
        data.draw(st.sampled_from(ReadMode)),
        data.draw(st.integers(1, 2**40)),
        data.draw(numbers),
        data.draw(maybe),
        Position(data.draw(numbers), data.draw(numbers)),
        data.draw(st.booleans()),
    )
    raw = questions.read_request_to_wire(request).SerializeToString()
    assert questions.read_request_from_wire(memory_pb2.ReadRequest.FromString(raw)) == request


def test_a_single_get_becomes_a_list_of_one():
    """One form on the wire for one and for many."""
    request = ReadRequest(Verb.GET, {"id": bytes(16)}, ReadMode.LOCAL, 1)
    received = questions.read_request_from_wire(questions.read_request_to_wire(request))
    assert (received.verb, received.args) == (Verb.GET_MANY, {"ids": (bytes(16),)})


@pytest.mark.parametrize("verb", list(Verb))
@given(data=st.data())
def test_an_answer_survives_the_wire(verb: Verb, data: st.DataObject):
    """With its position, its moment, and the age of the state behind it."""
    point = ReadPoint(data.draw(numbers), data.draw(numbers), data.draw(numbers))
    value = data.draw(values(point)[verb])
    reply = ReadReply(value, *point, data.draw(st.lists(texts).map(tuple)), "n1", data.draw(maybe))
    raw = questions.read_reply_to_wire(verb, reply).SerializeToString()
    assert questions.read_reply_from_wire(verb, memory_pb2.ReadReply.FromString(raw)) == reply


@pytest.mark.parametrize(
    "raw",
    [
        memory_pb2.ReadRequest(timeout_us=1),
        memory_pb2.ReadRequest(scopes=memory_pb2.Scopes()),
        memory_pb2.ReadRequest(scopes=memory_pb2.Scopes(), timeout_us=-5),
    ],
)
def test_a_question_that_asks_nothing_is_invalid(raw: memory_pb2.ReadRequest):
    """A later client's question, or one without any time, is refused in words."""
    with pytest.raises(Invalid):
        questions.read_request_from_wire(raw)


def test_a_row_of_a_later_release_is_read_as_far_as_it_is_known():
    """Fields are only ever appended."""
    record = data_record()
    assert record_of(encode([*decode(row_of(record)), "a new field"])) == record


def data_record() -> Record:
    return Record._make(
        {"id": bytes(16), "value_digest": bytes(16), "version": Version(1, 2, 3), "pinned": False}.get(
            name, () if name in ("provenance", "sources", "principals", "corroborators", "contradictors") else
            0 if name.endswith(("_us", "_ppm", "support", "_count")) else "text"
        )
        for name in Record._fields
    )  # fmt: skip


@given(st.lists(digests, max_size=3).map(tuple), st.sampled_from(Wait))
def test_a_submission_survives_the_wire(bodies: tuple[bytes, ...], wait: Wait):
    """The exact bytes that were signed."""
    submission = Submission(b"envelope", b"signature", bodies, 5, wait)
    raw = calls.submission_to_wire(submission, relayed=True)
    assert raw.relayed
    assert calls.submission_from_wire(memory_pb2.Submission.FromString(raw.SerializeToString())) == submission


def test_commands_without_a_principal_come_as_names_and_contents():
    """The node salts and signs them."""
    raw = memory_pb2.Submission(commands=[memory_pb2.CommandName(id=bytes(16), kind="memory.pin")], bodies=[b"body"])
    assert calls.bare_commands(raw) == [BareCommand(bytes(16), "memory.pin", b"body")]


outcomes = st.builds(
    Outcome, texts, texts, texts, digests, st.integers(0, 1000), st.lists(texts, max_size=2).map(tuple), versions,
    st.booleans(),
)  # fmt: skip


@given(st.lists(outcomes, max_size=2).map(tuple), st.lists(st.one_of(st.none(), records), max_size=2).map(tuple))
def test_a_result_survives_the_wire(found: tuple[Outcome, ...], rows: tuple[Record | None, ...]):
    """Outcomes and the records they are about. Where an outcome is new, its place is the result's own."""
    placed = tuple(
        each if each.repeated_command else each._replace(version=Version(3, 4, place))
        for place, each in enumerate(found)
    )
    result = SubmitResult(placed, rows, 3, 4, 5)
    raw = calls.submit_result_to_wire(9, result, "n1:1").SerializeToString()
    received = memory_pb2.SubmitResult.FromString(raw)
    assert (received.request, received.leader) == (9, "n1:1")
    assert calls.submit_result_from_wire(received) == result


def test_what_a_node_says_of_itself_survives_the_wire():
    """Hello with and without a configuration, and the request for keys."""
    configuration = founding([Member(name, name, bytes(32), f"{name}:1") for name in ("n1", "n2", "n3")])
    for known in (None, configuration):
        hello = HelloReply("id", "n1", "home", bytes(32), "n1:1", known is not None, "c", b"share", known)
        raw = calls.hello_to_wire(hello).SerializeToString()
        assert calls.hello_from_wire(admin_pb2.HelloReply.FromString(raw)) == hello
    request = KeyRequest("id", "cluster", 17, b"signature")
    assert calls.key_request_from_wire(calls.key_request_to_wire(request)) == request


def test_what_only_a_leader_knows_is_absent_elsewhere():
    """Zero is a number, nothing is nothing."""
    members = (MemberStatus("a", "n1", "n1:1", True, 7, 0, None), MemberStatus("b", "n2", "n2:1", False))
    status = NodeStatus(
        "a", "n1", "home", "c", "n1:1", "leader", 3, "a", True, 7, 6, 8, 100, True, False, "", 1, 2, 3, members
    )
    first, second = calls.status_to_wire(status).members
    assert first.HasField("applied_index")
    assert not first.HasField("last_contact_us")
    assert not second.HasField("match_index")
