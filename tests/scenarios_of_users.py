"""What users of other memories report, as scenarios that must come out right here, behind every door.

`docs/scenarios.md` says whose report each one is. Beside every refusal and absence stands what is allowed, or found.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable

import pytest
from contract_of_memory import HERE, Guarded, fact, refuses

from veridical.client.blocking import BlockingMemory
from veridical.memory import (
    BEGINNING,
    MemoryKind,
    MemoryRecord,
    Principal,
    Trust,
    correction_chain,
    recall_budgeted,
    remember_conversation,
    rules,
)
from veridical.memory.errors import Invalid, TooLarge

INSTANTLY_S = 0.000_001
"""A time to live that is over before anybody can ask."""

NASTY = [
    "TODO: fix the parser", "what's in src/main.py?", "task_tools", "C++ or C#", "a AND b", "NOT x", "this OR that",
    "NEAR(a b, 3)", 'say "hello', "it's \"quoted\" 'twice'", "(unbalanced", "brackets] and [braces}",
    "star* and pre*fix", "col:umn value:x", "^start", "-minus +plus", "50% off & more | less",
    "a; DROP TABLE record; --",
    "back\\slash",
    "user@example.com", "https://example.com/a?b=c&d=e#f", "v1.2.3-rc.1", "{json: [1, 2]}", "x == y != z <= w",
    "tab\tand\nnewline", "café naïve Zürich", "🚀 launch 👍🏽", "e\u0301clair", "١٢٣ ۴۵۶ １２３", "'single' `back`",
]  # fmt: skip

SCRIPTS = {
    "腾讯云": "我们使用腾讯云作为供应商",
    "腾讯": "腾讯发布了新版本",
    "しりとり": "子供としりとりをする",
    "체크리스트": "배포 체크리스트를 확인",
    "москва": "Столица — Москва.",
    "αθηνα": "Η Αθήνα",
    "مرحبا": "مَرْحَبًا بالعالم",
    "שלום": "שָׁלוֹם עולם",
    "हिन्दी": "मुझे हिन्दी आती है",
    "ภาษาไทย": "เขาพูดภาษาไทยได้",
    "cafe": "Café au lait",
    "strasse": "lange Straße",
}


class Duplicates:
    """One thing said twice is one thing."""

    def test_text_that_came_out_of_memory_is_nothing_new(self, unguarded: BlockingMemory) -> None:
        """Recalled, packed and fed back: no new fact, no support; from somebody else it supports."""
        first = unguarded.write(fact("loop", "the cache is redis", source="doc:1"))
        (hit,) = unguarded.recall("loop cache redis", scope=HERE, k=1)
        echo = MemoryRecord(subject="loop", predicate="is", text=hit.text, scope=HERE, source=f"recall:{first.id}")
        again = unguarded.write(echo)
        assert (again.id, again.outcome, again.support_count) == (first.id, "repeated", 1)
        packed = echo.model_copy(update={"text": f"<recalled_memory>\n- {hit.text}\n</recalled_memory>"})
        refuses(unguarded, rules.RECALLED_TEXT, lambda: unguarded.write(packed), first.id)
        sentence = MemoryRecord(text="the cache is redis", scope=HERE, source=f"recall:{first.id}")
        refuses(unguarded, rules.RECALLED_TEXT, lambda: unguarded.write(sentence), first.id)
        assert sum(record.subject == "loop" for record in unguarded.all(scope=HERE)) == 1
        assert unguarded.write(fact("loop", "the cache is redis", source="doc:2")).support_count == 2

    def test_the_same_fact_has_one_id_in_every_spelling(self, unguarded: BlockingMemory) -> None:
        """Composed or not, with white space around, in other case: one record. Another word is another value."""
        names = [unicodedata.normalize(form, "Zürich Büro") for form in ("NFC", "NFD")]
        names += [" Zürich Büro ", "ZÜRICH BÜRO"]
        values = ["Geöffnet", unicodedata.normalize("NFD", "Geöffnet"), " geöffnet ", "ＧＥÖＦＦＮＥＴ"]
        ids = {unguarded.write(fact(name, value)).id for name in names for value in values}
        assert len(ids) == 1
        assert unguarded.history(ids.pop())[-1].cause == "asserted"
        assert unguarded.write(fact("Zürich Büros", "geöffnet")).id not in ids

    def test_a_changed_number_is_a_changed_fact(self, unguarded: BlockingMemory) -> None:
        """However alike the two sentences look: six is current, five was."""
        unguarded.write(fact("tenure", "5 years at Google"))
        record = unguarded.write(fact("tenure", "6 years at Google"))
        found = unguarded.get(record.id)
        assert found is not None and (record.outcome, found.text) == ("superseded", "6 years at Google")
        assert [item["text"] for item in correction_chain(found)] == ["5 years at Google"]
        assert [hit.text for hit in unguarded.recall("tenure years google", scope=HERE)] == ["6 years at Google"]

    def test_a_long_text_is_kept_whole_or_refused(self, unguarded: BlockingMemory) -> None:
        """With the limit named; nothing is cut short."""
        long = "word " * 4_000
        written = unguarded.write(fact("long", long.strip()))
        assert written.text == long.strip()
        with pytest.raises(TooLarge, match="20000"):
            unguarded.write(fact("longer", "x" * 100_000))
        assert not [hit for hit in unguarded.recall("longer", scope=HERE) if hit.subject == "longer"]

    def test_values_of_a_declared_predicate_do_not_retire_each_other(self, unguarded: BlockingMemory) -> None:
        """Two models were tested: both are current. An undeclared predicate holds one."""
        scope = "bench:users"
        unguarded.set_multi_valued("bench:*", "tested_with")
        for predicate in ("tested_with", "led_by"):
            for value in ("qwen-7b", "qwen-3b"):
                unguarded.write(MemoryRecord(subject="benchmark", predicate=predicate, text=value, scope=scope))
        held = {(record.predicate, record.text) for record in unguarded.all(scope=scope)}
        assert held == {("tested_with", "qwen-7b"), ("tested_with", "qwen-3b"), ("led_by", "qwen-3b")}

    def test_an_id_means_the_same_to_every_verb(self, unguarded: BlockingMemory) -> None:
        """The one that writing gave: to get, history, annotate, review, undo and forget."""
        id = unguarded.write(fact("address", "here")).id
        assert unguarded.get(id) is not None and len(unguarded.history(id)) == 1
        for record in (unguarded.annotate(id, metadata={"seen": 1}), unguarded.pin(id), unguarded.corroborate(id)):
            assert record.id == id
        assert unguarded.approve(id).id == unguarded.recall("address here", scope=HERE)[0].id == id
        done = unguarded.forget(id)
        assert unguarded.get(id) is None
        restored = unguarded.undo(id, done.event, reason="the wrong one")
        assert restored is not None and restored.id == id


class Contradiction:
    """One thing and its opposite: the later one holds, the earlier one is history, and never is there nothing."""

    @pytest.mark.parametrize(
        ("predicate", "before", "after"),
        [
            ("lives in", "Porto", "Faro"), ("works on", "the parser", "the planner"), ("uses", "redis", "nothing"),
            ("loves", "Chinese food", "Thai food"), ("reports to", "Ann", "Ben"), ("weighs", "70 kg", "71 kg"),
            ("was born", "in 1980", "in 1981"), ("status", "open", "closed"), ("moved to", "project A", "project B"),
            ("says", "yes", "no"),
        ],
    )  # fmt: skip
    def test_every_predicate_is_superseded_alike(
        self, unguarded: BlockingMemory, predicate: str, before: str, after: str
    ) -> None:
        """By its key, not by what a model makes of it."""
        first = MemoryRecord(subject="dana of the table", predicate=predicate, text=before, scope=HERE)
        written = unguarded.write(first)
        assert unguarded.write(first.model_copy(update={"text": after})).outcome == "superseded"
        found = unguarded.get(written.id)
        assert found is not None and found.text == after
        assert [item["text"] for item in correction_chain(found)] == [before]

    def test_the_opposite_never_leaves_nothing(self, unguarded: BlockingMemory) -> None:
        """Loved, then hated: one record is there at every moment."""
        for text in ("loves Chinese food", "hates Chinese food", "loves Chinese food"):
            unguarded.write(fact("taste", text, scope="users:taste"))
            assert [hit.text for hit in unguarded.recall("taste Chinese food", scope="users:taste")] == [text]

    def test_naming_a_source_changes_no_status(self, unguarded: BlockingMemory) -> None:
        """A citation is no replacement: what is cited stays as it is."""
        cited = unguarded.approve(unguarded.write(fact("measurement", "12 ms")).id)
        citing = unguarded.write(fact("conclusion", "it is fast", derived_from=[cited.id]))
        found = unguarded.get(cited.id)
        assert found is not None and (found.trust, found.version) == (Trust.VERIFIED, cited.version)
        assert (citing.outcome, citing.derived_from) == ("asserted", [cited.id])

    def test_what_rested_on_a_source_goes_with_it(self, unguarded: BlockingMemory) -> None:
        """Through two steps; what somebody else states as well stays."""
        source = unguarded.write(fact("rule", "always retry"))
        first = unguarded.write(fact("habit", "retries", derived_from=[source.id]))
        second = unguarded.write(fact("cost", "doubles", derived_from=[first.id]))
        stated = unguarded.write(fact("outage", "was long", derived_from=[first.id]))
        unguarded.write(fact("outage", "was long", source="doc:report"))
        unguarded.forget(source.id, reason="refuted")
        assert unguarded.get_many([source.id, first.id, second.id]) == [None, None, None]
        assert unguarded.get(stated.id) is not None

    def test_a_verified_value_meets_its_opposite(self, guarded: Guarded) -> None:
        """It is not replaced by a stranger's say-so; both are kept, and a reviewer sees them side by side."""
        for memory in (guarded.alice, guarded.admin):
            written = memory.write(fact("gate", "closed at six"))
        assert guarded.bob.write(fact("gate", "open all night")).outcome == "conflicted"
        item = guarded.admin.review_item(written.id)
        assert item is not None
        assert (item.record.text, [one.text for one in item.contenders]) == ("closed at six", ["open all night"])
        assert [hit.text for hit in guarded.bob.recall("gate", scope=HERE)] == ["closed at six"]


class Time:
    """What is over is not told, without anybody having to clean up; what was, stays known."""

    def test_what_expired_is_gone_without_a_job(self, unguarded: BlockingMemory) -> None:
        """From every read; history shows it as expired. What has no end is there."""
        fleeting = unguarded.write(fact("meeting", "in room 3", ttl_s=INSTANTLY_S))
        lasting = unguarded.write(fact("meeting room", "has a door"))
        assert unguarded.get(fleeting.id) is None
        assert [hit.id for hit in unguarded.recall("meeting room", scope=HERE, k=50)] == [lasting.id]
        assert fleeting.id not in {record.id for record in unguarded.all(scope=HERE)}
        assert [item.ended_by for item in unguarded.history(fleeting.id)] == ["expired"]
        assert fleeting.id not in {item.record.id for item in unguarded.review_queue(scope=HERE, limit=100)}

    def test_saying_it_again_without_an_end_keeps_it(self, unguarded: BlockingMemory) -> None:
        """The time to live of one statement does not end another."""
        unguarded.write(fact("badge", "is blue", ttl_s=3600, source="doc:1"))
        again = unguarded.write(fact("badge", "is blue", source="doc:2"))
        assert again.expires_at is None
        assert [hit.text for hit in unguarded.recall("badge", scope=HERE)] == ["is blue"]

    def test_lifting_an_end_brings_nothing_back_that_is_over(self, unguarded: BlockingMemory) -> None:
        """While it lives a time to live can be lifted."""
        alive = unguarded.write(fact("lamp", "is on", ttl_s=3600))
        assert unguarded.set_flags(alive.id, ttl_s=0).expires_at is None
        over = unguarded.write(fact("torch", "is on", ttl_s=INSTANTLY_S))
        refuses(unguarded, rules.UNKNOWN_RECORD, lambda: unguarded.set_flags(over.id, ttl_s=0), over.id)

    def test_who_leaves_takes_nothing_along_that_others_say(self, guarded: Guarded) -> None:
        """A revoked principal's facts that somebody else supports stay as they are."""
        carol = Principal(b"u" * 32)
        guarded.admin.enroll(carol, grants={HERE: ["read", "write"]})
        shared = guarded.admin.remember_signed(carol, subject="shared", predicate="is", text="ours", scope=HERE)
        guarded.alice.write(fact("shared", "ours"))
        guarded.admin.revoke(carol, reason="left")
        found = guarded.alice.get(shared["id"])
        assert found is not None and (found.support_count, found.trust) == (2, Trust.VERIFIED)
        assert guarded.alice.write(fact("shared", "still ours")).outcome == "superseded"


class Isolation:
    """What is one's own is not told to others, by no way of reading; and every answer says where it looked."""

    def test_two_tenants_never_meet(self, guarded: Guarded) -> None:
        """By no way of reading does Bob learn of what lies elsewhere; whoever may read it finds it by the same call."""
        secret = "the password is swordfish"
        vault = "tenant:other/vault"
        mine = guarded.bob.write(fact("swordfish", "is a fish"))
        record = guarded.alice.write(fact("swordfish", "was the password", scope=vault))
        guarded.admin.reject(record.id, reason="it was changed")
        guarded.alice.write(fact("swordfish", secret, scope=vault))
        guarded.admin.set_scope_parent(vault, "tenant:other")
        ways: dict[str, Callable[[BlockingMemory], object]] = {
            "get": lambda memory: memory.get(record.id),
            "get_many": lambda memory: memory.get_many([mine.id, record.id])[1],
            "recall": lambda memory: [hit for hit in memory.recall("swordfish password", k=50) if hit.scope == vault],
            "all": lambda memory: [one for one in memory.all() if one.scope == vault],
            "history": lambda memory: memory.history(record.id),
            "rejections": lambda memory: memory.rejections(record.id),
            "scopes": lambda memory: [scope for scope in memory.scopes() if scope == vault],
            "lattice": lambda memory: memory.lattice().parent(vault),
            "watch": lambda memory: [one for one in memory.watch(BEGINNING, follow=False) if one.scope == vault],
        }
        for name, read in ways.items():
            assert read(guarded.alice), name
            assert not read(guarded.bob), name
        assert guarded.admin.review_item(record.id) is not None
        refuses(guarded.admin, rules.NOT_GRANTED, lambda: guarded.bob.review_item(record.id))
        for scope in (vault, [HERE, vault]):
            refuses(guarded.admin, rules.NOT_GRANTED, lambda scope=scope: guarded.bob.recall("swordfish", scope=scope))
        assert [hit.id for hit in guarded.bob.recall("swordfish", scope=HERE)] == [mine.id]

    def test_a_scope_is_no_prefix_of_another(self, guarded: Guarded) -> None:
        """`u/test` is not `u/test1`, nor does a grant for the one reach the other."""
        for scope in ("contract/u/test", "contract/u/test1", "contract/u/test/sub"):
            guarded.alice.write(fact("prefix", scope, scope=scope))
        hits = guarded.alice.recall("prefix", scope="contract/u/test", k=10)
        assert [hit.scope for hit in hits] == ["contract/u/test"]
        for scope in ("contract/u/%", "contract/u/*", "contract/u/../x", "contract/u/"):
            with pytest.raises(Invalid):
                guarded.alice.write(fact("prefix", "x", scope=scope))
            with pytest.raises(Invalid):
                guarded.alice.recall("prefix", scope=scope)

    def test_case_and_space_make_no_second_scope(self, unguarded: BlockingMemory) -> None:
        """`TEAM` and `team` are one scope, for writing and for reading."""
        unguarded.write(fact("motto", "one", scope="Crew:X"))
        unguarded.write(fact("motto", "two", scope=" crew:x "))
        assert [(hit.text, hit.scope) for hit in unguarded.recall("motto", scope="CREW:X")] == [("two", "crew:x")]

    def test_every_answer_says_where_it_looked(self, unguarded: BlockingMemory) -> None:
        """An empty answer from a scope that nobody has is told apart from one of a scope without hits."""
        unguarded.write(fact("lighthouse", "is white", scope="coast:west"))
        found = unguarded.recall("lighthouse", scope=["coast:west", "coast:east"])
        assert (len(found), found.scopes, found.unknown_scopes) == (1, ("coast:west", "coast:east"), ("coast:east",))
        nothing = unguarded.recall("submarine", scope="coast:west")
        assert (list(nothing), nothing.scopes, nothing.unknown_scopes) == ([], ("coast:west",), ())
        assert unguarded.recall("lighthouse", scope=[]) == []

    def test_a_scope_that_is_not_granted_is_an_error_and_not_everything(self, guarded: Guarded) -> None:
        """Bob asks for a scope beyond his grant, for one that nobody has, and for his own."""
        guarded.bob.write(fact("parcel", "is here"))
        for scope in ("elsewhere", "nobody:knows"):
            refuses(guarded.admin, rules.NOT_GRANTED, lambda scope=scope: guarded.bob.recall("parcel", scope=scope))
            refuses(guarded.admin, rules.NOT_GRANTED, lambda scope=scope: list(guarded.bob.all(scope=scope)))
        assert [hit.text for hit in guarded.bob.recall("parcel", scope=HERE)] == ["is here"]


class Search:
    """Whatever is stored is found by its own words, and whatever is asked is answered."""

    def test_nasty_text_is_found_by_itself(self, unguarded: BlockingMemory) -> None:
        """Operators, quotes, brackets, colons: no exception, and the literal text is among the hits."""
        scope = "search:nasty"
        unguarded.write_many([MemoryRecord(text=text, scope=scope) for text in NASTY])
        for text in NASTY:
            assert text in [hit.text for hit in unguarded.recall(text, scope=scope, k=10)], text

    def test_every_script_is_found(self, unguarded: BlockingMemory) -> None:
        """Also two characters of a run without spaces, and composed characters by decomposed ones."""
        scope = "search:scripts"
        unguarded.write_many([MemoryRecord(text=text, scope=scope) for text in SCRIPTS.values()])
        for query, text in SCRIPTS.items():
            for form in ("NFC", "NFD"):
                asked = unicodedata.normalize(form, query)
                assert text in [hit.text for hit in unguarded.recall(asked, scope=scope, k=5)], query
        assert list(unguarded.recall("不存在的词", scope=scope)) == []

    @pytest.mark.parametrize("query", ["", "   ", "🤷", "'" * 50_000, "word " * 50_000, "x" * 1_000_000, "\x00\x1b"])
    def test_any_question_is_answered(self, unguarded: BlockingMemory, query: str) -> None:
        """Empty, blank, endless: hits or none, with a notice where something was left aside, never an exception."""
        unguarded.write(fact("needle", "in a haystack"))
        found = unguarded.recall(query, scope=HERE)
        assert len(found) <= 5
        if len(query) > 100_000:
            assert found.notices
        assert len(unguarded.recall("needle haystack", scope=HERE, k=1)) == 1

    def test_what_is_forgotten_is_in_no_answer(self, unguarded: BlockingMemory) -> None:
        """Found before, and afterwards by no way of reading but history, all at once."""
        record = unguarded.write(fact("ghost", "walks at night"))
        assert [hit.id for hit in unguarded.recall("ghost night", scope=HERE)] == [record.id]
        unguarded.forget(record.id, reason="asked to")
        assert list(unguarded.recall("ghost night", scope=HERE)) == []
        assert unguarded.get(record.id) is None
        assert record.id not in {one.id for one in unguarded.all(scope=HERE)}
        assert record.id not in {item.record.id for item in unguarded.review_queue(scope=HERE, limit=100)}
        assert [item.ended_by for item in unguarded.history(record.id)] == ["forgotten"]

    def test_a_superseded_value_is_not_found_by_its_words(self, unguarded: BlockingMemory) -> None:
        """Only the present one is; the old one is history."""
        unguarded.write(fact("anchor", "made of zinc"))
        record = unguarded.write(fact("anchor", "made of iron"))
        assert [hit.text for hit in unguarded.recall("zinc", scope=HERE)] == []
        assert [hit.text for hit in unguarded.recall("iron", scope=HERE)] == ["made of iron"]
        assert [item.text for item in unguarded.history(record.id)] == ["made of iron", "made of zinc"]


class Conversations:
    """What a model makes of a conversation is hostile input, and what it makes of memory is no new evidence."""

    @pytest.mark.parametrize(
        ("answer", "fails"),
        [
            ('"category": "x",', True), ("I cannot extract facts from this conversation.", None), ("{}", None),
            ('[{"subject": "Dana", "predicate": "pre', True), ("", None), ("[]", False), ('{"facts": 7}', None),
            ('[{"subject": {"a": 1}, "predicate": ["b"], "text": null}]', False),
        ],
    )  # fmt: skip
    def test_garbage_of_a_model_stores_nothing(
        self, unguarded: BlockingMemory, answer: str, fails: bool | None
    ) -> None:
        """It is told, and a later answer is taken; a fact in prose with braces is found."""
        scope = "talk:garbage"
        before = len(list(unguarded.all(scope=scope)))
        report = remember_conversation(unguarded, "I'm Dana", scope=scope, chat=lambda _: answer)
        assert report.facts == ()
        assert fails is None or report.extraction_failed == fails
        facts = [record for record in unguarded.all(scope=scope) if record.kind == MemoryKind.FACT]
        assert len(facts) <= before
        good = 'Sure {see below}: [{"subject": "Dana", "predicate": "is", "text": "a \\\\u00e9lite cook"}] {done}'
        report = remember_conversation(unguarded, "I'm Dana", scope=scope, chat=lambda _: good)
        assert [fact.grade.value for fact in report.facts] == ["candidate"]

    def test_a_recalled_block_in_a_transcript_teaches_nothing(self, unguarded: BlockingMemory) -> None:
        """It is cut out before anything is extracted; what was said around it is learnt."""
        scope = "talk:loop"
        first = unguarded.write(MemoryRecord(subject="Dana", predicate="prefers", text="dark mode", scope=scope))
        block = recall_budgeted(unguarded, "Dana prefers", scope=scope, token_budget=500).text
        remember_conversation(unguarded, f"{block}\nI'm Dana and I live in Faro.", scope=scope)
        held = unguarded.get(first.id)
        assert held is not None and (held.support_count, held.trust) == (1, Trust.CANDIDATE)
        facts = [record for record in unguarded.all(scope=scope) if record.kind == MemoryKind.FACT]
        assert {record.text for record in facts} - {"dark mode"} != set()

    def test_a_transcript_displaces_nothing_verified(self, guarded: Guarded) -> None:
        """Whoever supports the value may correct it so; a stranger's word waits beside it."""
        scope = "contract/talk"

        def says(memory: BlockingMemory, text: str) -> list[str]:
            answer = f'[{{"subject": "Dana", "predicate": "prefers", "text": "{text}"}}]'
            report = remember_conversation(memory, f"I prefer {text}", scope=scope, chat=lambda _: answer)
            return [fact.grade.value for fact in report.facts]

        claim = MemoryRecord(subject="Dana", predicate="prefers", text="dark mode", scope=scope)
        for memory in (guarded.alice, guarded.admin):
            written = memory.write(claim)
        assert says(guarded.bob, "light mode") == ["contending"]
        held = guarded.alice.get(written.id)
        assert held is not None and (held.text, held.trust) == ("dark mode", Trust.VERIFIED)

    @pytest.mark.parametrize("budget", [1, 20, 60, 200, 2_000])
    def test_a_budget_holds_the_whole_block(self, unguarded: BlockingMemory, budget: int) -> None:
        """Fence and all; or else the best record alone, with what it really costs."""
        scope = "talk:budget"
        unguarded.approve(unguarded.write(MemoryRecord(text="the budget is what the team agreed on", scope=scope)).id)
        unguarded.write_many([MemoryRecord(text=f"budget rumour {n} is long " * 5, scope=scope) for n in range(20)])
        context = recall_budgeted(unguarded, "budget", scope=scope, token_budget=budget, count_tokens=len)
        assert context.used_tokens == len(context.text)
        assert context.used_tokens <= budget or (context.over_budget and len(context.records) == 1)
        assert context.records[0].trust == Trust.VERIFIED

    def test_a_long_episode_is_kept_whole_and_found_by_its_last_line(self, unguarded: BlockingMemory) -> None:
        """60 KB in one piece; over the limit it is refused with the limit, never cut."""
        scope = "talk:long"
        text = "\n".join(f"turn {number}: this and that" for number in range(2_500)) + "\nat last: the xylophone"
        assert len(text) > 60_000
        episode = unguarded.remember_episode(text, scope=scope, source="chat:1")
        found = unguarded.get(episode.id)
        assert found is not None and found.text == text
        hits = unguarded.recall("xylophone", scope=scope, kind=MemoryKind.EPISODE)
        assert [hit.id for hit in hits] == [episode.id]
        with pytest.raises(TooLarge, match="200000"):
            unguarded.remember_episode("x" * 200_001, scope=scope)
