"""`doctor` and `reindex` on memories in one file: what is whole, what is not, and what to do about it."""

from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from veridical.cli.failures import INVALID, NEGATIVE
from veridical.cli.main import application
from veridical.memory import LocalMemory, MemoryRecord, Principal

ADMIN = Principal(b"a" * 32)


@pytest.fixture(autouse=True)
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The store that the environment names; nothing else is set."""
    for name in ("MEMORY_BACKEND", "ENDPOINTS", "PRINCIPAL_SEED", "EMBEDDER"):
        monkeypatch.delenv(f"VERIDICAL_{name}", raising=False)
    path = tmp_path / "a brain" / "brain.db"
    monkeypatch.setenv("VERIDICAL_MEMORY_STORE", str(path))
    monkeypatch.setenv("VERIDICAL_DATA", str(tmp_path / "nowhere"))
    return path


@pytest.fixture
def filled(store: Path) -> Path:
    """A store with a hundred facts, one rejected, one forgotten."""
    with LocalMemory(store) as memory:
        written = memory.write_many([
            MemoryRecord(subject=f"s{n}", predicate="is", text=f"value {n}", scope=f"team:{n % 3}") for n in range(100)
        ])  # fmt: skip
        first, second = (record for record in written[:2] if isinstance(record, MemoryRecord))
        memory.reject(first.id, reason="wrong")
        memory.forget(second.id)
    return store


def run(*arguments: str) -> tuple[int, Any]:
    """Exit code and JSON answer."""
    result = CliRunner().invoke(application(), [*arguments, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.stderr


def troubles(report: Any) -> dict[str, str]:
    """What is in trouble, with what to do."""
    return {check["what"]: check["do"] for check in report["checks"] if not check["good"]}


def test_a_whole_store_is_well(filled: Path) -> None:
    """Where it lies, what was verified, and what it answers; nothing is changed by looking."""
    with LocalMemory(filled) as memory:
        before = [(record.id, record.text) for record in memory.all()]
    code, report = run("doctor")
    assert (code, report["good"], report["store"]) == (0, True, str(filled))
    assert (report["backend"], report["chosen_by"], report["known_backends"]) == (
        "local",
        "default",
        ["cluster", "local"],
    )
    found = {check["what"]: check["found"] for check in report["checks"]}
    assert "verify" in found["log"] and "full text" in found["projection"]
    assert "99 records in 3 scopes" in found["memory"]
    with LocalMemory(filled) as memory:
        assert [(record.id, record.text) for record in memory.all()] == before
        assert memory.scopes().get("doctor") is None


def test_it_writes_only_when_told(filled: Path) -> None:
    """A fact in a scope of its own, which is forgotten again."""
    code, report = run("doctor", "--write")
    assert code == 0
    assert "takes a fact" in next(check["found"] for check in report["checks"] if check["what"] == "memory")
    with LocalMemory(filled) as memory:
        assert "doctor" not in memory.scopes()


def test_a_store_that_is_not_there_yet_is_not_made(store: Path) -> None:
    """It says where it would lie."""
    code, report = run("doctor")
    assert (code, report["store"], store.exists(), store.parent.exists()) == (0, str(store), False, False)


def test_people_read_lines(filled: Path) -> None:
    """The same without JSON."""
    result = CliRunner().invoke(application(), ["doctor"])
    assert result.exit_code == 0
    assert f"store: {filled}" in result.stdout and "good  log: " in result.stdout


def test_full_text_out_of_step_is_found_and_made_again(filled: Path) -> None:
    """A row that nobody indexed, and one that nobody took out: SQLite's own check sees neither."""
    answers = answers_of(filled)
    projection = filled.with_name("brain.db.projection")
    connection = sqlite3.connect(projection)
    (number,) = connection.execute("SELECT max(number) FROM record").fetchone()
    connection.execute("DELETE FROM record WHERE number = ?", (number,))
    connection.commit()
    assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    code, report = run("doctor")
    assert (code, report["good"]) == (NEGATIVE, False)
    assert "veridical reindex" in troubles(report)["projection"]
    code, (done,) = run("reindex", str(filled))
    assert (code, done["equal"], len(done["digest"])) == (0, False, 64)
    assert run("doctor")[0] == 0
    assert answers_of(filled) == answers


def test_a_reindexed_memory_answers_the_same(filled: Path) -> None:
    """Byte for byte; the digests say so."""
    answers = answers_of(filled)
    code, (done,) = run("reindex", str(filled))
    assert (code, done["equal"], done["before"]) == (0, True, done["digest"])
    assert answers_of(filled) == answers
    filled.with_name("brain.db.projection").unlink()
    code, (done,) = run("reindex", str(filled))
    assert (code, done["before"]) == (0, "missing")
    with LocalMemory(filled) as memory:
        assert done["records"] == len(list(memory.all()))
    assert answers_of(filled) == answers


def answers_of(path: Path) -> list[Any]:
    """What a memory says, without what fades while the test runs."""
    fading = {"retrieval_strength", "score"}
    with LocalMemory(path) as memory:
        found = [*memory.all(), *memory.recall("value", k=50), *memory.recall("s7 value 7", k=3)]
        return [record.model_dump_json(exclude=fading) for record in found] + [memory.scopes()]


def test_a_damaged_log_is_told_and_not_opened(filled: Path) -> None:
    """The one file that cannot be made again: nothing is folded from it either."""
    raw = bytearray(filled.read_bytes())
    place = raw.find(b"value 7")
    raw[place] ^= 1
    filled.write_bytes(raw)
    code, report = run("doctor")
    assert code == NEGATIVE
    assert "copy or an export" in troubles(report)["log"]
    assert "memory" not in {check["what"] for check in report["checks"]}
    assert run("reindex", str(filled))[0] == 30


def test_a_store_in_use_is_told_with_its_process(filled: Path) -> None:
    """Its files are looked at all the same."""
    with LocalMemory(filled) as memory:
        assert memory.scopes()
        code, report = run("doctor")
        assert (code, list(troubles(report))) == (NEGATIVE, ["process"])
        assert "verify" in {check["what"]: check["found"] for check in report["checks"]}["log"]
        assert run("reindex", str(filled))[0] == 31
    assert run("doctor")[0] == 0


def test_a_guarded_store_is_opened_as_its_principal(filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the right to read, the rule is named."""
    with LocalMemory(filled, principal=ADMIN) as memory:
        memory.enroll(ADMIN, grants={"*": ["read", "write", "admin"]})
    code, report = run("doctor")
    assert (code, list(troubles(report))) == (NEGATIVE, ["memory"])
    assert any("not_granted" in check["found"] for check in report["checks"])
    monkeypatch.setenv("VERIDICAL_PRINCIPAL_SEED", ADMIN.seed.hex())
    code, report = run("doctor")
    assert (code, report["principal"]) == (0, ADMIN.key_id)


@pytest.mark.parametrize(
    ("setting", "value", "what"),
    [
        ("MEMORY_BACKEND", "postgress", "backend"),
        ("PRINCIPAL_SEED", "abc", "principal"),
        ("MEMORY_STORE", "/", "backend"),
    ],
)
def test_wrong_settings_are_trouble(monkeypatch: pytest.MonkeyPatch, setting: str, value: str, what: str) -> None:
    """Each told by itself, with what to do."""
    monkeypatch.setenv(f"VERIDICAL_{setting}", value)
    code, report = run("doctor")
    assert code == NEGATIVE
    assert troubles(report)[what]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("", "words"),
        ("hash", "surface, not meaning"),
        ("local", "meaning"),
    ],
)
def test_the_embedder_is_told(monkeypatch: pytest.MonkeyPatch, name: str, told: str) -> None:
    """Which one, and what it matches; an unknown one is trouble."""
    monkeypatch.setenv("VERIDICAL_EMBEDDER", name)
    code, report = run("doctor")
    assert (code, report["embedder"].rpartition("matches ")[2]) == (0, told)
    monkeypatch.setenv("VERIDICAL_EMBEDDER", "no-such-embedder")
    code, report = run("doctor")
    assert (code, list(troubles(report))) == (NEGATIVE, ["embedder"])


def test_a_cluster_that_does_not_answer_is_trouble(monkeypatch: pytest.MonkeyPatch) -> None:
    """By backend and by endpoint; without endpoints, what to set."""
    code, report = run("doctor", "--endpoint", "127.0.0.1:1", "--timeout", "1")
    assert (code, report["backend"], list(troubles(report))) == (NEGATIVE, "cluster", ["cluster"])
    code, report = run("doctor", "--backend", "cluster")
    assert (code, list(troubles(report))) == (NEGATIVE, ["backend"])


def test_what_was_ignored_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: Path) -> None:
    """A package that registers a name of the product's own: the store that is opened stays ours."""
    info = tmp_path / "site" / "burglar-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: burglar\nVersion: 1.2\n")
    (info / "entry_points.txt").write_text("[veridical.memory_backends]\nlocal = burglar:Memory\n")
    monkeypatch.setattr(sys, "path", [str(info.parent), *sys.path])
    code, report = run("doctor")
    assert (code, report["store"]) == (0, str(filled))
    found = {check["what"]: check["found"] for check in report["checks"]}
    assert found["ignored backend"] == "local of burglar 1.2: the product's own backend of that name stays"


def test_an_export_has_nothing_to_reindex(filled: Path, tmp_path: Path) -> None:
    """It is a history, no memory."""
    export = tmp_path / "history"
    code, _ = run("audit", "export", str(filled), "--out", str(export))
    assert code == 0
    assert run("audit", "verify", str(export))[1]["good"] is True
    code, said = run("reindex", str(export))
    assert (code, "export" in said) == (INVALID, True)
