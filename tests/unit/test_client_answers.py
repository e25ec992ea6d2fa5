"""Records as callers get them: built from rows without validation, and yet what validation would have made."""

import copy
import pickle
from typing import Any

import pytest
from fake_nodes import TIME_US, record_of

from veridical.client.answers import Answer, written, written_or_refused
from veridical.memory.commands import WRITE, WriteBody, encode_body
from veridical.memory.errors import Conflict, Refused
from veridical.memory.view import MemoryKind, MemoryRecord
from veridical.node.rows import row_of
from veridical.proto.generated import memory_pb2

ROW = row_of(record_of(encode_body(WRITE, WriteBody("fact", "subject", "is", "repo:app", "value"))))


def answer(row: bytes = ROW, **outcome: Any) -> Answer:
    fields: Any = {"code": "asserted"} | outcome
    return Answer(bytes(16), memory_pb2.Outcome(**fields), row, 3, 9, TIME_US)


def test_a_record_is_whole():
    """Every field is there, and the record can be compared, copied, dumped, read again and pickled."""
    record = written(answer())
    assert set(vars(record)) == set(MemoryRecord.model_fields) == record.model_fields_set
    assert MemoryRecord.model_validate(record.model_dump()) == record
    assert copy.deepcopy(record) == record
    assert pickle.loads(pickle.dumps(record)) == record
    assert record.kind is MemoryKind.FACT
    with pytest.raises(ValueError, match="kind"):
        record.kind = "nonsense"  # pyright: ignore[reportAttributeAccessIssue]


def test_it_tells_what_became_of_its_command():
    """Outcome, command, place in history, and what was left aside."""
    record = written(answer(ignored=["trust"]))
    assert (record.outcome, record.command_id, record.epoch, record.index) == ("asserted", "00" * 16, 3, 9)
    assert record.ignored == ["trust"]


def test_a_repeated_command_tells_its_first_outcome():
    """Where it was recorded then; and the record as it is now, or only its id when it is gone."""
    first = memory_pb2.Version(epoch=1, index=2, place=0)
    repeated = answer(b"", repeated_command=True, version=first, record_id=b"r" * 16)
    record = written(repeated)
    assert (record.epoch, record.index, record.id, record.text) == (1, 2, (b"r" * 16).hex(), "")


def test_refusals_are_raised_alone_and_returned_in_bulk():
    """With their rule and its sentence."""
    refused = answer(b"", code="refused", rule="reserved", reason="belongs to the product")
    with pytest.raises(Refused) as caught:
        written(refused)
    assert (caught.value.rule, caught.value.reason) == ("reserved", "belongs to the product")
    assert isinstance(written_or_refused(refused), Refused)
    with pytest.raises(Conflict):
        written(answer(b"", code="conflict"))
