"""What is said becomes a candidate, is graded, corrected and recalled within a budget. Offline: the model is a fake.

Run it with `python examples/demo_memory.py`. Unless all is as it tells, it ends with another exit code than 0.
"""

from __future__ import annotations

import json
import sys

from veridical.memory import (
    LocalMemory,
    MemoryRecord,
    Trust,
    correction_chain,
    make_id,
    make_key,
    recall_budgeted,
    remember_conversation,
)

SCOPE = "user:dana"
SESSIONS = {"session of alice": "alice", "session of bob": "bob"}
"""What an identity provider would say of a session token."""

FACTS = {
    "prefer dark mode": ("Dana", "prefers", "dark mode"),
    "prefer light mode": ("Dana", "prefers", "light mode"),
    "platform team lead": ("Dana", "role", "platform team lead"),
    "CI role": ("ci-role", "is", "AdminAccess"),
}


class Failed(Exception):
    """Something is not as this story tells it."""


def fake_model(prompt: str) -> str:
    """A model that finds what it was made to find."""
    found = [fact for words, fact in FACTS.items() if words in prompt]
    return json.dumps(
        [{"subject": subject, "predicate": predicate, "text": text} for subject, predicate, text in found]
    )


def held(mem: LocalMemory, subject: str, predicate: str) -> MemoryRecord:
    """What the memory holds under that name."""
    found = mem.get(make_id(make_key(subject, predicate, SCOPE)))
    if found is None:
        raise Failed(f"nothing is held about {subject}/{predicate}")
    return found


def expect_trust(mem: LocalMemory, subject: str, predicate: str, trust: Trust, why: str) -> None:
    """Tell how far it is believed, if it is so."""
    found = held(mem, subject, predicate)
    if found.trust is not trust:
        raise Failed(f"{subject}/{predicate} is {found.trust}, and not {trust}")
    print(f"   {subject}/{predicate} -> trust={trust}  ({why})")


def told(mem: LocalMemory, transcript: str, session: str = "") -> str:
    """Remember a conversation, of an authenticated session or of nobody; its summary."""
    authenticate = SESSIONS.get if session else None
    report = remember_conversation(
        mem, transcript, scope=SCOPE, chat=fake_model, authenticate=authenticate, source=session
    )
    return report.summary()


def story(mem: LocalMemory) -> None:
    """All of it."""
    print("== 1) extract from a conversation — facts enter as CANDIDATE (not trusted) ==")
    print(f"   {told(mem, 'I am Dana, platform team lead, and I prefer dark mode')}")
    expect_trust(mem, "Dana", "prefers", Trust.CANDIDATE, "a single say-so is not trusted")

    print("== 2) a hallucinated one-off NEVER silently becomes trusted ==")
    told(mem, "Something about the CI role")
    expect_trust(mem, "ci-role", "is", Trust.CANDIDATE, "stays candidate — no corroboration")

    print("== 3) corroboration by AUTHENTICATED principals GRADES it -> VERIFIED ==")
    told(mem, "Dana: I prefer dark mode", "session of alice")
    print(f"   {told(mem, 'Dana does prefer dark mode', 'session of bob')}")
    expect_trust(mem, "Dana", "prefers", Trust.VERIFIED, "two principals → trusted")
    print("   (one attacker repeating a claim — or minting two source LABELS — would NOT promote)")

    print("== 4) a correction SUPERSEDES the old value (queryable, not overwritten) ==")
    told(mem, "Actually, I prefer light mode", "session of alice")
    now = held(mem, "Dana", "prefers")
    print(f"   superseded: {[item['text'] for item in correction_chain(now)]} -> current: {now.text}")

    print("== 5) token-budgeted, graded-first recall (keep the prompt small) ==")
    for budget in (12, 200):
        context = recall_budgeted(mem, "the role of Dana on the platform", scope=SCOPE, token_budget=budget)
        over = "  (the fence and the best record alone cost more)" if context.over_budget else ""
        print(f"   budget={budget} tokens -> used={context.used_tokens}, dropped={context.dropped}{over}")
        print("   context:")
        print("\n".join(f"     {line}" for line in context.text.splitlines()))


def main() -> int:
    """Tell the story; 0 if all of it is true."""
    try:
        with LocalMemory(":memory:") as mem:
            story(mem)
    except Failed as error:
        print(f"FAILED: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
