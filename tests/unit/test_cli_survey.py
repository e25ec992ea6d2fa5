"""What follows from the nodes' answers: one row a member of the configuration, and a verdict."""

from __future__ import annotations

from dataclasses import replace

from veridical.cli.survey import Answer, Health, MemberRow, judged
from veridical.log.configuration import Configuration, Member, founding

MEMBERS = tuple(Member(f"id{n}", f"n{n}", bytes([n]) * 32, f"127.0.0.1:740{n}") for n in (1, 2, 3))
CONFIGURATION = replace(founding(MEMBERS), epoch=1, index=1)


def answer(
    number: int, role: str = "follower", configuration: Configuration | None = CONFIGURATION, **row: object
) -> Answer:
    fields: dict[str, object] = {"epoch": 4, "commit_index": 10, "applied_index": 10, "ready": True} | row
    endpoint = f"127.0.0.1:740{number}"
    made = MemberRow(f"id{number}", f"n{number}", role, endpoint, True, **fields)  # pyright: ignore[reportArgumentType]
    return Answer(endpoint, "veridical", "c" * 32, made, configuration)


def test_three_ready_members_with_a_leader_are_healthy() -> None:
    survey = judged([answer(2), answer(1, "leader"), answer(3)])
    assert (survey.health, survey.reason) == (Health.HEALTHY, "")
    assert [member.name for member in survey.members] == ["n1", "n2", "n3"]
    assert survey.leader is not None
    assert survey.leader.id == "id1"


def test_a_member_that_does_not_answer_has_a_row_and_degrades() -> None:
    survey = judged([answer(1, "leader"), answer(2)])
    assert survey.health is Health.DEGRADED
    assert survey.reason == "n3 is down"
    down = survey.members[2]
    assert (down.id, down.role, down.endpoint, down.epoch) == ("id3", "down", "127.0.0.1:7403", None)


def test_one_of_three_is_no_quorum() -> None:
    survey = judged([answer(1, "candidate", ready=False)])
    assert survey.health is Health.NO_QUORUM
    assert [member.role for member in survey.members] == ["candidate", "down", "down"]


def test_a_member_that_answers_but_does_not_serve_counts_for_no_quorum() -> None:
    broken = answer(2, ready=False, condition="damaged: log.db, entry 7")
    assert judged([answer(1, "leader"), broken, answer(3)]).health is Health.DEGRADED
    assert judged([answer(1, "leader"), broken]).health is Health.NO_QUORUM


def test_a_quorum_without_a_leader_is_degraded() -> None:
    survey = judged([answer(1, "candidate", ready=False), answer(2, ready=False)])
    assert survey.health is Health.DEGRADED
    assert survey.reason.startswith("no member leads at the moment")


def test_the_larger_of_the_two_quorums_decides() -> None:
    lenient = replace(founding(MEMBERS, write_quorum=1), epoch=1, index=1)
    assert judged([answer(1, "leader", lenient), answer(2, configuration=lenient)]).health is Health.NO_QUORUM


def test_nobody_answers_cannot_tell() -> None:
    assert judged([]).health is Health.CANNOT_TELL


def test_nodes_of_two_clusters_cannot_tell() -> None:
    other = replace(answer(2), cluster_id="d" * 32)
    assert judged([answer(1, "leader"), other]).health is Health.CANNOT_TELL


def test_a_cluster_that_is_not_founded_has_no_quorum() -> None:
    survey = judged([answer(1, configuration=None, ready=False, condition="waiting for n2 to answer")])
    assert (survey.health, survey.reason) == (Health.NO_QUORUM, "waiting for n2 to answer")
    assert len(survey.members) == 1


def test_the_newest_configuration_decides_who_is_a_member() -> None:
    smaller = replace(founding(MEMBERS[:2]), epoch=3, index=9)
    survey = judged([answer(1, "leader", smaller), answer(2), answer(3)])
    assert [member.name for member in survey.members] == ["n1", "n2"]


def test_a_learner_is_called_one_and_does_not_count() -> None:
    learner = replace(MEMBERS[2], voting=False)
    configuration = replace(founding((*MEMBERS[:2], learner)), epoch=2, index=5)
    survey = judged([answer(1, "leader", configuration), answer(3, configuration=configuration)])
    assert survey.members[2].role == "learner"
    assert survey.health is Health.NO_QUORUM


def test_lag_is_what_is_committed_somewhere_and_not_applied_here() -> None:
    survey = judged([answer(1, "leader", commit_index=30), answer(2, applied_index=12), answer(3)])
    assert [member.lag for member in survey.members] == [20, 18, 20]
