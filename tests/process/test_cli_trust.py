"""The verbs about trust against a real node: keys, grants and reviews, each refusal beside what is allowed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from cli_shell import REFUSED, Shell

from veridical.memory.keys import make_id, make_key

pytestmark = [pytest.mark.process, pytest.mark.timeout(120)]

CLAIM = ("auth", "uses", "JWT")
ID = make_id(make_key("auth", "uses", "global"))


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    """One node, started and ended by the command line."""
    shell = Shell(tmp_path / "data")
    shell.well("up", "--nodes", "1", "--base-port", "0")
    yield shell
    shell.well("down")


def test_from_an_open_memory_to_a_guarded_one(shell: Shell) -> None:
    """Enroll an administrator and a writer; only the one with the right reviews; keys rotate and are revoked."""
    boss, alice, next_alice = (shell.new_key(name) for name in ("boss", "alice", "next"))
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


def test_a_reviewer_sees_the_queue_and_decides(shell: Shell) -> None:
    """By verbs and in the terminal view, over a pipe and over a terminal; who may not review is told the rule."""
    boss, ann = (shell.new_key(name) for name in ("boss", "ann"))
    everything = "*=read,write,review,attest,vouch,admin"
    shell.well("principal", "enroll", boss, "--name", "boss", "--grant", everything)
    shell.well("principal", "enroll", ann, "--grant", "*=read,write", signer="boss")
    ids = [shell.well("remember", f"s{n}", "is", f"text {n}", signer="ann")["id"] for n in range(4)]

    shell.refused("not_granted", "review", "list", signer="ann")
    waiting = shell.well("review", "list", "--limit", "3", signer="boss")
    assert [item["record"]["id"] for item in waiting["items"]] == ids[:3]
    assert waiting["more"] is True
    shown = shell.well("review", "show", ids[0], signer="boss")
    assert (shown["record"]["text"], shown["author"]["author"], shown["supporters"]) == ("text 0", ann, 1)
    shell.refused("not_granted", "review", "show", ids[0], signer="ann")
    code, answer, said = shell("review", "show", "0" * 32, signer="boss")
    assert (code, answer) == (1, None) and "may review" in said
    no_value = ("review", "approve", ids[0], "--value", "0" * 32, "--reason", "x")
    shell.refused("unknown_value", *no_value, signer="boss")

    key = ("--key", str(shell.keys / "boss"))
    code, view = shell.plainly("review", *key, answers="a\nseen\nr\nwrong\nq\n")
    assert (code, "1 approved, 1 rejected, 0 edited, 0 skipped" in view) == (0, True), view
    code, view = shell.plainly("review", *key, answers="e\nright\na typo\ns\n", terminal=True)
    assert (code, "0 approved, 0 rejected, 1 edited, 1 skipped" in view) == (0, True), view
    code, view = shell.plainly("review", "--key", str(shell.keys / "ann"), answers="q\n")
    assert (code, "not_granted" in view) == (REFUSED, True)
    trusts = [shell.well("get", id, signer="boss")["trust"] for id in ids]
    assert trusts == ["verified", "rejected", "verified", "candidate"]
    left = shell.well("review", "list", signer="boss")
    assert [item["record"]["id"] for item in left["items"]] == ids[3:]


def test_principals_grants_and_the_lattice_are_shown(shell: Shell) -> None:
    """Everything to the administrator, oneself to everybody else; the lattice as far as it may be read."""
    boss, ann = (shell.new_key(name) for name in ("boss", "ann"))
    assert shell.well("lattice", "set", "repo:a", "team:f")["outcome"] == "set"
    shell.well("lattice", "set", "team:f", "global")
    shell.refused("lattice_cycle", "lattice", "set", "global", "repo:a")
    shell.well("principal", "enroll", boss, "--name", "boss", "--grant", "*=read,admin")
    shell.well("principal", "enroll", ann, "--grant", "repo:*=read,write", "--grant", "team:f=read", signer="boss")
    known = {one["key"]: one for one in shell.well("principal", "list", signer="boss")}
    assert (known[boss]["name"], known[ann]["standing"]) == ("boss", "enrolled")
    assert [one["key"] for one in shell.well("principal", "list", signer="ann")] == [ann]
    shell.refused("not_granted", "principal", "list")
    assert shell.well("grant", "list", ann, signer="boss") == [
        {"principal": ann, "name": "", "pattern": "repo:*", "rights": ["read", "write"]},
        {"principal": ann, "name": "", "pattern": "team:f", "rights": ["read"]},
    ]
    assert len(shell.well("grant", "list", signer="boss")) == 3
    assert shell.well("lattice", "show", signer="boss") == {"repo:a": "team:f", "team:f": "global"}
    assert shell.well("lattice", "show", signer="ann") == {"repo:a": "team:f"}
    assert shell.well("lattice", "show", "repo:a", signer="boss") == ["repo:a", "team:f", "global"]
    shell.refused("not_granted", "lattice", "set", "repo:a", "--alone", signer="ann")
    shell.well("lattice", "set", "repo:a", "--alone", signer="boss")
    assert shell.well("lattice", "show", signer="boss") == {"team:f": "global"}
    for arguments in (("principal", "list"), ("grant", "list"), ("lattice", "show")):
        code, table = shell.plainly(*arguments, "--key", str(shell.keys / "boss"), answers="")
        assert code == 0 and table.strip()


def test_the_ledger_holds_at_the_command_line(shell: Shell) -> None:
    """A rejected value comes back by no verb and in no spelling; saying it again makes nothing verified."""
    claim = ("office", "is", "the office closed")
    written = shell.well("remember", *claim)
    for source in ("doc:1", "doc:2", "doc:3"):
        again = shell.well("remember", *claim, "--source", source)
    assert (again["id"], again["trust"]) == (written["id"], "candidate")
    shell.well("review", "reject", "office", "is", "--reason", "it is open")
    shell.well("remember", "office", "is", "the office moved")
    for text in ("the office closed", "THE  OFFICE CLOSED", "the\u00a0office closed", "the office\u200b closed"):
        shell.refused("rejected_value", "remember", "office", "is", text)
    shell.refused("rejected_value", "review", "edit", "office", "is", "--text", claim[2], "--reason", "no")
    shell.refused("reserved_key", "remember", "me", "author_trust", "very good")
    revoked = shell.well("review", "revoke-rejection", "office", "is", "--text", "the office closed!", "--reason", "no")
    assert revoked["outcome"] == "unchanged"
    found = shell.well("recall", "office")["records"]
    assert [record["text"] for record in found] == ["the office moved"]
    revoked = shell.well("review", "revoke-rejection", "office", "is", "--text", claim[2], "--reason", "closed again")
    assert (revoked["outcome"], revoked["id"]) == ("rejection_revoked", written["id"])
    assert shell.well("remember", *claim)["outcome"] == "superseded"
    assert shell.well("forget", "office", "is")["forgotten"] == written["id"]
    assert shell.well("recall", "office")["records"] == []
    texts = [item["text"] for item in shell.well("history", written["id"])]
    assert texts[0] == texts[-1] == claim[2] and "the office moved" in texts


def test_a_token_is_issued_used_and_revoked(shell: Shell) -> None:
    """Into a file that nobody else may read; it reads what its principal may, writes nothing, and ends at once."""
    boss, reader = (shell.new_key(name) for name in ("boss", "reader"))
    shell.well("principal", "enroll", boss, "--grant", "*=read,write,review,attest,vouch,admin")
    shell.well("principal", "enroll", reader, "--grant", "global=read", signer="boss")
    shell.well("remember", *CLAIM, signer="boss")
    shell.well("remember", *CLAIM, "--scope", "elsewhere", signer="boss")
    file = shell.keys / "token"
    issue = ("token", "issue", reader, "--label", "a reader", "--for", "12h")
    issued = shell.well(*issue, "--out", str(file), signer="boss")
    assert "token" not in issued and file.stat().st_mode & 0o777 == 0o600
    shown = ("--token-file", str(file))
    assert [one["scope"] for one in shell.well("recall", "JWT", *shown)["records"]] == ["global"]
    shell.refused("not_granted", "recall", "JWT", "--scope", "elsewhere", *shown)
    shell.refused("not_granted", "recall", "JWT")
    (listed,) = shell.well("token", "list", *shown)
    assert (listed["id"], listed["label"], listed["standing"]) == (issued["id"], "a reader", "issued")
    told = shell.well("token", "issue", signer="reader")
    assert told["token"].startswith("vdt_") and told["principal"] == reader
    assert shell.well("token", "revoke", issued["id"], "--reason", "lost", signer="boss")["outcome"] == "token_revoked"
    shell.refused("token_revoked", "recall", "JWT", *shown)
    assert not (shell.keys / "none").exists()
    shell.refused("stranger", "token", "issue", "00" * 32, "--out", str(shell.keys / "none"), signer="boss")
    assert not (shell.keys / "none").exists()
