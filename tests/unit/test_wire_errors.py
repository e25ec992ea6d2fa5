"""Errors cross the wire whole: each has one kind and one status code, and arrives as what it was."""

import grpc
import grpc.aio
import pytest

from veridical.client import errors as client_errors
from veridical.log.errors import LogFull
from veridical.memory import errors
from veridical.memory.errors import (
    Bug,
    Compacted,
    Conflict,
    HistoryChanged,
    Invalid,
    NotLeader,
    OutcomeUnknown,
    Refused,
    Retry,
    TooLarge,
    Unavailable,
    VeridicalError,
)
from veridical.node.errors import CODES, FAILURE_METADATA, KINDS, failed, failure_of, raised
from veridical.proto.generated.failure_pb2 import Failure

EXAMPLES = [
    Retry("4096 reads are under way", 0.02),
    NotLeader("127.0.0.1:7401"),
    NotLeader(),
    OutcomeUnknown("ab" * 16, "leadership ended"),
    Refused("rejection-stands", "it was rejected before"),
    Invalid("text", "is empty"),
    TooLarge("text", 20_001, 20_000, "characters"),
    Conflict("cd" * 16),
    Unavailable("no quorum", ("n2", "n3")),
    Compacted(1_000),
    HistoryChanged("ab" * 16),
]


def every_error() -> set[type[VeridicalError]]:
    found = {value for value in vars(errors).values() if isinstance(value, type) and issubclass(value, VeridicalError)}
    return found - {VeridicalError}


def what_it_holds(error: VeridicalError) -> tuple[type, str, dict[str, object]]:
    return (type(error), str(error), vars(error))


def test_the_map_is_complete():
    """Every error of the tree has a kind, every kind of the wire a status code of its own, and the client knows it."""
    assert set(KINDS) == every_error()
    assert set(KINDS.values()) == set(CODES) == set(Failure.Kind.values())
    assert len(set(CODES.values())) == len(CODES)
    assert set(client_errors.ERRORS.values()) | {Bug} == every_error()
    assert {type(example) for example in EXAMPLES} | {Bug} == every_error()


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
def test_an_error_arrives_as_what_it_was(error: VeridicalError):
    """Type, text and data; at another node and at a client."""
    failure = Failure.FromString(failed(error).SerializeToString())
    assert what_it_holds(raised(failure)) == what_it_holds(error)
    assert what_it_holds(client_errors.raised(failure)) == what_it_holds(error)


def test_what_nobody_foresaw_tells_no_details():
    """A traceback is for the operator: the caller hears that it is a bug and where to look."""
    failure = failed(KeyError("/secret/path"))
    assert failure.kind == Failure.BUG
    assert "secret" not in str(failure)
    assert isinstance(client_errors.raised(failure), Bug)


def test_a_log_that_cannot_be_written_makes_a_node_unavailable():
    """The log's own errors are no business of a caller, except that this node cannot help."""
    assert failed(LogFull("no room")).kind == Failure.UNAVAILABLE


def test_a_status_without_a_failure_never_reached_a_node():
    """Only a node's own code adds a failure; what comes without one came from the way."""
    bare = grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, grpc.aio.Metadata(), grpc.aio.Metadata(), "refused")
    assert failure_of(bare) is None
    error = client_errors.error_of(bare, "127.0.0.1:1")
    assert isinstance(error, Unavailable)
    assert error.who == ("127.0.0.1:1",)


def test_a_failure_travels_in_the_trailing_metadata():
    """What a unary call ends with."""
    raw = failed(TooLarge("ids", 1001, 1000, "ids")).SerializeToString()
    trailing = grpc.aio.Metadata((FAILURE_METADATA, raw))
    error = grpc.aio.AioRpcError(grpc.StatusCode.OUT_OF_RANGE, grpc.aio.Metadata(), trailing)
    assert isinstance(client_errors.error_of(error, "n1"), TooLarge)
