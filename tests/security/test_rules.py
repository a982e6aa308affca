"""Rules: what they decide, and that both ends keep to them."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import pytest

import glue
from glue.cmd import key as command
from glue.contract import ExecuteWill, Publication
from glue.security import MemberIdentity
from glue.security.guard import POLICY_SIZE, Policy, asked_by
from glue.security.rules import Rules, read_rules
from glue.simulation import SimulatedEndpoint, World
from tests.security.test_identities import AUTHORITY, KEY

RULES: list[dict[str, Any]] = [
    {"who": "#", "may": ["publish", "subscribe", "respond"], "topics": ["home/#"]},
    {"who": "guest", "may_not": ["subscribe"], "topics": ["home/door"]},
    {"who": "guest", "may_not": ["publish", "respond"], "topics": ["#"]},
]


class Client:
    """What a door for other clients would ask about: a name, and rules of its own."""

    def __init__(self, name: str, rules: list[dict[str, Any]] | None = None) -> None:
        self.name = name
        self.rules = read_rules([{**rule, "who": name} for rule in rules or []])


@pytest.mark.parametrize(
    ("who", "action", "topic", "rule"),
    [
        ("kitchen", "publish", "home/lamp", "# may publish and subscribe and respond home/#"),
        ("kitchen", "publish", "plant/lamp", None),
        ("kitchen", "keep", "home/lamp", None),
        ("guest", "subscribe", "home/lamp", "# may publish and subscribe and respond home/#"),
        ("guest", "subscribe", "home/door", None),
        ("guest", "subscribe", "home/#", None),  # the door is among them
        ("guest", "publish", "home/lamp", None),
    ],
)
def test_the_last_rule_that_matches_decides(who: str, action: str, topic: str, rule: str | None) -> None:
    decision = Rules(read_rules(RULES)).decide(Client(who), action, topic)
    assert decision.allowed is (rule is not None)
    if rule:
        assert decision.rule == rule


def test_rules_of_a_client_count_before_those_of_the_policy() -> None:
    own = [{"may": ["publish"], "topics": ["shed/#"]}]
    rules = Rules(read_rules(RULES))
    for _ in range(2):  # whatever was decided for the same name with other rights
        assert rules.decide(Client("bob", own), "publish", "shed/1").allowed
        assert not rules.decide(Client("bob"), "publish", "shed/1").allowed


@pytest.mark.parametrize(
    "wrong",
    [
        {},
        [{}],
        [{"who": "a", "may": ["fly"], "topics": ["x"]}],
        [{"who": "a", "may": ["publish"], "may_not": ["publish"], "topics": ["x"]}],
        [{"who": "a", "may": ["publish"], "topics": []}],
        [{"who": "a", "may": ["publish"], "topics": ["x"], "until": 1}],
    ],
)
def test_wrong_rules_are_refused_by_name(wrong: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        read_rules(wrong)


def test_what_an_interest_stands_for() -> None:
    assert asked_by("home/#") == ("subscribe", "home/#")
    assert asked_by("$glue/limited/100/home/#") == ("subscribe", "home/#")
    assert asked_by("$glue/responder/home/+") == ("respond", "home/+")
    assert asked_by("$glue/model/plant/all") == ("read", "plant")
    assert asked_by("$glue/rules") is None
    assert asked_by("$glue/share/g/0123456789abcdef-1-1/+/home/#") == ("subscribe", "home/#")
    assert asked_by("$glue/publisher/0/home/door") == ("publish", "home/door")
    assert asked_by("$glue/will/0123456789abcdef/1/1/boiler%201/home/door") == ("publish", "home/door")


# ------------------------------------------------------------------------------------------- both ends


class Plant:
    """Members with identities under rules, in virtual time."""

    def __init__(self, rules: list[dict[str, Any]] | None = RULES) -> None:
        self.world = World(seed=6)
        self.heard: dict[str, list[object]] = {}
        self.policy = None if rules is None else Policy.make(AUTHORITY, 1, rules)

    def start(self, name: str, rights: list[dict[str, Any]] | None = None, policy: Any = ...) -> SimulatedEndpoint:
        who = MemberIdentity(name, Random(name).randbytes(32)).admitted(AUTHORITY, None, rights or [])
        given = self.policy if policy is ... else policy
        self.heard[name] = []
        return self.world.endpoint(name, key=KEY, identity=who, policy=given)

    def hear(self, endpoint: SimulatedEndpoint, pattern: str) -> None:
        heard = self.heard[endpoint.name]
        endpoint.subscribe(pattern, lambda message: heard.append((message.topic, message.payload)))


def test_an_endpoint_is_told_at_once_by_which_rule_it_may_not() -> None:
    guest = Plant().start("guest")
    with pytest.raises(glue.ForbiddenError, match="guest may not publish 'home/lamp': guest may not"):
        guest.publish("home/lamp", 1)
    with pytest.raises(glue.ForbiddenError, match="home/door"):
        guest.subscribe("home/#")
    with pytest.raises(PermissionError, match="respond"):
        guest.respond("home/lamp", lambda request: 1)
    guest.subscribe("home/lamp")


def test_a_publisher_sends_nothing_to_a_peer_that_may_not_hear_it(caplog: pytest.LogCaptureFixture) -> None:
    plant = Plant()
    kitchen, guest = plant.start("kitchen"), plant.start("guest")
    guest._core.guard = None  # its own software does not ask
    plant.hear(guest, "home/#")
    plant.world.run(2.0)
    kitchen.publish("home/door", "open")
    plant.world.run(2.0)
    assert plant.heard["guest"] == []
    assert kitchen.statistics["interest gate"]["refused: interest"] == 1
    assert kitchen.subscribers("home/door") == []
    assert caplog.text.count("guest may not subscribe 'home/#'") == 2  # at both ends


def test_a_receiver_drops_what_its_publisher_may_not_say(caplog: pytest.LogCaptureFixture) -> None:
    plant = Plant()
    kitchen, guest = plant.start("kitchen"), plant.start("guest")
    plant.hear(kitchen, "home/#")
    plant.world.run(2.0)
    guest._core.guard = None
    for number in range(3):
        guest.publish("home/lamp", number)
    plant.world.run(2.0)
    assert plant.heard["kitchen"] == []
    assert kitchen.statistics["delivery gate"]["refused: message"] == 3
    assert caplog.text.count("guest may not publish 'home/lamp'") == 2  # at both ends


def test_messages_that_travel_on_other_topics_follow_the_rules_of_their_own() -> None:
    plant = Plant()
    kitchen, guest, boiler = plant.start("kitchen"), plant.start("guest"), plant.start("boiler")
    heard: list[object] = []
    kitchen.subscribe("home/lamp", lambda message: heard.append(message.payload), max_rate=10)
    kitchen.subscribe("home/boiler", lambda message: heard.append(message.payload))
    boiler.will("home/boiler", "gone")
    plant.world.run(2.0)
    guest._core.guard = None
    guest.publish("home/lamp", "forged")
    guest._order_request(ExecuteWill("home/boiler", b"forged", False, False, ("boiler", boiler.id, 1), 9, 0.0))
    plant.world.run(2.0)
    assert heard == []
    assert kitchen.statistics["delivery gate"]["refused: message"] == 2
    boiler.crash()
    plant.world.run(15.0)
    assert heard == ["gone"]


def test_newer_rules_reach_all_and_older_ones_none() -> None:
    plant = Plant()
    kitchen, hall = plant.start("kitchen"), plant.start("hall", policy=None)
    plant.hear(hall, "home/lamp")
    plant.world.run(3.0)
    kitchen.publish("home/lamp", 1)
    plant.world.run(1.0)
    assert hall._core.guard.policy.version == 1
    strict = Policy.make(AUTHORITY, 2, [{"who": "#", "may": ["subscribe"], "topics": ["home/#"]}])
    plant.start("operator", policy=strict)
    plant.world.run(3.0)
    assert kitchen._core.guard.policy.version == hall._core.guard.policy.version == 2
    with pytest.raises(glue.ForbiddenError):
        kitchen.publish("home/lamp", 2)
    plant.start("attic", policy=plant.policy)  # with an old file
    forged = Policy.make(bytes(32), 9, RULES)
    kitchen._core.outbox.add(Publication("$glue/rules", [forged.to_text().encode()], 0.0))
    plant.world.run(3.0)
    assert kitchen._core.guard.policy.version == hall._core.guard.policy.version == 2
    assert plant.heard["hall"] == [("home/lamp", 1)]


def test_of_two_policies_of_one_version_all_take_the_same_and_are_told(caplog: pytest.LogCaptureFixture) -> None:
    plant = Plant()
    other = Policy.make(AUTHORITY, 1, [{"who": "#", "may": ["publish", "subscribe"], "topics": ["#"]}])
    kitchen, hall = plant.start("kitchen"), plant.start("hall", policy=other)
    plant.world.run(3.0)
    assert plant.policy is not None
    used = max(plant.policy.document, other.document)
    assert [endpoint._core.guard.policy.document for endpoint in (kitchen, hall)] == [used, used]
    told = [record.getMessage() for record in caplog.records if "different rules as version 1" in record.getMessage()]
    assert len(told) == 2


def test_a_subscription_ends_when_its_right_is_taken_away() -> None:
    plant = Plant([{"who": "#", "may": ["publish", "subscribe"], "topics": ["#"]}])
    kitchen, hall = plant.start("kitchen"), plant.start("hall")
    plant.hear(hall, "home/lamp")
    plant.world.run(2.0)
    kitchen.publish("home/lamp", 1)
    plant.world.run(1.0)
    kitchen._core.guard.take(
        Policy.make(AUTHORITY, 2, [{"who": "kitchen", "may": ["publish"], "topics": ["#"]}]).to_text().encode()
    )
    plant.world.run(2.0)
    kitchen.publish("home/lamp", 2)
    plant.world.run(1.0)
    assert plant.heard["hall"] == [("home/lamp", 1)]
    assert kitchen.subscribers("home/lamp") == []


def test_a_file_of_rules_is_taken_whole_or_not_at_all(tmp_path: Path) -> None:
    plant, file = Plant(), tmp_path / "plant.rules"
    assert plant.policy is not None
    file.write_text(plant.policy.to_text().ljust(POLICY_SIZE))
    assert plant.start("kitchen", policy=str(file))._core.guard.policy == plant.policy
    with file.open("a") as end:
        end.write(" ")
    with pytest.raises(glue.ConfigurationError, match="not signed by the authority"):
        plant.start("hall", policy=str(file))


def test_rights_of_a_certificate_hold_without_a_policy() -> None:
    plant = Plant(rules=None)
    kitchen = plant.start("kitchen", [{"may": ["publish"], "topics": ["home/kitchen/#"]}])
    hall = plant.start("hall", [{"may": ["subscribe"], "topics": ["home/#"]}])
    plant.hear(hall, "home/#")
    plant.world.run(2.0)
    kitchen.publish("home/kitchen/lamp", 1)
    with pytest.raises(glue.ForbiddenError, match="no rule allows kitchen to publish home/hall/lamp"):
        kitchen.publish("home/hall/lamp", 1)
    plant.world.run(1.0)
    assert plant.heard["hall"] == [("home/kitchen/lamp", 1)]


def test_requests_follow_the_rules() -> None:
    plant = Plant()
    kitchen, hall = plant.start("kitchen"), plant.start("hall")
    hall.respond("home/lamp", lambda request: request.payload + 1)
    plant.world.run(2.0)
    replies: list[glue.Reply] = []
    kitchen.request("home/lamp", 1, then=replies.append)
    plant.world.run(2.0)
    assert [reply.payload for reply in replies] == [2]


def test_the_commands_sign_and_explain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rules.json").write_text(str(RULES).replace("'", '"'))
    assert command.main(["authority", "plant.authority"]) == 0
    assert command.main(["rules", "rules.json", "--authority", "plant.authority"]) == 0
    assert command.main(["rules", "rules.json", "--authority", "plant.authority"]) == 0
    assert "version 2, 3 rules" in capsys.readouterr().out
    assert command.main(["explain", "kitchen", "publish", "home/lamp", "--rules", "plant.rules"]) == 0
    assert capsys.readouterr().out == "yes: # may publish and subscribe and respond home/#\n"
    assert command.main(["explain", "guest", "publish", "home/lamp", "--rules", "rules.json"]) == 1
    assert capsys.readouterr().out == "no: guest may not publish and respond #\n"
    assert command.main(["identity", "guest"]) == 0
    capsys.readouterr()
    for words, told in (
        (["guest", "publish", "home/lamp", "--rules", "none.json"], "none.json: No such file"),
        (["guest", "publish", "home/lamp", "--rules", "plant.authority"], "plant.authority: no rules"),
        (["guest", "publish", "home/lamp", "--identity", "guest.identity"], "glue key admit"),
        (["kitchen", "publish", "home/lamp", "--identity", "guest.identity"], "identity of 'guest', not of 'kitchen'"),
        (["guest", "publish", "home/#/lamp"], "home/#/lamp"),
    ):
        assert command.main(["explain", *words]) == 2
        assert told in capsys.readouterr().err
    Path("other.rules").write_text("{}")
    assert command.main(["rules", "rules.json", "--authority", "plant.authority", "--output", "other.rules"]) == 2
    assert "the next version is unknown" in capsys.readouterr().err
    Path("rules.json").write_text('[{"who": "a"}]')
    assert command.main(["rules", "rules.json", "--authority", "plant.authority"]) == 2


def test_history_is_served_only_to_those_who_may_hear_it() -> None:
    plant = Plant()
    kitchen, guest, hall = plant.start("kitchen"), plant.start("guest"), plant.start("hall")
    kitchen.remember("home/#", last=10)
    plant.world.run(2.0)
    kitchen.publish("home/door", "opened")
    plant.world.run(1.0)
    guest._core.guard = None  # its own software does not ask
    for endpoint in (guest, hall):
        heard = plant.heard[endpoint.name]
        endpoint.subscribe("home/door", lambda message, heard=heard: heard.append(message.payload), start="earliest")
    plant.world.run(5.0)
    assert plant.heard["hall"] == ["opened"]
    assert plant.heard["guest"] == []
