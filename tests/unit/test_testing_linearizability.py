"""The search for a linear order: known histories, and every small one against trying all orders."""

from __future__ import annotations

from itertools import permutations

from hypothesis import given
from hypothesis import strategies as st

from veridical.testing.linearizability import FOREVER, Operation, is_linearizable


def write(value: str, began_us: int, ended_us: int = FOREVER) -> Operation:
    return Operation(True, value, began_us, ended_us)


def read(value: str | None, began_us: int, ended_us: int) -> Operation:
    return Operation(False, value, began_us, ended_us)


def test_an_empty_history_is_linearizable() -> None:
    assert is_linearizable([])


def test_a_read_sees_the_write_before_it() -> None:
    assert is_linearizable([write("a", 0, 1), read("a", 2, 3)])
    assert not is_linearizable([write("a", 0, 1), read(None, 2, 3)])


def test_a_read_beside_a_write_may_see_either_value() -> None:
    assert is_linearizable([write("a", 0, 10), read(None, 2, 3), read("a", 4, 5)])


def test_values_do_not_come_back() -> None:
    """Once the new value was read, no later read sees the old one."""
    assert not is_linearizable([write("a", 0, 10), read("a", 2, 3), read(None, 4, 5)])


def test_a_write_without_an_answer_may_happen_late_or_never() -> None:
    assert is_linearizable([write("a", 0), read(None, 5, 6), read("a", 7, 8)])
    assert is_linearizable([write("a", 0), read(None, 5, 6)])
    assert not is_linearizable([write("a", 4), read("a", 1, 2)])


def test_many_concurrent_writes_are_searched_quickly() -> None:
    """The memo keeps the search small where trying all orders would never end."""
    writes = [write(str(number), 0, 100) for number in range(14)]
    assert is_linearizable([*writes, read("13", 101, 102), read("13", 103, 104)])
    assert not is_linearizable([*writes, read("13", 101, 102), read("12", 103, 104)])


def respects_time(order: tuple[Operation, ...]) -> bool:
    return all(not later.ended_us < earlier.began_us for n, earlier in enumerate(order) for later in order[n + 1 :])


def answers_fit(order: tuple[Operation, ...]) -> bool:
    value: str | None = None
    for operation in order:
        if operation.is_write:
            value = operation.value
        elif operation.value != value:
            return False
    return True


def by_trying_all_orders(history: list[Operation]) -> bool:
    certain = [operation for operation in history if operation.ended_us != FOREVER]
    open_writes = [operation for operation in history if operation.ended_us == FOREVER]
    chosen: list[list[Operation]] = [[], *([one] for one in open_writes), open_writes]
    return any(
        respects_time(order) and answers_fit(order) for extra in chosen for order in permutations([*certain, *extra])
    )


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    operations: list[Operation] = []
    for number in range(draw(st.integers(0, 5))):
        began_us = draw(st.integers(0, 8))
        is_write = draw(st.booleans())
        value = str(number) if is_write else draw(st.sampled_from([None, "0", "1", "2", "3"]))
        unanswered = is_write and sum(known.ended_us == FOREVER for known in operations) < 2 and draw(st.booleans())
        ended_us = FOREVER if unanswered else began_us + 1 + draw(st.integers(0, 6))
        operations.append(Operation(is_write, value, began_us, ended_us))
    return operations


@given(histories())
def test_the_search_agrees_with_trying_all_orders(history: list[Operation]) -> None:
    assert is_linearizable(history) == by_trying_all_orders(history)
