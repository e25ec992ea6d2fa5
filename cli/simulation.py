"""`sim`: whole clusters in one process, with every fault, each run reproducible from its seed."""

from __future__ import annotations

from importlib import import_module
from typing import Final

import typer

SIMULATOR: Final = "veridical.testing.sim_command"
"""By name: what is shipped for tests stands above the command line, and nothing else here needs it."""


def sim(context: typer.Context) -> None:
    """Run the simulator, or replay one of its seeds (`veridical sim --help`)."""
    raise typer.Exit(import_module(SIMULATOR).main(context.args))
