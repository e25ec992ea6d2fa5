"""The store's own runner, by its public key: whose receipts count while no principal is enrolled (MEMORY § 3).

A node needs no secret for that. It is told the key (`Settings.runner_key`), or takes it from what the runner of its
own user has: the seed in `VERIDICAL_RUNNER_ED25519_SEED`, or else the key file. The leader decides alone, so that every
node of a cluster must know the same key, as it must the same peers; nodes that share a user do so by themselves.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import structlog

from ..security.keys import KeyFileError
from ..verdict.runner import SEED_FILE, SEED_VARIABLE, known_runner_key

_log: structlog.stdlib.BoundLogger = structlog.get_logger("veridical.runner")


class RunnerKey:
    """Looked up until it is known: a program may make its runner's key long after its store. From any thread."""

    def __init__(self, told: str = "", environment: Mapping[str, str] = os.environ, file: Path = SEED_FILE) -> None:
        self._known = bytes.fromhex(told) if told else None
        self._environment = environment
        self._file = file.expanduser()
        self._is_unusable = False

    def __call__(self) -> bytes | None:
        """The key, 32 bytes, or None while there is none, or none that can be used. A look costs a microsecond."""
        if self._known is None and not self._is_unusable and self._is_there:
            self._look()
        return self._known

    @property
    def _is_there(self) -> bool:
        return bool(self._environment.get(SEED_VARIABLE)) or os.path.exists(self._file)  # noqa: PTH110 (a third of the time)

    def _look(self) -> None:
        try:
            self._known = known_runner_key(self._environment, self._file)
        except (KeyFileError, ValueError) as error:
            self._is_unusable = True
            _log.warning("no receipt of this store's runner will count", reason=str(error))
        else:
            key = self._known.hex() if self._known else None
            _log.info("receipts of this runner count while nobody is enrolled", key=key)
