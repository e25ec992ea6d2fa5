"""Conversations made of topics: who says what when, and what can be asked about it afterwards. The same every time."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from .topics import CHAINS, CHATTER, PEOPLE, THIRD_PEOPLE, TOPICS, Chain, Topic

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
    asked: list[tuple[Topic | Chain, int]] = [(topic, who) for topic in TOPICS for who in (0, 1)]
    asked += [(chain, who) for chain in CHAINS for who in (0, 1) for _ in ("named", "told about")]
    chance.shuffle(asked)
    answers: dict[tuple[Topic, int], Turn] = {}
    values: dict[Topic, list[str]] = {topic: chance.sample(topic.values, 2) for topic in TOPICS}
    names = iter(chance.sample(THIRD_PEOPLE, len(THIRD_PEOPLE)))
    named: dict[tuple[Chain, int], tuple[str, Turn]] = {}
    for topic, who in asked:
        said += timedelta(hours=chance.randint(2, 60))
        for _ in range(chance.randint(0, 2)):
            _say(talk, pair[chance.randrange(2)], chance.choice(CHATTER), said)
        if isinstance(topic, Topic):
            _say(talk, pair[1 - who], topic.opener, said)
            answers[topic, who] = _say(talk, pair[who], _sentence(topic.answer.format(x=values[topic][who])), said)
        elif (topic, who) not in named:
            _say(talk, pair[1 - who], topic.opener, said)
            name = next(names)
            named[topic, who] = name, _say(talk, pair[who], topic.answer.format(n=name), said)
        else:
            name, turn = named[topic, who]
            _say(talk, pair[1 - who], topic.later_opener, said)
            told = _say(talk, pair[who], topic.later_answer.format(n=name, x=chance.choice(topic.values)), said)
            evidence = frozenset({turn.id, told.id})
            talk.questions.append(Question(topic.question.format(who=pair[who]), "chain", evidence))
    for (topic, who), turn in answers.items():
        _ask(talk, topic, pair[who], turn, chance)
    for topic in TOPICS:
        if topic.shared:
            both = frozenset(answers[topic, who].id for who in (0, 1))
            talk.questions.append(Question(topic.shared, "both", both))
    return talk


def _sentence(text: str) -> str:
    return text[0].upper() + text[1:]


def _say(talk: Talk, speaker: str, text: str, said: datetime) -> Turn:
    turn = Turn(f"{talk.name}/{len(talk.turns)}", speaker, text, said + timedelta(minutes=len(talk.turns)))
    talk.turns.append(turn)
    return turn


def _ask(talk: Talk, topic: Topic, who: str, turn: Turn, chance: random.Random) -> None:
    evidence = frozenset({turn.id})
    others = [(kind, text) for kind in ("reworded", "context") if (text := getattr(topic, kind))]
    asked = [("plain", topic.plain)] if topic.plain else []
    asked += [others[chance.randrange(len(others))]] if others else []
    talk.questions += [Question(text.format(who=who), kind, evidence) for kind, text in asked]
    if chance.random() < 0.15:
        day = f"{turn.said.day} {turn.said:%B %Y}"
        about = topic.context or topic.plain or topic.reworded
        talk.questions.append(Question(f"{about.format(who=who)[:-1]}, on {day}?", "dated", evidence))
