"""Reading is bounded by grants, in a memory of one's own process as everywhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from reading_rights import ADMINISTRATOR, QUESTIONS, check_rights

from veridical.memory import LocalMemory, MemoryRecord, Principal
from veridical.memory.errors import Refused
from veridical.proto.generated import memory_pb2

ASKED_ELSEWHERE = {"principals", "tokens"}
"""By the contract: everybody knows itself and its own, and administrators know all."""

GUEST = Principal(bytes([99]) * 32)


def test_every_question_answers_within_its_askers_grants(tmp_path: Path) -> None:
    """Each right and each question; what is refused to one is answered to another."""
    with LocalMemory(tmp_path / "brain.db", principal=ADMINISTRATOR) as memory:
        check_rights(memory)


def test_every_question_there_is_stands_in_the_table() -> None:
    """A new way to read cannot be forgotten: whatever the wire can carry is asked."""
    asked = {name.split()[0] for name in QUESTIONS}
    words = {"review_queue": "queue"}
    known = {field.name for field in memory_pb2.ReadRequest.DESCRIPTOR.oneofs_by_name["query"].fields}
    assert {words.get(name, name) for name in known - ASKED_ELSEWHERE} == asked


def test_the_guard_outlives_the_process(tmp_path: Path) -> None:
    """Who is enrolled stands in the log: opened anew, by anybody, the store is guarded."""
    path = tmp_path / "brain.db"
    with LocalMemory(path, principal=ADMINISTRATOR) as memory:
        memory.enroll(ADMINISTRATOR, name="administrator", grants={"*": ["read", "write", "admin"]})
        memory.write(MemoryRecord(subject="sky", predicate="is", text="blue", scope="global"))
    for principal in (None, GUEST):
        with LocalMemory(path, principal=principal) as memory:
            with pytest.raises(Refused, match="not_granted"):
                memory.recall("sky")
            with pytest.raises(Refused, match="not_granted"):
                memory.write(MemoryRecord(subject="sky", predicate="is", text="red", scope="global"))
    with LocalMemory(path, principal=ADMINISTRATOR) as memory:
        assert [record.text for record in memory.recall("sky")] == ["blue"]
