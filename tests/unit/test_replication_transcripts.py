"""Golden transcripts of the core: what three replicas say, write and answer, step by step.

Each file of `tests/transcripts` is a list of commands; behind each, after `----`, stands what it must cause. After a
change that is meant, `make transcripts` writes them anew, and the difference is read like code.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from transcript_world import TranscriptWorld

TRANSCRIPTS = sorted((Path(__file__).parent.parent / "transcripts").glob("*.txt"))


def retold(text: str) -> str:
    """The transcript as the core tells it now."""
    world = TranscriptWorld()
    told: list[str] = []
    for block in text.strip().split("\n\n"):
        lines = [line for line in block.split("\n----")[0].split("\n") if line]
        notes = [line for line in lines if line.startswith("#")]
        [command] = [line for line in lines if not line.startswith("#")] or [""]
        told.append("\n".join([*notes, command, "----", world.run(command)] if command else notes))
    return "\n\n".join(told) + "\n"


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_transcript(path: Path) -> None:
    """The core does, line by line, what the transcript says."""
    assert retold(path.read_text()) == path.read_text()


def test_there_are_transcripts() -> None:
    """An empty folder would prove nothing."""
    assert len(TRANSCRIPTS) >= 5
