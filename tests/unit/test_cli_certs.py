"""`veridical certs`: an authority, what it issues, and how it is replaced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from veridical.cli.failures import INVALID, NEGATIVE
from veridical.cli.main import application
from veridical.security.certificates import described


def run(*arguments: str) -> tuple[int, Any]:
    """Exit code and JSON answer, or what was said instead."""
    result = CliRunner().invoke(application(), ["certs", *arguments, "--json"])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, json.loads(result.stdout) if result.stdout else result.stderr


def test_from_nothing_to_a_node_and_a_client(tmp_path: Path) -> None:
    """Keys are for their owner alone; the trusted authority lies beside each certificate."""
    ca, out = str(tmp_path / "ca"), tmp_path / "n1"
    code, made = run("init", ca, "--cluster", "brain")
    assert (code, made["kind"], made["name"]) == (0, "authority", "brain authority")
    code, made = run("issue", "n1", "--authority", ca, "--out", str(out), "--host", "10.0.0.1", "--host", "n1.lan")
    assert (code, made["kind"], set(made["hosts"])) == (0, "node", {"n1", "10.0.0.1", "n1.lan"})
    assert (out / "n1-key.pem").stat().st_mode & 0o777 == 0o600
    assert (out / "ca.pem").read_bytes() == (tmp_path / "ca" / "ca.pem").read_bytes()
    code, made = run("issue", "alice", "--client", "--authority", ca, "--out", str(tmp_path / "alice"))
    assert (code, made["kind"], made["hosts"]) == (0, "client", ["alice"])
    code, [shown] = run("show", str(out / "n1.pem"))
    assert (code, shown["days"], shown["name"]) == (0, 396, "n1") and len(shown["sha256"]) == 64


def test_an_authority_is_replaced_in_steps(tmp_path: Path) -> None:
    """Both are trusted meanwhile; only the newest signs."""
    ca, out = tmp_path / "ca", tmp_path / "n1"
    _, first = run("init", str(ca))
    code, again = run("init", str(ca))
    assert code == INVALID and "rotate" in str(again)
    _, second = run("rotate", "--authority", str(ca))
    assert first["sha256"] != second["sha256"]
    assert (ca / "ca.pem").read_bytes().count(b"BEGIN CERTIFICATE") == 2
    assert run("issue", "n1", "--authority", str(ca), "--out", str(out))[0] == 0
    code, _ = run("rotate", "--authority", str(ca), "--finish")
    assert code == 0 and described((ca / "ca.pem").read_bytes()).sha256 == second["sha256"]
    assert (ca / "ca.pem").read_bytes().count(b"BEGIN CERTIFICATE") == 1


def test_what_is_wrong_is_said(tmp_path: Path) -> None:
    """No authority, no name, a host for a client, no certificate, and one that expires soon."""
    ca, out = str(tmp_path / "ca"), str(tmp_path / "out")
    code, said = run("issue", "n1", "--authority", ca, "--out", out)
    assert code == INVALID and "certs init" in str(said)
    run("init", ca)
    for name, more in (("../n1", ()), ("n 1", ()), ("", ()), ("alice", ("--client", "--host", "x"))):
        assert run("issue", name, "--authority", ca, "--out", out, *more)[0] == INVALID
    (tmp_path / "text").write_text("nothing")
    assert run("show", str(tmp_path / "text"))[0] == INVALID
    run("issue", "n1", "--authority", ca, "--out", out, "--days", "5")
    code, [shown] = run("show", f"{out}/n1.pem")
    assert (code, shown["days"]) == (NEGATIVE, 4)
    assert run("show", f"{out}/n1.pem", "--within", "1")[0] == 0
