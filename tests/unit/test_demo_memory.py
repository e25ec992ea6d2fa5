"""The offline demo runs, and tells what the document that this product follows prints, but for the budget."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "demo_memory.py"
STORY = """\
== 1) extract from a conversation — facts enter as CANDIDATE (not trusted) ==
   remember: 0 verified, 2 candidate, 0 superseded, 0 refused
   Dana/prefers -> trust=candidate  (a single say-so is not trusted)
== 2) a hallucinated one-off NEVER silently becomes trusted ==
   ci-role/is -> trust=candidate  (stays candidate — no corroboration)
== 3) corroboration by AUTHENTICATED principals GRADES it -> VERIFIED ==
   remember: 1 verified, 0 candidate, 0 superseded, 0 refused
   Dana/prefers -> trust=verified  (two principals → trusted)
   (one attacker repeating a claim — or minting two source LABELS — would NOT promote)
== 4) a correction SUPERSEDES the old value (queryable, not overwritten) ==
   superseded: ['dark mode'] -> current: light mode
== 5) token-budgeted, graded-first recall (keep the prompt small) ==
"""


def test_the_demo_tells_the_story_of_the_document() -> None:
    """The fence counts towards the budget: 12 tokens hold no block, so that the best record alone is shown."""
    done = subprocess.run([sys.executable, str(DEMO)], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(STORY)
    tight, _, roomy = done.stdout.removeprefix(STORY).partition("   budget=200 tokens")
    assert "dropped=2  (the fence and the best record alone cost more)" in tight
    assert [line.strip() for line in tight.splitlines() if line.strip().startswith("- ")] == [
        "- Dana role: platform team lead"
    ]
    assert "dropped=0\n" in roomy and roomy.count("     - ") == 3
