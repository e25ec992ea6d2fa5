"""What the calls about trust say of wrong arguments, before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from veridical.client.trust import following_id, key_of
from veridical.memory import LocalMemory, MemoryRecord, Principal
from veridical.memory.errors import Invalid, TooLarge
from veridical.memory.view import RecordVersion

ALICE = Principal(b"a" * 32)
ID = "0" * 32

Call = Callable[[LocalMemory], object]
WRONG: list[tuple[str, Call]] = [
    ("key", lambda m: m.enroll("alice")),
    ("key", lambda m: m.revoke("00", reason="x")),
    ("public_key", lambda m: m.enroll(ALICE.key_id, "not base64!")),
    ("public_key", lambda m: m.enroll(ALICE.key_id, Principal(b"b" * 32).enroll()[1])),
    ("rights", lambda m: m.enroll(ALICE, grants={"*": "everything"})),
    ("rights", lambda m: m.grant(ALICE, "*", [])),
    ("scope", lambda m: m.grant(ALICE, "a*", "read")),
    ("successor", lambda m: m.rotate(ALICE, ALICE)),
    ("reason", lambda m: m.revoke(ALICE, reason="")),
    ("id", lambda m: m.approve("no id")),
    ("value", lambda m: m.approve(ID, value="no digest")),
    ("text", lambda m: m.edit(ID, " ")),
    ("event", lambda m: m.undo(ID, RecordVersion(epoch=-1, index=0, place=0), reason="x")),
    ("evidence", lambda m: m.attest(ID, {"form": object()})),
    ("speaker", lambda m: m.write_vouched([MemoryRecord(text="x")], " ")),
    ("scope", lambda m: m.set_scope_parent("a*", "b")),
    ("predicate", lambda m: m.set_multi_valued("*", " ")),
    ("scope", lambda m: m.recall("x", scope=["a", "b*"])),
]


@pytest.fixture
def memory() -> Iterator[LocalMemory]:
    """One without files."""
    with LocalMemory(":memory:") as memory:
        yield memory


def test_a_key_is_a_principal_or_its_hex() -> None:
    """Both name the same one."""
    assert key_of("key", ALICE) == key_of("key", ALICE.key_id) == ALICE.public_key


@pytest.mark.parametrize(("field", "call"), WRONG)
def test_what_is_wrong_is_named(memory: LocalMemory, field: str, call: Call) -> None:
    """By its field."""
    with pytest.raises((Invalid, TooLarge)) as error:
        call(memory)
    assert error.value.field == field


def test_no_scope_at_all_finds_nothing(memory: LocalMemory) -> None:
    """An empty list of scopes is not the same as none given."""
    assert memory.recall("x", scope=[]) == []
    assert list(memory.all(scope=[])) == []


def test_the_following_command_is_found_again() -> None:
    """Its id is made of the first one's, and is another."""
    id = "0190b6c7d8e97abc8def012345678901"
    assert following_id(id) == following_id(id) != id
