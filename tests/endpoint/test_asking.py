"""A question that names the topic of its answer, which its asker has just subscribed to."""

from __future__ import annotations

import glue
from tests.support.lan import PATIENCE, Ear, Lan

QUESTIONS = 50


def answering(lan: Lan, name: str) -> glue.Endpoint:
    """An endpoint that answers each question on the topic that this names."""
    endpoint = lan.start(name)

    def answer(message: glue.Message) -> None:
        endpoint.publish(message.payload["to"], f"{name}: {message.payload['question']}")

    endpoint.subscribe("questions", answer)
    return endpoint


def test_each_answer_is_heard_on_a_topic_of_its_own(lan: Lan) -> None:
    answering(lan, "b")
    a = lan.start("a")
    assert a.wait_for_subscribers("questions", 1, PATIENCE)
    for number in range(QUESTIONS):
        with a.subscribe(f"answers/{number}") as answers:
            a.publish("questions", {"to": f"answers/{number}", "question": number})
            assert answers.get(PATIENCE).payload == f"b: {number}"


def test_all_of_several_answers_are_heard(lan: Lan) -> None:
    for name in ("b", "c"):
        answering(lan, name)
    a = lan.start("a")
    assert a.wait_for_subscribers("questions", 2, PATIENCE)
    for number in range(QUESTIONS):
        ear = Ear()
        with a.subscribe(f"answers/{number}", ear):
            a.publish("questions", {"to": f"answers/{number}", "question": number})
            assert sorted(message.payload for message in ear.wait(2)) == [f"b: {number}", f"c: {number}"]
