"""A node's process whose wall clock can be stepped while it runs, for drills: the node itself knows nothing of it.

`python -m veridical.cli.stepped FILE ARGUMENT…` is `veridical ARGUMENT…`, but for the wall clock: that is the machine's
plus the offset in FILE, eight bytes, microseconds. The clock by which leases are judged is left as it is. Nothing in a
node reads the time but by `SystemClock`: the linter sees to it.
"""

from __future__ import annotations

import mmap
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ..node.system import SystemClock

SECOND_US: Final = 1_000_000
_OFFSET: Final = struct.Struct("=q")


def write_offset(file: Path, seconds: int) -> None:
    """Step the wall clock of the process that was started with that file, so far from the machine's."""
    with file.open("r+b" if file.exists() else "w+b", buffering=0) as opened:
        opened.write(_OFFSET.pack(seconds * SECOND_US))


def stepped(file: Path, machine_us: Callable[[], int]) -> Callable[[], int]:
    """A wall clock in microseconds that follows the offset in that file. Raises `OSError` when there is none."""
    with file.open("rb") as opened:
        offset = mmap.mmap(opened.fileno(), _OFFSET.size, access=mmap.ACCESS_READ)
    return lambda: machine_us() + _OFFSET.unpack_from(offset)[0]


def main() -> None:
    """Put the clock in the place of the machine's, and be `veridical`."""
    file, arguments = Path(sys.argv[1]), sys.argv[2:]
    wall_us = stepped(file, SystemClock().wall_us)
    SystemClock.wall_us = lambda self: wall_us()
    sys.argv = [sys.argv[0], *arguments]
    from .main import main as veridical

    veridical()


if __name__ == "__main__":
    main()
