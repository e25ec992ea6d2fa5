"""Whose receipts count in an open store: told, or found where the runner of the node's own user keeps its seed."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from veridical.node.runner import RunnerKey
from veridical.node.settings import Settings
from veridical.security.keys import KeyPair, create_seed
from veridical.verdict.runner import SEED_VARIABLE, default_runner

SEED = bytes([9]) * 32


def test_what_a_node_is_told_goes_before_what_it_finds(tmp_path: Path) -> None:
    """All nodes of a cluster are told the same; what lies on one machine does not matter then."""
    told = KeyPair(bytes([8]) * 32).public_key
    assert RunnerKey(told.hex(), {SEED_VARIABLE: SEED.hex()}, tmp_path / "none")() == told


def test_a_seed_of_the_environment_or_of_the_users_file(tmp_path: Path) -> None:
    """The same places in which `default_runner` looks, in the same order; the node keeps only the public key."""
    file = tmp_path / "runner.key"
    assert RunnerKey("", {SEED_VARIABLE: SEED.hex()}, file)() == KeyPair(SEED).public_key
    create_seed(file, SEED)
    assert RunnerKey("", {}, file)() == default_runner({}, file).public_key == KeyPair(SEED).public_key


def test_a_runner_may_come_to_be_after_its_store(tmp_path: Path) -> None:
    """Looking makes no key; one that a program makes later counts from then on."""
    file = tmp_path / "runner.key"
    key = RunnerKey("", {}, file)
    assert key() is None
    assert not file.exists()
    made = default_runner({}, file)
    assert key() == made.public_key


def test_a_seed_that_others_may_read_counts_for_nothing(tmp_path: Path) -> None:
    """It is nobody's secret any more. The node goes on without a runner, and has said so."""
    file = tmp_path / "runner.key"
    create_seed(file, SEED)
    file.chmod(0o644)
    assert RunnerKey("", {}, file)() is None
    assert RunnerKey("", {SEED_VARIABLE: "not hex"}, file)() is None


def test_a_key_that_is_none_is_said_at_once() -> None:
    """64 hex digits, or nothing."""
    assert Settings(runner_key="ab" * 32).runner_key == "ab" * 32
    with pytest.raises(ValidationError):
        Settings(runner_key="ab")
