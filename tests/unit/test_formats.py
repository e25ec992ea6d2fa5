"""Memories that earlier versions wrote are opened by this one, say the same, and go on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from format_world import ADMIN, BOB, EXPECTED, HERE, STORE, expected

from veridical.cli.audit import verified
from veridical.cli.sources import Place
from veridical.memory import LocalMemory, MemoryRecord, Trust
from veridical.memory.errors import Refused

OF_EACH: list[Path] = sorted(folder for folder in HERE.iterdir() if (folder / STORE).exists())


@pytest.fixture(params=OF_EACH, ids=lambda folder: folder.name)
def written(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, dict[str, Any]]:
    """A copy of what was written then, its keys closed to others again, and what was in it."""
    folder: Path = request.param
    for file in folder.iterdir():
        shutil.copy(file, tmp_path / file.name)
        (tmp_path / file.name).chmod(0o600)
    return tmp_path / STORE, json.loads((folder / EXPECTED).read_text())


def test_there_are_some() -> None:
    """The oldest is the first."""
    assert OF_EACH and sum(file.stat().st_size for folder in OF_EACH for file in folder.iterdir()) < 400_000


def test_the_history_verifies_and_folds_to_the_same(written: tuple[Path, dict[str, Any]]) -> None:
    """Every signature and every link; the digest over all that it led to."""
    path, then = written
    found = verified(Place(store=path), "", quiet=True)
    assert not found.what and not found.files and found.last_index == then["index"]
    assert expected(path) == then
    assert len(then["kinds"]) >= 30


def test_it_is_opened_read_and_gone_on_with(written: tuple[Path, dict[str, Any]]) -> None:
    """What was erased is gone, what was rejected stays rejected, who was revoked is refused, and writing goes on."""
    path, then = written
    with LocalMemory(path, principal=ADMIN) as memory:
        held = {record.id: record for record in memory.all()}
        assert {(id, text) for id, text, _ in then["records"]} == {(id, record.text) for id, record in held.items()}
        assert all("swordfish" not in record.text for record in held.values())
        assert memory.recall("Porto", scope="team")
        assert {one.standing for one in memory.principals()} >= {"enrolled", "rotated", "revoked"}
        new = memory.write(
            MemoryRecord(subject="later", predicate="is", text="written by a later version", scope="team")
        )
        assert (memory.recall("later version", scope="team")[0].id, new.trust) == (new.id, Trust.CANDIDATE)
    with LocalMemory(path, principal=BOB) as memory, pytest.raises(Refused):
        memory.write(MemoryRecord(subject="bob", predicate="is", text="revoked", scope="team"))
    assert not verified(Place(store=path), "", quiet=True).what
