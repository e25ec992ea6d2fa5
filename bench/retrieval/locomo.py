"""LoCoMo (Maharana et al. 2024; CC BY-NC, so that it is read from a path and never part of this repository)."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .talks import Question, Talk, Turn

KINDS = {1: "multi-hop", 2: "temporal", 3: "open", 4: "single-hop", 5: "adversarial"}
_TURN_ID = re.compile(r"D\d+:\d+")


def read(path: Path) -> list[Talk]:
    """The conversations of `locomo10.json`. Raises `ValueError` for a file of another form."""
    try:
        found = [_talk(number, sample) for number, sample in enumerate(json.loads(path.read_text()))]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise ValueError(f"{path} has not the form of locomo10.json: {error!r}") from error
    if not any(talk.questions for talk in found):
        raise ValueError(f"{path} has not the form of locomo10.json: no question in it has evidence")
    return found


def _talk(number: int, sample: dict[str, Any]) -> Talk:
    talk, conversation = Talk(f"locomo-{number}"), sample["conversation"]
    sessions = sorted((int(name[8:]), name) for name in conversation if re.fullmatch(r"session_\d+", name))
    for _, session in sessions:
        said = _moment(conversation[f"{session}_date_time"])
        for turn in conversation[session]:
            text = " ".join(filter(None, (turn["text"], turn.get("blip_caption", ""))))
            talk.turns.append(Turn(turn["dia_id"], turn["speaker"], text, said))
    known = {turn.id for turn in talk.turns}
    for asked in sample["qa"]:
        evidence = known.intersection(_TURN_ID.findall(" ".join(asked.get("evidence", ()))))
        if evidence:
            kind = KINDS.get(asked["category"], str(asked["category"]))
            talk.questions.append(Question(str(asked["question"]), kind, frozenset(evidence)))
    return talk


def _moment(told: str) -> datetime:
    """`1:56 pm on 8 May, 2023`"""
    return datetime.strptime(told, "%I:%M %p on %d %B, %Y").replace(tzinfo=UTC)
