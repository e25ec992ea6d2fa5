"""Every error that a user can act on has a line and an exit code."""

from __future__ import annotations

import inspect

import pytest

from veridical.cli import failures
from veridical.log.errors import LogDamaged, LogError
from veridical.memory import errors
from veridical.memory.errors import Refused, TooLarge, Unavailable, VeridicalError
from veridical.node.identity import DirectoryInUse
from veridical.projection.errors import ProjectionDamaged

TREE = [
    kind
    for _, kind in inspect.getmembers(errors, inspect.isclass)
    if issubclass(kind, VeridicalError) and kind is not VeridicalError
]


@pytest.mark.parametrize("kind", TREE, ids=lambda kind: kind.__name__)
def test_each_kind_of_error_has_an_exit_code_of_its_own(kind: type[VeridicalError]) -> None:
    codes = {other: failures.exit_code(other.__new__(other)) for other in TREE}
    assert codes[kind] is not None
    assert list(codes.values()).count(codes[kind]) == 1


def test_no_error_shares_a_code_with_a_wrong_command_line() -> None:
    assert all(failures.exit_code(kind.__new__(kind)) not in (0, 1, failures.USAGE) for kind in TREE)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LogDamaged("log.db", 7, "a flipped bit"), failures.DAMAGED),
        (LogError("another kind"), 31),
        (ProjectionDamaged("projection.db", "bits"), 31),
        (DirectoryInUse("in use"), 32),
        (FileNotFoundError(2, "No such file or directory", "facts.md"), failures.FILE),
    ],
)
def test_errors_of_the_rooms_below_have_codes(error: Exception, code: int) -> None:
    assert failures.exit_code(error) == code


def test_what_only_a_programmer_can_mend_has_none() -> None:
    assert failures.exit_code(KeyError("x")) is None


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (Refused("rejected_value", "it was\nrejected"), "rejected_value: it was rejected"),
        (TooLarge("text", 3, 2, "characters"), "text: 3 characters exceed the limit of 2"),
        (Unavailable("no leader", ["a:1", "b:2"]), "no leader (no answer from a:1, b:2)"),
        (LogDamaged("log.db", 7, "bits"), "log.db, entry 7: bits"),
        (FileNotFoundError(2, "No such file or directory", "facts.md"), "facts.md: No such file or directory"),
    ],
)
def test_an_error_is_one_line(error: Exception, line: str) -> None:
    assert failures.sentence(error) == line


def test_the_table_in_the_docstring_is_the_table() -> None:
    """Every code that is ever used stands in the text that users are shown."""
    text = failures.__doc__ or ""
    codes = set(vars(failures)["_CODES"].values())
    assert codes
    assert all(f"{code} " in text for code in codes)
