"""What an entry's items changed: one effect for each record, and none for what only was asked."""

from typing import Any

import pytest

from veridical.memory import events
from veridical.memory.changes import KINDS, WHOLE_ENTRY, Cursor, Effect, effects_of
from veridical.memory.errors import Invalid

DIGEST = b"d" * 16
ONE, OTHER, THIRD = b"1" * 16, b"2" * 16, b"3" * 16


def test_a_command_has_one_effect_on_a_record():
    """Its first event says what happened; those that follow only add to it."""
    item: list[Any] = [DIGEST, [events.ASSERTED, ONE, []], [events.RECOGNISED, ONE, b"k" * 32], [events.CONFIRMED, ONE]]
    assert effects_of(item) == [Effect(ONE, ("asserted", "recognised", "confirmed"))]


EVENTS: list[tuple[list[Any], list[Effect]]] = [
    ([events.FORGOTTEN, ONE], [Effect(ONE, ("forgotten",), gone=True)]),
    ([events.UNSAID, ONE, OTHER, [], True], [Effect(ONE, ("unsaid",), gone=True)]),
    ([events.UNSAID, ONE, OTHER, [], False], [Effect(ONE, ("unsaid",))]),
    ([events.UNDONE, ONE, True], [Effect(ONE, ("undone",))]),
    ([events.UNDONE, ONE, False], [Effect(ONE, ("undone",), gone=True)]),
    ([events.PRUNED, ONE, OTHER], [Effect(ONE, ("pruned",), gone=True), Effect(OTHER, ("pruned",), gone=True)]),
    ([events.REINFORCED, [ONE, 5], [OTHER, 6]], [Effect(ONE, ("reinforced",)), Effect(OTHER, ("reinforced",))]),
    ([events.PRUNED], []),
    (
        [events.WITHDRAWN, ONE, "forgotten", [OTHER], [[THIRD, DIGEST, []]], [[THIRD, OTHER]]],
        [Effect(ONE, ("withdrawn",)), Effect(OTHER, ("withdrawn",), gone=True), Effect(THIRD, ("withdrawn",))],
    ),
    (
        [events.CORRECTED, ONE, [OTHER], [THIRD], [events.ASSERTED, ONE]],
        [Effect(ONE, ("corrected",)), Effect(OTHER, ("corrected",), gone=True), Effect(THIRD, ("corrected",))],
    ),
    ([events.SET, "window_us", 5], [Effect(b"", ("set",))]),
    ([events.ENROLLED, b"k" * 32, []], [Effect(b"", ("enrolled",))]),
    ([events.REFUSED, ONE, "a_rule"], []),
    ([events.UNCHANGED, ONE], []),
]


@pytest.mark.parametrize(("event", "effects"), EVENTS)
def test_every_kind_of_event_names_what_it_changed(event: list[object], effects: list[Effect]):
    """Records by id, the memory as a whole by none."""
    assert effects_of([DIGEST, event]) == effects


@pytest.mark.parametrize("item", [["seen", "asserted", "", ONE, 1, [], []], ["conflict"], ["window", "x", 5], [1, "n"]])
def test_what_was_not_decided_here_changed_nothing(item: list[object]):
    """Repeated commands, conflicts, and what the cluster writes about itself."""
    assert effects_of(item) == []


def test_kinds_are_what_can_happen():
    """Refusals change nothing, and no event is called expired."""
    assert {"asserted", "forgotten", "pruned", "enrolled"} <= KINDS
    assert not {"refused", "unchanged", "expired"} & KINDS


@pytest.mark.parametrize("cursor", [Cursor("ab" * 16, 7), Cursor("ab" * 16, 7, 0, 3), Cursor("", 0)])
def test_a_cursor_is_one_word(cursor: Cursor):
    """And comes back as it was."""
    assert Cursor.read(cursor.spelled()) == cursor


@pytest.mark.parametrize("word", ["", "7", "a:b", "a:-1", "a:1:2", "a:1:2:3:4", "a:1.5"])
def test_another_word_is_no_cursor(word: str):
    """It says how one is written."""
    with pytest.raises(Invalid):
        Cursor.read(word)


def test_a_cursor_knows_the_next_entry():
    """Within an entry it is the same one again, behind its last command the one after it."""
    assert Cursor("h", 7, 0, 0).next_index == 7
    assert Cursor("h", 7).next_index == Cursor("h", 7, WHOLE_ENTRY).next_index == 8
