"""Any history of any commands: steps that hypothesis draws, and a store in which they happen, beside an account."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from hypothesis import strategies as st
from projection_world import World
from trust_account import Account, Asked

from veridical.memory import commands as c
from veridical.memory import trust_commands as t
from veridical.memory.context import RIGHTS
from veridical.memory.errors import Invalid
from veridical.memory.fields import json_text
from veridical.memory.importing import imported_belief
from veridical.memory.lifecycle import HALF_LIFE_US
from veridical.memory.machine import Outcome
from veridical.memory.record import EPISODE, REJECTED
from veridical.memory.view import MemoryRecord
from veridical.security.keys import KeyPair
from veridical.security.principal import Principal
from veridical.verdict import Report, Runner, Verdict, attest_fact, signed_report

HOUR_US, DAY_US = 3_600_000_000, 86_400_000_000
PEOPLE = ("carol", "alice", "bob", "dana", "stranger")
NOBODY = "nobody"
HELD = 6  # places below this one are those of records that are held
SUBJECTS, TEXTS = ["auth", "AUTH", "login"], ["JWT", "ｊｗｔ\u200b", "cookies"]
SCOPES = ["repo:app", "repo:app", "team:x"]

# --- steps ----------------------------------------------------------------------------------------------------------

places, texts, scopes = st.integers(0, HELD + 2), st.sampled_from(TEXTS), st.sampled_from(SCOPES)
speakers = st.sampled_from(["alice", "bob", "dana", "carol", "alice", "bob", NOBODY, "stranger"])
reviewers = st.sampled_from(["carol", "carol", "carol", "alice", NOBODY])
fields = st.sampled_from([
    {}, {}, {}, {}, {}, {"kind": "failure"}, {"kind": "failure"}, {"kind": "skill"}, {"source": "doc:1"},
    {"source": "doc:2", "metadata": '{"a":1}'}, {"source": "recall:x"}, {"ttl_us": HOUR_US}, {"ttl_us": 9 * DAY_US},
    {"volatile": True}, {"valid_from_us": 5, "metadata": '{"b":2}'}, {"vouched": "eve"}, {"vouched": "lee"},
    {"ignored": ("trust", "epistemic_confidence")},
])  # fmt: skip
sources = st.one_of(st.just([]), st.just([]).map(list), st.lists(places, max_size=2))
writes = st.tuples(st.just("write"), st.sampled_from(SUBJECTS), texts, scopes, speakers, fields, sources)


def often(steps: st.SearchStrategy[Any], share: int) -> list[st.SearchStrategy[Any]]:
    """A kind of step that is to come so many times as often as one that stands alone."""
    return [steps.map(tuple) for _ in range(share)]


steps = st.one_of(
    *often(writes, 9),
    st.tuples(st.just("sentence"), texts, speakers, sources),
    st.tuples(st.just("say"), st.integers(0, 2), speakers, places),
    st.tuples(st.sampled_from(["corroborate", "contradict"]), places, st.sampled_from(["", "doc:1", "d:3"]), speakers),
    *often(st.tuples(st.sampled_from(["pin", "unpin", "flag", "annotate", "forget"]), places, speakers), 2),
    *often(st.tuples(st.just("fix"), places, speakers), 2),
    *often(st.tuples(st.just("withdraw"), places, speakers), 2),
    st.tuples(st.just("correct"), texts, st.lists(places, min_size=1, max_size=2), speakers),
    *often(st.tuples(st.sampled_from(["approve", "reject"]), places, st.booleans(), reviewers), 4),
    st.tuples(st.sampled_from(["promote", "demote", "erase"]), places, reviewers),
    st.tuples(st.sampled_from(["edit", "revoke_rejection"]), places, st.sampled_from(["", *TEXTS]), reviewers),
    st.tuples(st.just("undo"), places, reviewers),
    *often(st.tuples(
        st.just("attest"), places, st.sampled_from([Verdict.PASS, Verdict.PASS, Verdict.FAIL]),
        st.sampled_from(["", "", "", "stranger", "expired", "text", "scope", "forged", "again"]), speakers,
    ), 2),
    st.tuples(st.just("import"), places, speakers),
    st.tuples(st.sampled_from(["reinforce", "prune"]), st.sampled_from([0, 40 * DAY_US]), speakers),
    st.tuples(st.just("wait"), st.sampled_from([HOUR_US, 3 * DAY_US, 40 * DAY_US])),
    st.tuples(st.sampled_from(["enroll", "revoke", "rotate"]), st.sampled_from(PEOPLE), reviewers),
    st.tuples(st.sampled_from(["issue", "take_back"]), st.sampled_from(["alice", "bob", "carol"]), reviewers),
    *often(st.tuples(
        st.sampled_from(["give", "take"]), st.sampled_from(PEOPLE), st.sampled_from(["*", "*", "repo:*", "team:x"]),
        st.sampled_from(["write", "review", "vouch"]), reviewers,
    ), 2),
    st.tuples(st.sampled_from(["dispute", "leave", "turn", "doubt"]), st.sampled_from(SUBJECTS), scopes),
    st.tuples(st.just("embed"), places, st.booleans()),
    st.tuples(st.just("declare"), st.sampled_from(["repo:*", "team:*"]), reviewers),
)  # fmt: skip
histories = st.lists(steps, min_size=20, max_size=60)


# --- the life of a store --------------------------------------------------------------------------------------------


class Life:
    """A store in which steps happen. With `guarded`, a reviewer and three writers are enrolled before anything else."""

    def __init__(self, guarded: bool) -> None:
        self.world = World()
        self.account = Account(self.world)
        self._keys = {name: Principal(bytes([number + 1]) * 32) for number, name in enumerate(PEOPLE)}
        self._rotations = 0
        self._tokens = 0
        self._grader = Runner(KeyPair(b"g" * 32), lambda: self.world.now_us)
        self._receipts: list[tuple[str, tuple[str, ...]]] = []  # each with the claim that it is good for, if any
        self._named: dict[bytes, None] = {bytes(16): None}
        if guarded:
            self._do(t.ENROLL, t.EnrollBody(self._key("carol"), "Carol", (("*", RIGHTS),)), "carol")
            for name in ("alice", "bob", "dana"):
                self._do(t.ENROLL, t.EnrollBody(self._key(name), name, (("*", ("read", "write")),)), "carol")
            self._do(t.ENROLL, t.EnrollBody(self._grader.public_key, "grader", (("*", ("attest",)),)), "carol")

    def live(self, history: Iterable[tuple[Any, ...]]) -> Life:
        """Let it happen, and check the account after every step."""
        for step in history:
            self.step(*step)
        return self

    def step(self, verb: str, *rest: Any) -> None:
        """One step: the command, or the few, that it stands for, if there are any now."""
        if verb in ("write", "sentence", "say", "correct", "import"):
            self._state(verb, *rest)
        elif verb in ("dispute", "leave", "turn", "doubt"):
            self._scene(verb, *rest)
        elif verb in ("enroll", "revoke", "rotate", "give", "take", "issue", "take_back"):
            self._of_principals(verb, *rest)
        elif verb in ("wait", "attest", "reinforce", "prune", "declare", "embed"):
            self._now_and_then(verb, *rest)
        else:
            is_of_contender = verb in ("approve", "reject") and rest[1]
            id = self._contended(rest[0]) if is_of_contender else self._id(rest[0])
            self._do(*self._about(verb, id, rest[1:-1]), rest[-1])

    def _state(self, verb: str, *rest: Any) -> None:
        """Somebody says something."""
        match verb, *rest:
            case "write", subject, text, scope, who, fields, sources:
                body = c.WriteBody("fact", subject, "uses", scope, text)._replace(**fields)
                if body.kind == "failure":
                    body = body._replace(predicate="fails")
                self._do(c.WRITE, body._replace(derived_from=self._chosen(sources)), who)
            case "sentence", text, who, sources:
                body = c.WriteBody("fact", "", "", "repo:app", text, derived_from=self._chosen(sources))
                self._do(c.WRITE, body, who)
            case "say", number, who, place:
                follows = self._id(place) if number else b""
                self._do(c.WRITE, c.WriteBody(EPISODE, "", "", "repo:app", f"turn {number}", follows=follows), who)
            case "correct", text, chosen, who:
                self._do(c.CORRECT, c.CorrectBody(self._chosen(chosen), text, reason="better"), who)
            case _:
                self._import(*rest)

    def _scene(self, which: str, subject: str, scope: str) -> None:
        """What chance alone would seldom bring together."""

        def says(*statements: tuple[str, str]) -> bytes:
            bodies = [(c.WriteBody("fact", subject, "uses", scope, text), who) for text, who in statements]
            outcomes = [self._do(c.WRITE, body, who) for body, who in bodies]
            return outcomes[-1].record_id or bytes(16)

        if which == "leave":  # what somebody said counts for nothing once they have left
            says(("tokens", "dana"))
            self.step("revoke", "dana", "carol")
            says(("tokens", "bob"))
            return
        id = says(("cookies", "alice"), ("cookies", "carol"), ("JWT", "bob"), ("tokens", NOBODY))
        if which == "doubt":  # one person is not enough against what two have verified
            for evidence in "abc":
                self._do(c.CONTRADICT, c.ContradictBody(id, evidence, "it is not so"), "dana")
        elif which == "turn" and (rivals := self.world.memory.contending(id)):  # a value goes, is rejected, and returns
            self._do(t.APPROVE, t.ReviewBody(id, rivals[0].value_digest, "looked at"), "carol")
            says(("cookies", "dana"))
            for rival in self.world.memory.contending(id):
                self._do(t.REJECT, t.ReviewBody(id, rival.value_digest, "looked at"), "carol")
            self._do(*self._about("undo", id, ()), "carol")

    def _now_and_then(self, verb: str, *rest: Any) -> None:
        match verb, *rest:
            case "wait", duration_us:
                self.world.pass_time(duration_us)
            case "reinforce", _, who:
                self._do(c.REINFORCE, c.ReinforceBody(tuple(self.world.memory.records)[:8]), who)
            case "prune", ahead_us, who:
                ids = tuple(self.world.memory.records)[:64]
                self._do(c.PRUNE, c.PruneBody(self.world.now_us + ahead_us, HALF_LIFE_US, ids), who)
            case "embed", place, of_node:
                if record := self.world.memory.record(self._id(place)):
                    body = c.EmbedBody(record.id, record.value_digest, "m", b"\1", 1)
                    self._do(c.EMBED, body, NOBODY if of_node else "alice", of_node=of_node)
            case "declare", pattern, who:
                self._do(c.SETTING, c.SettingBody(c.MULTI_VALUED, (pattern, "uses")), who)
            case _:
                self._attest(*rest)

    def _about(self, verb: str, id: bytes, more: tuple[Any, ...]) -> tuple[str, c.Body]:
        """A verb about one record."""
        present, last = self.world.memory.record(id), self.world.memory.last_past(id)
        match verb, *more:
            case "corroborate", source:
                return c.CORROBORATE, c.CorroborateBody(id, source)
            case "contradict", evidence:
                return c.CONTRADICT, c.ContradictBody(id, evidence, "it is not so")
            case ("approve" | "reject") as review, of_contender:
                rivals = self.world.memory.contending(id)
                value = rivals[0].value_digest if of_contender and rivals else b""
                return t.APPROVE if review == "approve" else t.REJECT, t.ReviewBody(id, value, "looked at")
            case "edit", text:
                return t.EDIT, t.EditBody(id, text or "edited", "known better")
            case "revoke_rejection", text:
                return t.REVOKE_REJECTION, t.RevokeRejectionBody(id, text, "was right")
            case "undo", *_:
                first = present is not None and (present.cause == "asserted" or last is None)
                at = present.version if present is not None and first else last.until if last else (0, 0, 0)
                return t.UNDO, t.UndoBody(id, at, "a mistake")
            case _:
                return _PLAIN[verb](id)

    def _attest(self, place: int, verdict: Verdict, twist: str, who: str) -> None:
        record = self.world.memory.record(self._id(place))
        if record is None or not record.text or not record.subject:
            return
        claim = (record.subject, record.predicate, record.text, record.scope)
        if twist == "again" and self._receipts:
            evidence, about = self._receipts[-1]
            self._do(t.ATTEST, t.AttestBody(record.id, evidence), who, good=about == claim)
            return
        runner = Runner(KeyPair(b"x" * 32), lambda: self.world.now_us) if twist == "stranger" else self._grader
        if twist == "expired":
            runner = Runner(runner.keys, lambda: self.world.now_us - 400 * DAY_US)
        receipt = attest_fact(
            verdict, [signed_report(Report(grader="eval", verdict=verdict), runner)], subject=record.subject,
            predicate=record.predicate, text="another" if twist == "text" else record.text,
            scope="other:scope" if twist == "scope" else record.scope, runner=runner,
        )  # fmt: skip
        if twist == "forged":
            receipt = receipt.model_copy(update={"signature": "0" * 128})
        evidence = json_text("evidence", receipt.model_dump(mode="json"))
        good = twist in ("", "again")
        self._do(t.ATTEST, t.AttestBody(record.id, evidence), who, good)
        self._receipts.append((evidence, claim if good else ()))

    def _import(self, place: int, who: str) -> None:
        record = self.world.memory.record(self._id(place))
        if record is None or not record.text or record.kind == EPISODE:
            return
        try:
            body = imported_belief(MemoryRecord.from_record(record, self.world.now_us, []), "peer", "team:x")
        except Invalid:  # what a peer rejected does not come in
            assert record.trust == REJECTED
            return
        self._do(c.WRITE, body, who)

    def _of_principals(self, verb: str, whose: str, *rest: Any) -> None:
        key = self._key(whose)
        match verb, *rest:
            case (("give" | "take"), pattern, right, who):
                self._do(t.GIVE if verb == "give" else t.TAKE, t.GrantBody(key, pattern, (right,)), who)
            case "enroll", who:
                self._do(t.ENROLL, t.EnrollBody(key, whose, (("repo:*", ("read", "write")),)), who)
            case "issue", who:
                self._tokens += 1
                self._do(t.ISSUE_TOKEN, t.IssueTokenBody(key, bytes([self._tokens]) * 32, whose), who)
            case "take_back", who:
                self._do(t.REVOKE_TOKEN, t.RevokeTokenBody(bytes([self._tokens]) * 16), who)
            case "revoke", who:
                self._do(t.REVOKE, t.RevokeBody(key, "left"), who)
            case _:
                self._rotations += 1
                successor = Principal(bytes([100 + self._rotations]) * 32)
                proof = successor.sign(t.rotation_message(key, successor.public_key))
                if self._do(t.ROTATE, t.RotateBody(key, successor.public_key, proof), rest[-1]).code == "rotated":
                    self._keys[whose] = successor

    def _do(self, kind: str, body: c.Body, who: str, good: bool = False, of_node: bool = False) -> Outcome:
        asked = Asked(kind, body, None if who == NOBODY else self._key(who), good)
        before = dict(self.world.memory.records)
        (outcome,) = self.world.say((kind, body), author=asked.author, of_node=of_node)
        if outcome.record_id:
            self._named[outcome.record_id] = None
        self.account.take(asked, outcome, before)
        return outcome

    def _key(self, name: str) -> bytes:
        return self._keys[name].public_key

    def _id(self, place: int) -> bytes:
        """A record that is held, the newest first; or one of all that were ever named, held or not."""
        held = self.world.memory.records
        ids = list(held if held and place < HELD else self._named)
        return ids[-1 - place % len(ids)]

    def _contended(self, place: int) -> bytes:
        """A record beside which values wait, if there is one."""
        ids = [id for id, rivals in self.world.memory.contenders.items() if rivals]
        return ids[place % len(ids)] if ids else self._id(place)

    def _chosen(self, chosen: list[int]) -> tuple[bytes, ...]:
        return tuple(dict.fromkeys(self._id(place) for place in chosen))


_PLAIN: dict[str, Callable[[bytes], tuple[str, c.Body]]] = {
    "withdraw": lambda id: (c.WITHDRAW, c.WithdrawBody(id, "", "not sure")),
    "pin": lambda id: (c.PIN, c.PinBody(id)),
    "unpin": lambda id: (c.UNPIN, c.PinBody(id)),
    "flag": lambda id: (c.SET_FLAGS, c.FlagsBody(id, ttl_us=DAY_US)),
    "annotate": lambda id: (c.ANNOTATE, c.AnnotateBody(id, '{"n":1,"a":null}')),
    "fix": lambda id: (t.MARK_FIXED, t.FixBody(id)),
    "forget": lambda id: (c.FORGET, c.ForgetBody(id, "asked to")),
    "promote": lambda id: (c.PROMOTE, c.PromoteBody(id, "checked")),
    "demote": lambda id: (c.DEMOTE, c.DemoteBody(id, "", "doubtful")),
    "erase": lambda id: (t.ERASE, t.EraseBody(id, "asked to")),
}
