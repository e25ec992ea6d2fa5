"""The command line itself: what it refuses before anything is asked, in one line, and how little it loads for that."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from veridical.cli.failures import FILE, INVALID, USAGE
from veridical.cli.main import application
from veridical.security.principal import Principal

NO_KEY = 32
HEAVY = ("grpc", "google.protobuf", "sqlalchemy", "pydantic", "nacl", "rich")


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A data directory without a cluster."""
    monkeypatch.setenv("VERIDICAL_DATA", str(tmp_path / "nowhere"))
    monkeypatch.delenv("VERIDICAL_ENDPOINTS", raising=False)
    monkeypatch.delenv("VERIDICAL_PRINCIPAL_SEED", raising=False)
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one call."""
    result = CliRunner().invoke(application(), list(arguments))
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["recall", "x"], "data: no cluster in"),
        (["audit", "verify"], "data: no cluster in"),
        (["recall", "x", "--endpoint", "nonsense"], "endpoint: 'nonsense' is not host:port"),
        (["recall", "x", "--endpoint", "h:1", "--data", "/d"], "endpoint: give --data or --endpoint, not both"),
        (["recall", "x", "--kind", "rumour"], "kind: 'rumour' is none of fact"),
        (["recall", "x", "--trust", "blind"], "trust: 'blind' is none of candidate"),
        (["recall", "x", "--endpoint", "h:1", "--read", "maybe"], "'maybe' is none of"),
        (["get", "abc"], "id: 'abc' is not 32 hex digits"),
        (["get", "a", "b", "c"], "names: give an id, or a subject and a predicate"),
        (["remember", "a", "b"], "text: 2 words"),
        (["remember", ""], "text: is empty"),
        (["remember", "x" * 20_001], "text: 20001 characters exceed the limit of 20000"),
        (["remember", "a", "--metadata", "[]"], "metadata: not a JSON object"),
        (["remember", "a", "--ttl", "-1"], "ttl_s: -1.0 is not a duration"),
        (["remember", "a", "--kind", "rumour"], "kind: Input should be"),
        (["up", "--nodes", "2"], "nodes: 2 nodes: choose 1, 3, 5, 7"),
        (["up", "--cluster", "no spaces"], "cluster: a name has letters"),
        (["audit", "verify", "/does/not/exist"], "path: /does/not/exist does not exist"),
        (["audit", "show", "1", "/d", "--data", "/d"], "path: give a path, or --data, or --endpoint"),
        (["principal", "enroll", "alice", "--endpoint", "h:1"], "key: 'alice' is not a principal"),
        (["principal", "enroll", "0" * 64, "--grant", "*"], "grant: '*' is not PATTERN=RIGHT,RIGHT"),
        (["principal", "enroll", "0" * 64, "--grant", "*=all", "--endpoint", "h:1"], "rights: one is none of read"),
        (["principal", "revoke", "0" * 64, "--reason", "", "--endpoint", "h:1"], "reason: is empty"),
        (["grant", "give", "0" * 64, "a*", "read", "--endpoint", "h:1"], "scope: contains *"),
        (["review", "approve", "0" * 32, "--reason", "x", "--value", "1", "--endpoint", "h:1"], "value: '1' is not 32"),
        (["lattice", "set", "a"], "parent: name the scope that it lies within, or say --alone"),
        (["lattice", "set", "a", "b", "--alone"], "parent: name the scope"),
        (["review", "approve", "abc", "--reason", "x"], "id: 'abc' is not 32 hex digits"),
        (["review", "edit", "0" * 32, "--text", " ", "--reason", "x", "--endpoint", "h:1"], "text: is empty"),
    ],
)
def test_a_wrong_request_is_one_line_and_a_code(arguments: list[str], complaint: str) -> None:
    code, output, said = run(*arguments)
    assert (output, said.count("\n")) == ("", 1)
    assert said.startswith("veridical: ")
    assert complaint in said
    assert code in (INVALID, INVALID + 1)


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["recall"],
        ["recall", "x", "-k", "0"],
        ["audit", "replay", "--to", "x", "--out", "d"],
        ["up", "--frob"],
    ],
)
def test_a_command_line_that_cannot_be_read_is_a_usage_error(arguments: list[str]) -> None:
    assert run(*arguments)[0] == USAGE


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    code, _, said = run("import", str(tmp_path / "gone.jsonl"), "--endpoint", "127.0.0.1:1")
    assert (code, said) == (FILE, f"veridical: {tmp_path / 'gone.jsonl'}: No such file or directory\n")


def test_wrong_lines_are_all_named_and_nothing_is_sent(tmp_path: Path) -> None:
    path = tmp_path / "facts.jsonl"
    path.write_text('{"text": ""}\n{"text": "fine"}\n{}\n')
    code, _, said = run("import", str(path), "--endpoint", "127.0.0.1:1")
    assert code == INVALID
    assert said.splitlines() == [
        "facts.jsonl:1: text: is empty",
        "facts.jsonl:3: text: Field required",
        "veridical: facts.jsonl: 2 of 3 facts are wrong; nothing was imported",
    ]
    assert list(tmp_path.iterdir()) == [path]


def test_a_seed_that_is_none_is_refused_without_being_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VERIDICAL_PRINCIPAL_SEED", "secret but wrong")
    code, _, said = run("recall", "x", "--endpoint", "127.0.0.1:1")
    assert code == INVALID
    assert "VERIDICAL_PRINCIPAL_SEED" in said
    assert "secret" not in said


def test_a_key_file_is_private_and_made_once(tmp_path: Path) -> None:
    """Its public key is said; one that others may read is not used."""
    file = tmp_path / "alice.key"
    code, said, _ = run("principal", "new", str(file), "--json")
    assert code == 0
    assert json.loads(said) == {"principal": Principal.from_hex(file.read_text().strip()).key_id, "file": str(file)}
    assert file.stat().st_mode & 0o777 == 0o600
    code, _, complaint = run("principal", "new", str(file))
    assert (code, complaint.count("\n")) == (NO_KEY, 1)
    file.chmod(0o640)
    code, _, complaint = run("grant", "give", "0" * 64, "*", "read", "--key", str(file), "--endpoint", "h:1")
    assert code == NO_KEY
    assert "chmod 600" in complaint


def test_status_of_nothing_cannot_tell() -> None:
    code, output, said = run("status", "--json")
    assert (code, output) == (3, "")
    assert "no cluster in" in said


def test_status_of_silent_endpoints_cannot_tell() -> None:
    code, output, _ = run("status", "--json", "--endpoint", "127.0.0.1:1")
    assert code == 3
    assert json.loads(output)["members"] == []


def test_down_where_nothing_ever_was_is_done(nowhere: Path) -> None:
    code, output, _ = run("down", "--json")
    assert code == 0
    assert json.loads(output) == {"data": str(nowhere / "nowhere"), "stopped": [], "killed": []}


def test_help_names_every_verb() -> None:
    code, output, _ = run("--help")
    assert code == 0
    verbs = "up down status transfer node remember get recall history forget import sim audit backup restore recover"
    assert all(f" {verb} " in output for verb in verbs.split())


@pytest.mark.parametrize("verb", ["verify", "compare", "replay", "show", "export"])
def test_help_explains_each_audit(verb: str) -> None:
    assert run("audit", verb, "--help")[0] == 0


def test_the_version_is_told() -> None:
    code, output, _ = run("--version")
    assert code == 0
    assert output.startswith("veridical ")


def test_what_is_heavy_is_loaded_only_by_the_verbs_that_need_it() -> None:
    """`veridical --help` is to answer at once."""
    program = f"import sys, veridical.cli.main; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-P", "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "[]"
