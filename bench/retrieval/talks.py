"""Conversations made of topics: who says what when, and what can be asked about it afterwards. The same every time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from .topics import CHATTER, PEOPLE, TOPICS, Topic

SEED = 20_231
BEGIN = datetime(2023, 3, 1, 9, 0, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Turn:
    """What was said by whom when. `id` is its place in the conversation."""

    id: str
    speaker: str
    text: str
    said: datetime

    @property
    def line(self) -> str:
        """As it is remembered and read."""
        return f"{self.speaker}: {self.text}"


@dataclass(frozen=True, slots=True)
class Question:
    """A question, its kind, and the ids of the turns that together answer it."""

    text: str
    kind: str
    evidence: frozenset[str]


@dataclass(slots=True)
class Talk:
    """One conversation, a scope of its own."""

    name: str
    turns: list[Turn] = field(default_factory=list[Turn])
    questions: list[Question] = field(default_factory=list[Question])


def talks() -> list[Talk]:
    """The synthetic set."""
    chance = random.Random(SEED)
    return [_talk(number, pair, chance) for number, pair in enumerate(PEOPLE)]


def _talk(number: int, pair: tuple[str, str], chance: random.Random) -> Talk:
    """Both people are asked everything, days apart, so that each answer has a rival of the other one's."""
    talk, said = Talk(f"talk-{number}"), BEGIN + timedelta(days=11 * number)
    asked = [(topic, who) for topic in TOPICS for who in (0, 1)]
    chance.shuffle(asked)
    answers: dict[tuple[Topic, int], Turn] = {}
    values: dict[Topic, list[str]] = {topic: chance.sample(topic.values, 2) for topic in TOPICS}
    for topic, who in asked:
        said += timedelta(hours=chance.randint(2, 60))
        for _ in range(chance.randint(0, 2)):
            _say(talk, pair[chance.randrange(2)], chance.choice(CHATTER), said)
        _say(talk, pair[1 - who], topic.opener, said)
        value = values[topic][who]
        text = topic.answer.format(x=value)
        answers[topic, who] = _say(talk, pair[who], text[0].upper() + text[1:], said)
    for (topic, who), turn in answers.items():
        _ask(talk, topic, pair[who], turn, chance)
    for topic in TOPICS:
        if topic.shared:
            both = frozenset(answers[topic, who].id for who in (0, 1))
            talk.questions.append(Question(topic.shared, "both", both))
    return talk


def _say(talk: Talk, speaker: str, text: str, said: datetime) -> Turn:
    turn = Turn(f"{talk.name}/{len(talk.turns)}", speaker, text, said + timedelta(minutes=len(talk.turns)))
    talk.turns.append(turn)
    return turn


def _ask(talk: Talk, topic: Topic, who: str, turn: Turn, chance: random.Random) -> None:
    evidence = frozenset({turn.id})
    kinds = [(kind, text) for kind in ("plain", "reworded", "context") if (text := getattr(topic, kind))]
    kind, text = kinds[chance.randrange(len(kinds))]
    talk.questions.append(Question(text.format(who=who), kind, evidence))
    if chance.random() < 0.15:
        day = f"{turn.said.day} {turn.said:%B %Y}"
        about = topic.context or topic.plain or topic.reworded
        talk.questions.append(Question(f"{about.format(who=who)[:-1]}, on {day}?", "dated", evidence))
