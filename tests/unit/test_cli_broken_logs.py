"""Whatever has happened to a log's files, every verb that opens one says what is wrong, and where; none ends in a
traceback.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from log_world import CLUSTER, IDENTITY, NAME, short_history, stored
from typer.testing import CliRunner

from veridical.cli.failures import DAMAGED
from veridical.cli.main import application
from veridical.log.store import LogStore

UNUSABLE = 31
PAGE_BYTES = 4096
VERBS = {
    "audit show": ("audit", "show", "4", "DATA"),
    "audit trace": ("audit", "trace", "4", "DATA"),
    "audit export": ("audit", "export", "DATA", "--out", "OUT/history.vlog"),
    "audit replay": ("audit", "replay", "DATA", "--to", "7", "--out", "OUT/then"),
    "backup create": ("backup", "create", "--to", "OUT/backup.vlog", "--data", "DATA"),
    "reindex": ("reindex", "DATA"),
    "reembed": ("reembed", "DATA", "--embedder", "hash"),
    "recover": ("recover", "--data", "DATA", "--dry-run"),
}


def _change(log: Path, change: Callable[[bytearray], None]) -> None:
    raw = bytearray(log.read_bytes())
    change(raw)
    log.write_bytes(raw)


def _run(log: Path, *statements: str) -> None:
    with closing(sqlite3.connect(log)) as connection:
        for statement in statements:
            connection.execute(statement)
        connection.commit()


def _as_directory(log: Path) -> None:
    log.unlink()
    log.mkdir()


def _broken_pages(raw: bytearray) -> None:
    for start in range(PAGE_BYTES, len(raw), PAGE_BYTES):
        raw[start : start + 100] = b"\xa5" * 100


def _broken_head(raw: bytearray) -> None:
    raw[:100] = b"\xa5" * 100


BROKEN: dict[str, tuple[Callable[[Path], object], int, str]] = {
    "empty": (lambda log: log.write_bytes(b""), DAMAGED, "log.db: the file is missing or empty after"),
    "gone": (lambda log: log.unlink(), DAMAGED, "log.db"),
    "zeros": (lambda log: log.write_bytes(bytes(log.stat().st_size)), DAMAGED, "log.db, page 1"),
    "cut": (lambda log: log.write_bytes(log.read_bytes()[:9000]), DAMAGED, "log.db, page 1"),
    "a text": (lambda log: log.write_text("nothing of the kind\n" * 900), DAMAGED, "log.db, page 1"),
    "head": (lambda log: _change(log, _broken_head), DAMAGED, "log.db, page 1"),
    "structure": (lambda log: _change(log, _broken_pages), DAMAGED, "log.db, page "),
    "state": (lambda log: _run(log, "DELETE FROM state"), DAMAGED, "there are 0 rows of state"),
    "mark": (lambda log: log.with_name("log.db-mark").write_bytes(b"?"), DAMAGED, "log.db-mark: "),
    "directory": (_as_directory, UNUSABLE, "is a directory, not a log"),
    "newer": (
        lambda log: _run(log, "CREATE TABLE more (text)", "PRAGMA user_version=9"),
        UNUSABLE,
        "has format 9, this version of the software reads formats up to ",
    ),
}


def made(directory: Path) -> Path:
    """The data directory of a stopped node; its log."""
    directory.mkdir()
    log = directory / "log.db"
    with closing(LogStore.open(log)) as store:
        store.identify(IDENTITY)
        stored(store, short_history())
        store.write(commit_index=7)
    identity = {"node_id": "node-1", "name": "n1", "cluster": NAME, "cluster_id": CLUSTER, "digest_cluster_id": CLUSTER}
    (directory / "identity.json").write_text(json.dumps(identity))
    for name in ("node.key", "digest.key"):
        (directory / name).write_text(f"{bytes(range(32)).hex()}\n")
        (directory / name).chmod(0o600)
    return log


def called(verb: tuple[str, ...], directory: Path, out: Path) -> tuple[int, str]:
    """Exit code and what was said on standard error."""
    words = [word.replace("DATA", str(directory)).replace("OUT", str(out)) for word in verb]
    result = CliRunner().invoke(application(), [*words, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stderr


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("kind", BROKEN)
def test_a_verb_says_what_is_wrong_with_a_log(tmp_path: Path, kind: str, verb: str) -> None:
    """Which file, which page where that is known, and what is safe to do."""
    harm, code, says = BROKEN[kind]
    directory = tmp_path / "data"
    log = made(directory)
    harm(log)
    if (kind, verb) == ("gone", "recover"):
        code, says = 10, "is not the data directory of a node"
    elif kind == "gone":
        code, says = 10, "neither a log nor a local cluster"
    ended, said = called(VERBS[verb], directory, tmp_path)
    assert (ended, says in said) == (code, True), said
    assert (code != DAMAGED) or "leave the file as it is" in said


@pytest.mark.parametrize("kind", [kind for kind in BROKEN if kind != "gone"])
def test_an_audit_counts_damage_among_its_findings(tmp_path: Path, kind: str) -> None:
    """It is what was asked for; what cannot be read at all by this software is an error."""
    harm, code, says = BROKEN[kind]
    directory = tmp_path / "data"
    harm(made(directory))
    result = CliRunner().invoke(application(), ["audit", "verify", str(directory)])
    assert isinstance(result.exception, SystemExit)
    said = " ".join((result.stdout + result.stderr).split())
    assert (result.exit_code, says in said) == (code, True), said


@pytest.mark.parametrize("verb", ["audit show", "audit replay", "backup create", "reindex", "recover"])
def test_a_projection_that_cannot_be_opened_is_named(tmp_path: Path, verb: str) -> None:
    """Verbs that only read the log do not need it."""
    directory = tmp_path / "data"
    made(directory)
    (directory / "projection.db").mkdir()
    code, said = called(VERBS[verb], directory, tmp_path)
    if verb == "reindex":
        assert (code, "projection.db cannot be opened" in said) == (UNUSABLE, True), said
    else:
        assert "projection.db" not in said
