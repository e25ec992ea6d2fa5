"""Runners: the key that signs receipts, and the clock that dates them. The one module of this room that acts."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ..security.keys import KeyFileError, KeyPair, create_seed, load_seed, seed_from_hex
from ..security.principal import Principal

SEED_VARIABLE: Final = "VERIDICAL_RUNNER_ED25519_SEED"
SEED_FILE: Final = Path("~/.config/veridical/runner.key")


def wall_us() -> int:
    """The machine's time in microseconds since 1970."""
    return time.time_ns() // 1000


@dataclass(frozen=True, slots=True)
class Runner:
    """Whoever runs graders and signs for what came out."""

    keys: KeyPair
    wall_us: Callable[[], int] = wall_us

    @property
    def public_key(self) -> bytes:
        """By what a store knows this runner, 32 bytes."""
        return self.keys.public_key


def known_runner_key(environment: Mapping[str, str] = os.environ, file: Path = SEED_FILE) -> bytes | None:
    """The public key of `default_runner`, 32 bytes; None where there is no such runner yet. Makes nothing.

    Raises what `default_runner` raises.
    """
    if not environment.get(SEED_VARIABLE) and not file.expanduser().exists():
        return None
    return default_runner(environment, file).public_key


def default_runner(environment: Mapping[str, str] = os.environ, file: Path = SEED_FILE) -> Runner:
    """The runner of this machine's user: the seed of the environment, or else of a key file, made when missing.

    Raises `ValueError` for a seed that is none and `KeyFileError` for a file that others may read.
    """
    text = environment.get(SEED_VARIABLE)
    if text:
        return Runner(KeyPair(seed_from_hex(text)))
    path = file.expanduser()
    if path.exists():
        return Runner(KeyPair(load_seed(path)))
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        return Runner(KeyPair(create_seed(path, Principal.generate().seed)))
    except KeyFileError:  # somebody else made it meanwhile
        return Runner(KeyPair(load_seed(path)))
