"""`AntiEntropy`: the reconciler of memories in this process, as their nodes look after themselves."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Final, Self

from ..antientropy.standing import Standing
from ..client.requests import positive
from ..memory.errors import Invalid, VeridicalError
from .facade import EmbeddedMemory

INTERVAL_S: Final = 60.0
TIMEOUT_S: Final = 600.0


class AntiEntropy:
    """Compares the states of members of this process with all others', looks through their files, and repairs.

    Members do the same by themselves, slowly and all the time. This does it now (`run_once`), or every `interval_s`
    between `start` and `stop` (also as a context manager). Rows are folded again from the member's own log, damaged
    entries of the log are fetched from other members and proven; nothing is copied that the log does not prove.
    """

    def __init__(self, *memories: EmbeddedMemory, interval_s: float = INTERVAL_S, timeout_s: float = TIMEOUT_S) -> None:
        if not memories:
            raise Invalid("memories", "name at least one memory of this process")
        self._memories = memories
        self._interval_s = positive("interval_s", interval_s)
        self._timeout_s = positive("timeout_s", timeout_s)
        self._halt = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def run_once(self) -> dict[str, Standing]:
        """Compare, look through everything, repair; how each member stands then, by its name.

        Raises `Unavailable` for a member that could not do it to its end.
        """
        return dict(memory.look_after(run=True, timeout_s=self._timeout_s) for memory in self._memories)

    def status(self) -> dict[str, Standing]:
        """How each member stands, by its name; changes nothing."""
        return dict(memory.look_after(run=False) for memory in self._memories)

    def start(self) -> None:
        """Do it again and again, on a thread; starting twice is allowed."""
        if self._thread is None:
            self._halt.clear()
            self._thread = threading.Thread(target=self._run, name="veridical-anti-entropy", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End that, what is under way finished first; stopping twice is allowed."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._halt.set()
            thread.join()

    def _run(self) -> None:
        while not self._halt.wait(self._interval_s):
            with suppress(VeridicalError):  # what was in the way is told by `status`, and may be gone the next time
                self.run_once()
