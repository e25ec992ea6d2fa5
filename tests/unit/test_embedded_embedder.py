"""A memory with an embedder: what it is made with, found by meaning, changed by `reembed` alone."""

from __future__ import annotations

import json
import time
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from embedding_server import KEY, NAME, embedding_server
from pydantic import ValidationError
from scenarios_of_users import NASTY, SCRIPTS
from typer.testing import CliRunner

from veridical.cli.failures import INVALID
from veridical.cli.main import application
from veridical.fleet import InMemoryLeaseStore
from veridical.memory import LocalMemory, MemoryRecord, ReplicatedMemory
from veridical.memory.errors import Invalid, Unavailable
from veridical.node.settings import Settings

LOGIN = MemoryRecord(subject="/login", predicate="fails_with", text="the token has expired", scope="repo:acme")
SIGN_IN = MemoryRecord(subject="portal", predicate="behaviour", text="the sign-in page times out", scope="repo:acme")


@pytest.fixture(autouse=True)
def nothing_is_set(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No embedder in the environment, and no cluster of this machine."""
    monkeypatch.delenv("VERIDICAL_EMBEDDER", raising=False)
    monkeypatch.setenv("VERIDICAL_DATA", str(tmp_path / "nowhere"))


def run(*arguments: str) -> tuple[int, Any]:
    """Exit code and JSON answer, or what was said instead."""
    result = CliRunner().invoke(application(), [*arguments, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.stderr


def texts(memory: Any, query: str) -> list[str]:
    """What a recall finds."""
    return [record.text for record in memory.recall(query)]


def test_words_find_words_and_the_model_finds_meaning(tmp_path: Path) -> None:
    """The same question, by words and by meaning."""
    with LocalMemory(tmp_path / "words.db") as memory:
        memory.write(SIGN_IN)
        assert texts(memory, "login") == []
    with LocalMemory(tmp_path / "meaning.db", embedder="local") as memory:
        memory.write(SIGN_IN)
        assert texts(memory, "login") == [SIGN_IN.text]
        assert texts(memory, "sign-in") == [SIGN_IN.text]


@pytest.mark.parametrize("embedder", ["lexical", "hash", "local"])
def test_every_script_and_every_string_is_found(tmp_path: Path, embedder: str) -> None:
    """Text by itself first, a word of it among the first five, whatever else is found by meaning."""
    with LocalMemory(tmp_path / "brain.db", embedder=embedder) as memory:
        memory.write_many([MemoryRecord(text=text) for text in (*NASTY, *SCRIPTS.values())])
        for text in NASTY:
            assert texts(memory, text)[0] == text
        for query, text in SCRIPTS.items():
            for form in ("NFC", "NFD"):
                assert text in texts(memory, unicodedata.normalize(form, query)), query


def test_an_embedder_stays(tmp_path: Path) -> None:
    """Opened without a word about it, a memory goes on with what it was made with; with another it does not open."""
    path = tmp_path / "brain.db"
    with LocalMemory(path, embedder="local") as memory:
        memory.write(SIGN_IN)
    with LocalMemory(path) as memory:
        assert texts(memory, "login") == [SIGN_IN.text]
    for other in ("lexical", "none", "hash"):
        with LocalMemory(path, embedder=other) as memory, pytest.raises(Unavailable, match="veridical reembed"):
            memory.recall("login")


def test_the_environment_names_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`VERIDICAL_EMBEDDER`, beneath what the program says."""
    monkeypatch.setenv("VERIDICAL_EMBEDDER", "local")
    with LocalMemory(tmp_path / "a.db") as memory:
        memory.write(SIGN_IN)
        assert texts(memory, "login") == [SIGN_IN.text]
    with LocalMemory(tmp_path / "b.db", embedder="lexical") as memory:
        memory.write(SIGN_IN)
        assert texts(memory, "login") == []


@pytest.mark.parametrize("name", ["word2vec", "Local 2"])
def test_an_unknown_name_is_no_default(tmp_path: Path, name: str) -> None:
    """It is refused, and the names that there are are named."""
    with pytest.raises(Invalid, match="lexical, none, hash, local, openai"):
        LocalMemory(tmp_path / "a.db", embedder=name)
    with pytest.raises(ValidationError, match="lexical, none, hash, local, openai"):
        Settings(embedder=name)


def test_a_service_needs_its_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Said at the first call, with what to set."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with (
        LocalMemory(tmp_path / "a.db", embedder="openai") as memory,
        pytest.raises(Unavailable, match="OPENAI_API_KEY"),
    ):
        memory.recall("login")


def test_a_service_makes_the_vectors_meanwhile(tmp_path: Path) -> None:
    """A record is found by words at once and by meaning soon; another model is refused, and made anew by command."""
    path = tmp_path / "brain.db"
    with embedding_server() as server:
        with LocalMemory(path, embedder="openai") as memory:
            memory.write(SIGN_IN)
            assert texts(memory, "sign-in") == [SIGN_IN.text]
            assert soon(lambda: texts(memory, "login")) == [SIGN_IN.text]
        with LocalMemory(path) as memory:  # what it was made with
            assert texts(memory, "login") == [SIGN_IN.text]
        assert set(server.asked.values()) == {1, 2} and sum("sign-in page" in text for text in server.asked) == 1
        with pytest.MonkeyPatch.context() as environment:
            environment.setenv("VERIDICAL_EMBED_MODEL", "another-model")
            with LocalMemory(path, embedder="openai") as memory, pytest.raises(Unavailable, match="veridical reembed"):
                memory.recall("login")
            code, [done] = run("reembed", str(path), "--embedder", "openai")
            assert (code, done["waiting"], done["embedder"]) == (0, 1, "openai:another-model:256 (256 components)")
            with LocalMemory(path) as memory:
                assert soon(lambda: texts(memory, "login")) == [SIGN_IN.text]


def test_without_the_service_recall_goes_by_words_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer has a notice; the doctor says how many wait; neither says the key."""
    path = tmp_path / "brain.db"
    monkeypatch.setenv("VERIDICAL_MEMORY_STORE", str(path))
    with embedding_server() as server:
        server.status = 503
        with LocalMemory(path, embedder="openai") as memory:
            memory.write(SIGN_IN)
            found = memory.recall("sign-in")
            assert [record.text for record in found] == [SIGN_IN.text]
            (notice,) = found.notices
            assert notice.startswith("searched by words only: ") and KEY not in notice
        monkeypatch.setenv("VERIDICAL_EMBEDDER", "openai")
        code, report = run("doctor")
        checks = {check["what"]: check for check in report["checks"]}
        assert code == 0 and KEY not in str(report)
        assert checks["vectors"]["found"].startswith(f"made by {NAME} (256 components); 1 records wait for theirs")


def soon(look: Callable[[], list[str]], seconds: float = 10.0) -> list[str]:
    """What is seen, once there is anything to be seen."""
    end = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < end, "it did not happen in time"
    return found


def test_a_memory_that_is_open_is_not_opened_with_another(tmp_path: Path) -> None:
    """Objects of one process that name the same file share it, embedder included."""
    with LocalMemory(tmp_path / "a.db", embedder="local") as memory:
        memory.write(SIGN_IN)
        with LocalMemory(tmp_path / "a.db") as same:
            assert texts(same, "login") == [SIGN_IN.text]
        with pytest.raises(Invalid, match="open already"):
            LocalMemory(tmp_path / "a.db", embedder="hash").recall("login")


def test_all_members_answer_alike(tmp_path: Path) -> None:
    """Each folds its own vectors, and they come out the same."""
    leases = InMemoryLeaseStore()
    members = [
        ReplicatedMemory(
            LocalMemory(tmp_path / owner / "brain.db", embedder="local"),
            leases=leases,
            cluster_key="c",
            owner=owner,
            read_consistency="strong",
        )
        for owner in ("a", "b", "c")
    ]
    try:
        for record in (SIGN_IN, LOGIN, SIGN_IN.model_copy(update={"subject": "gate", "text": "doors open at nine"})):
            members[0].write(record)
        answers = [[(hit.id, hit.text) for hit in member.recall("log on", k=3)] for member in members]
        assert answers[0] and answers[0] == answers[1] == answers[2]
    finally:
        for member in members:
            member.close()


def test_reembed_makes_all_anew(tmp_path: Path) -> None:
    """Nothing that was learnt changes; what is found does."""
    path = tmp_path / "brain.db"
    with LocalMemory(path) as memory:
        memory.write(SIGN_IN)
    code, [done] = run("reembed", str(path), "--embedder", "local")
    assert (code, done["equal"], done["embedder"]) == (0, True, "potion-base-8m-int8 (256 components)")
    with LocalMemory(path) as memory:
        assert texts(memory, "login") == [SIGN_IN.text]
    code, [done] = run("reindex", str(path))  # keeps it
    assert (code, done["embedder"]) == (0, "potion-base-8m-int8 (256 components)")
    code, [done] = run("reembed", str(path), "--embedder", "lexical")
    assert (code, done["embedder"]) == (0, "lexical")
    with LocalMemory(path) as memory:
        assert texts(memory, "login") == []


def test_reembed_knows_its_names(tmp_path: Path) -> None:
    """And changes nothing for another."""
    path = tmp_path / "brain.db"
    with LocalMemory(path, embedder="local") as memory:
        memory.write(SIGN_IN)
    code, said = run("reembed", str(path), "--embedder", "word2vec")
    assert code == INVALID and "embedder" in str(said)
    with LocalMemory(path) as memory:
        assert texts(memory, "login") == [SIGN_IN.text]


def test_the_doctor_says_who_makes_the_vectors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And what to do where another one is chosen; of `hash`, that it matches surface."""
    path = tmp_path / "brain.db"
    monkeypatch.setenv("VERIDICAL_MEMORY_STORE", str(path))
    with LocalMemory(path, embedder="hash") as memory:
        memory.write(SIGN_IN)
    monkeypatch.setenv("VERIDICAL_EMBEDDER", "hash")
    code, report = run("doctor")
    checks = {check["what"]: check for check in report["checks"]}
    assert code == 0 and checks["vectors"]["found"] == "made by hash-256 (256 components)"
    assert "surface, not meaning" in report["embedder"]
    monkeypatch.setenv("VERIDICAL_EMBEDDER", "local")
    code, report = run("doctor")
    checks = {check["what"]: check for check in report["checks"]}
    assert code != 0 and "veridical reembed" in checks["vectors"]["do"]
