"""The verbs about trust against a real node: keys, grants and reviews, each refusal beside what is allowed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from veridical.memory.keys import make_id, make_key

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

REFUSED = 12
CLAIM = ("auth", "uses", "JWT")
ID = make_id(make_key("auth", "uses", "global"))


class Shell:
    """`veridical … --json`, in processes of their own, for one data directory."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self.keys = data.parent

    def __call__(self, *arguments: str, signer: str = "") -> tuple[int, Any, str]:
        command = [sys.executable, "-P", "-m", "veridical.cli.main", *arguments, "--json"]
        if arguments[:2] != ("principal", "new"):
            command += ["--data", str(self._data)]
        if signer:
            command += ["--key", str(self.keys / signer)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert "Traceback" not in done.stderr
        return done.returncode, json.loads(done.stdout) if done.stdout else None, done.stderr

    def well(self, *arguments: str, signer: str = "") -> Any:
        """The answer of a call that must not fail."""
        code, answer, said = self(*arguments, signer=signer)
        assert code == 0, said
        return answer

    def refused(self, rule: str, *arguments: str, signer: str = "") -> None:
        """The call is refused by that rule."""
        code, _, said = self(*arguments, signer=signer)
        assert (code, rule in said) == (REFUSED, True), said


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """One node, started and ended by the command line."""
    shell = Shell(tmp_path / "data")
    shell.well("up", "--nodes", "1", "--base-port", "0")
    yield shell
    shell.well("down")


def test_from_an_open_memory_to_a_guarded_one(shell: Shell) -> None:
    """Enroll an administrator and a writer; only the one with the right reviews; keys rotate and are revoked."""
    boss, alice, next_alice = (
        shell.well("principal", "new", str(shell.keys / name))["principal"] for name in ("boss", "alice", "next")
    )
    assert shell.well("remember", *CLAIM)["trust"] == "candidate"
    shell.refused("first_administrator", "principal", "enroll", alice, "--grant", "*=read,write")
    everything = "*=read,write,review,attest,vouch,admin"
    done = shell.well("principal", "enroll", boss, "--name", "the boss", "--grant", everything)
    assert (done["outcome"], done["principal"]) == ("enrolled", boss)
    shell.refused("not_granted", "remember", "a", "b", "said by nobody")
    shell.refused("not_granted", "principal", "enroll", alice)
    shell.well("principal", "enroll", alice, "--grant", "global=read,write", signer="boss")

    approval = ("review", "approve", ID, "--reason", "seen in the code")
    shell.refused("not_granted", *approval, signer="alice")
    assert shell.well("grant", "give", alice, "global", "review", signer="boss")["outcome"] == "granted"
    approved = shell.well(*approval, signer="alice")
    assert (approved["trust"], approved["reason"]) == ("verified", "seen in the code")
    edited = shell.well("review", "edit", "auth", "uses", "--text", "mTLS", "--reason", "it changed", signer="alice")
    assert (edited["text"], edited["trust"]) == ("mTLS", "verified")
    assert shell.well("grant", "take", alice, "global", "review", signer="boss")["outcome"] == "taken"
    rejection = ("review", "reject", ID, "--reason", "no longer")
    shell.refused("not_granted", *rejection, signer="alice")
    assert shell.well(*rejection, signer="boss")["trust"] == "rejected"

    rotation = ("principal", "rotate", alice, str(shell.keys / "next"))
    assert shell.well(*rotation, signer="alice")["principal"] == next_alice
    shell.refused("not_granted", *rotation, signer="alice")
    shell.refused("last_administrator", "principal", "revoke", boss, "--reason", "tired", signer="boss")
    assert shell.well("principal", "revoke", next_alice, "--reason", "gone", signer="boss")["outcome"] == "revoked"
