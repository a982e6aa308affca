"""Who may connect and do what: passwords, rules in mosquitto's form, changes while running, plug-ins."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from glue.errors import ConfigurationError
from glue.gateway.mqtt import codes
from glue.gateway.mqtt.access import Everybody
from glue.gateway.mqtt.files import FileAccess, read_passwords, read_rules, write_password
from glue.gateway.mqtt.group_rules import GroupAccess
from glue.gateway.mqtt.identity import Identity, Refusal, Remote
from glue.gateway.mqtt.packets import Connect, Publish
from glue.gateway.mqtt.plugins import Plugin, PluginAccess
from glue.gateway.rights import Rights
from glue.security.guard import Guard, Policy
from glue.security.identity import Certificate, public_of
from glue.simulation.disk import SimulatedDisk
from tests.security.test_identities import AUTHORITY
from tests.support import mqtt
from tests.support.mqtt import Bench

RULES = """
# clients without a name
topic read public/#

user kitchen
topic readwrite home/kitchen/#
topic deny home/kitchen/secret
topic write log

pattern write devices/%u/%c/state
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """A password file with a user "kitchen", and a file of rules; hashing is cheap."""
    monkeypatch.setattr("glue.gateway.mqtt.files.COST", 16)
    write_password(tmp_path / "users", "kitchen", "secret")
    (tmp_path / "rules").write_text(RULES)
    return tmp_path / "users", tmp_path / "rules"


def admit(bench: Bench, device: mqtt.Device) -> list[mqtt.Sent]:
    """Do what a shell does for a client whose identity takes time."""
    while bench.broker.asked:
        client = bench.broker.asked.pop()
        assert client.connect is not None
        bench.broker.admit(bench.now, client, bench.broker.access.check(client.connect, client.remote))
    return device.read()


@pytest.mark.parametrize(
    ("user", "password", "code"),
    [
        ("kitchen", b"secret", 0),
        ("kitchen", b"wrong", 4),
        ("nobody", b"secret", 4),
        ("kitchen", None, 4),
        (None, None, 4),
    ],
)
def test_a_password_lets_in_and_nothing_else(
    files: tuple[Path, Path], user: str | None, password: bytes | None, code: int
) -> None:
    bench = Bench(FileAccess(files[0]))
    device = bench.link()
    device.send(mqtt.connect("c", user=user, password=password))
    assert [sent.body[1] for sent in admit(bench, device)] == [code]
    assert device.is_closed() == bool(code)


def test_what_comes_before_the_identity_is_known_waits(files: tuple[Path, Path]) -> None:
    bench = Bench(FileAccess(files[0]))
    device = bench.link()
    device.send(mqtt.connect("c", user="kitchen", password=b"secret"), mqtt.subscribe(1, ("t", 0)))
    device.send(mqtt.publish("t", b"x"))
    assert device.read() == []
    assert [sent.kind for sent in admit(bench, device)] == [2, 9, 3]


def test_what_follows_a_refused_connect_is_not_processed(files: tuple[Path, Path]) -> None:
    bench = Bench(FileAccess(files[0]))
    device = bench.link()
    device.send(mqtt.connect("c", user="kitchen", password=b"wrong"), mqtt.publish("t", b"x", retain=True))
    assert [sent.kind for sent in admit(bench, device)] == [2]
    assert device.is_closed()
    assert not bench.broker.statistics["messages received"]


def test_rules_allow_what_they_say_and_deny_the_rest(files: tuple[Path, Path]) -> None:
    access = FileAccess(*files, anonymous=True)
    kitchen, anonymous = Identity("kitchen"), Identity()
    allowed = [
        (kitchen, "write", "home/kitchen/lamp"), (kitchen, "read", "home/kitchen/#"), (kitchen, "write", "log"),
        (kitchen, "write", "devices/kitchen/c1/state"), (anonymous, "read", "public/news"),
        (kitchen, "read", "$share/g/home/kitchen/+"),
    ]  # fmt: skip
    denied = [
        (kitchen, "read", "log"), (kitchen, "read", "home/#"), (kitchen, "write", "home/kitchen/secret"),
        (kitchen, "write", "devices/hall/c1/state"), (kitchen, "write", "devices/kitchen/c2/state"),
        (anonymous, "write", "public/news"), (anonymous, "read", "#"), (kitchen, "read", "public/news"),
        (kitchen, "read", "$share/g/#"),
    ]  # fmt: skip
    for identity, action, name in allowed + denied:
        assert access.authorize(identity, "c1", action, name) == ((identity, action, name) in allowed), name


def test_a_client_id_cannot_widen_a_pattern(files: tuple[Path, Path]) -> None:
    access = FileAccess(*files, anonymous=True)
    assert not access.authorize(Identity("+"), "c", "write", "devices/kitchen/c/state")
    assert not access.authorize(Identity("kitchen"), "#", "write", "devices/kitchen/any/state")
    assert not access.authorize(Identity("kitchen"), "c/d", "write", "devices/kitchen/c/d/state"), "below client c"
    assert not access.authorize(Identity("kitchen/c"), "d", "write", "devices/kitchen/c/d/state"), "below user kitchen"


def test_refusals_have_their_reason_at_clients_of_version_5(files: tuple[Path, Path]) -> None:
    bench = Bench(FileAccess(rules=files[1], anonymous=True))
    device = bench.connect("c", 5)
    device.send(mqtt.subscribe(1, ("#", 0), ("public/#", 1), version=5), mqtt.publish("t", b"", 1, 2, version=5))
    device.send(mqtt.publish("t", b"", 2, 3, version=5), mqtt.publish("t", b"", version=5))
    suback, puback, pubrec = device.read()
    reason = mqtt.properties(b"\x1f" + mqtt.text(f"no rule in {files[1]} allows it"))
    assert suback.body[2:] == reason + bytes((codes.NOT_AUTHORIZED, 1))
    assert puback.body == bytes((0, 2, codes.NOT_AUTHORIZED)) + reason
    assert pubrec.body == bytes((0, 3, codes.NOT_AUTHORIZED)) + reason
    assert bench.broker.statistics["refused to write"] == 3
    device.send(mqtt.publish("t", b"", 2, 3, version=5))
    assert [sent.body for sent in device.read()] == [pubrec.body], "the packet id was free"
    older = bench.connect("d", 4)
    older.send(mqtt.publish("t", b"", 1, 2))
    assert [(sent.kind, sent.body) for sent in older.read()] == [(4, b"\0\2")]


@pytest.mark.parametrize("raw", [b"\x17\x00", b"\x27\0\0\0\x10"], ids=["no reasons wanted", "a small packet size"])
def test_a_client_that_takes_no_reasons_gets_the_code_alone(files: tuple[Path, Path], raw: bytes) -> None:
    bench = Bench(FileAccess(rules=files[1], anonymous=True))
    device = bench.connect("c", 5, raw=raw)
    device.send(mqtt.publish("t", b"", 1, 2, version=5), mqtt.publish("t", b"", 2, 3, version=5))
    device.send(mqtt.subscribe(4, ("t", 0), version=5))
    answers = [bytes((0, number, codes.NOT_AUTHORIZED)) for number in (2, 3)]
    assert [sent.body for sent in device.read()] == [*answers, bytes((0, 4, 0, codes.NOT_AUTHORIZED))]


class Refusing(Plugin):
    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool | None:
        return False if name == "plugged" else None


def test_the_log_names_the_rule_of_each_refusal_once(files: tuple[Path, Path]) -> None:
    bench = Bench(PluginAccess([Refusing()], FileAccess(*files, anonymous=True)))
    lines: list[str] = []
    bench.broker.log = lambda level, line: lines.append(line)
    kitchen = bench.link(5)
    kitchen.send(mqtt.connect("k", 5, user="kitchen", password=b"secret"))
    kitchen.send(*(mqtt.publish(name, b"", version=5) for name in ("home/kitchen/secret", "x", "plugged", "$SYS/x")))
    kitchen.send(*(mqtt.publish("x", b"", version=5) for _ in range(100)), mqtt.subscribe(1, ("$glue/#", 0), version=5))
    admit(bench, kitchen)
    line = 1 + RULES.split("\n").index("topic deny home/kitchen/secret")
    assert [one for one in lines if "may not" in one] == [
        f"k (user kitchen) may not write 'home/kitchen/secret': {files[1]}, line {line}: deny home/kitchen/secret",
        f"k (user kitchen) may not write 'x': no rule in {files[1]} allows it",
        "k (user kitchen) may not write 'plugged': plug-in Refusing",
        "k (user kitchen) may not write '$SYS/x': no client may write topics below $",
        "k (user kitchen) may not read '$glue/#': no client may read topics below $glue/",
    ]


def test_a_client_that_is_refused_again_and_again_does_not_fill_the_log(files: tuple[Path, Path]) -> None:
    bench = Bench(FileAccess(files[0]))
    lines: list[str] = []
    bench.broker.log = lambda level, line: lines.append(line)
    for _ in range(100):
        device = bench.link(5)
        device.send(mqtt.connect("k", 5, user="kitchen", password=b"guess"))
        assert [sent.body[1] for sent in admit(bench, device)] == [codes.BAD_CREDENTIALS]
    assert [line.partition(": ")[2] for line in lines] == [
        "client 'k' is refused: wrong user name or password ('kitchen')"
    ]


def test_a_will_that_may_not_be_published_is_refused_at_the_connect(files: tuple[Path, Path]) -> None:
    bench = Bench(FileAccess(rules=files[1], anonymous=True))
    device = bench.link(5)
    device.send(mqtt.connect("c", 5, will=("t", b"", 0, False)))
    (answer,) = device.read()
    assert answer.body[1] == codes.NOT_AUTHORIZED
    assert f"'t': no rule in {files[1]} allows it".encode() in answer.body


def test_who_is_identified_too_late_takes_over_no_session(files: tuple[Path, Path]) -> None:
    bench = Bench(FileAccess(*files, anonymous=True))
    late = bench.link(5)
    late.send(mqtt.connect("c", 5, user="kitchen", password=b"secret"))
    bench.pass_time(11)
    assert late.is_closed()
    other = bench.connect("c", 5)
    admit(bench, late)
    assert not other.is_closed()


def test_changed_files_are_heeded_and_wrong_ones_leave_what_was(files: tuple[Path, Path]) -> None:
    access = FileAccess(*files, anonymous=True)
    bench = Bench(access)
    device = bench.subscriber(("public/#", 0))
    assert not access.changed()
    files[1].write_text("topic read other/#\nnonsense here\n")
    assert not access.changed()
    assert access.authorize(Identity(), "c", "read", "public/news")
    files[1].write_text("topic readwrite other/#\n")
    assert access.changed()
    bench.broker.recheck(bench.now)
    assert bench.broker.subscriptions.count == 0
    assert not device.is_closed()


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("is_away", [False, True])
def test_a_right_that_is_taken_away_is_gone_for_a_client_that_is_back_too(is_stored: bool, is_away: bool) -> None:
    class Some(Everybody):
        allowed: tuple[str, ...] = ("news", "secret")

        def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool:
            return action == "write" or name in self.allowed

    access, disk = Some(), SimulatedDisk(Random(1)) if is_stored else None
    bench = Bench(access, directory=disk)
    device = bench.subscriber(("news", 1), ("secret", 1), version=5, clean=False, raw=b"\x11\0\0\x0e\x10")
    if is_away:
        device.leave()
    else:
        bench.broker.full(bench.now, device.client)
    publisher = bench.connect("p")
    publisher.send(mqtt.publish("secret", b"1", 1, 1), mqtt.publish("news", b"2", 1, 2))
    access.allowed = ("news",)
    bench.broker.recheck(bench.now)
    if is_stored:
        bench.sync()
        if is_away:
            bench = Bench(access, directory=disk, now=bench.now)  # its rights were changed meanwhile
            publisher = bench.connect("q")
    if is_away:
        device = bench.link(5)
        device.send(mqtt.connect("s", 5, clean=False, raw=b"\x11\0\0\x0e\x10"))
    else:
        bench.broker.free(bench.now, device.client)
    publisher.send(mqtt.publish("secret", b"3", 1, 3), mqtt.publish("news", b"4", 1, 4))
    if is_stored:
        bench.sync()
    assert [mqtt.publication(one, 5).payload for one in device.read() if one.kind == 3] == [b"2", b"4"]
    if is_stored:
        again = Bench(directory=disk, now=bench.now)
        assert [*again.broker.sessions["s"].subscriptions] == ["news"]


def test_a_user_who_is_removed_is_disconnected(files: tuple[Path, Path]) -> None:
    access = FileAccess(files[0])
    bench = Bench(access)
    device = bench.link(5)
    device.send(mqtt.connect("c", 5, user="kitchen", password=b"secret"))
    admit(bench, device)
    write_password(files[0], "kitchen", None)
    assert access.changed()
    bench.broker.recheck(bench.now)
    assert device.is_closed()
    assert device.read()[0].body[0] == codes.NOT_AUTHORIZED


@pytest.mark.parametrize("line", ["kitchen", "kitchen:plain", "kitchen:$7$101$abc"])
def test_a_password_file_that_is_not_understood_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "users").write_text(f"# users\n{line}\n")
    with pytest.raises(ConfigurationError, match="users, line 2"):
        read_passwords(tmp_path / "users")


def test_files_that_cannot_be_read_or_understood_raise(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="missing: cannot be read"):
        FileAccess(tmp_path / "missing")
    (tmp_path / "rules").write_text("topic read a\nuser\n")
    with pytest.raises(ConfigurationError, match="rules, line 2"):
        read_rules(tmp_path / "rules")
    with pytest.raises(ConfigurationError, match="no user 'hall'"):
        write_password(tmp_path / "users", "hall", None)
    with pytest.raises(ConfigurationError, match="no colon"):
        write_password(tmp_path / "users", "a:b", "x")


def test_the_password_file_is_for_its_owner_alone(files: tuple[Path, Path]) -> None:
    assert files[0].stat().st_mode & 0o777 == 0o600
    assert "secret" not in files[0].read_text()


def test_without_passwords_only_clients_of_this_machine_are_let_in() -> None:
    for is_local, code in ((True, 0), (False, 5)):
        bench = Bench(FileAccess(local_only=True))
        device = bench.link(is_local=is_local)
        device.send(mqtt.connect())
        assert [sent.body[1] for sent in device.read()] == [code]


class Doorkeeper(Plugin):
    """Lets "good" in, decides about "own/…" alone, and sees what happens."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
        return Identity("good") if connect.client_id == "good" else Refusal(reason="not good")

    def authorize(self, identity: Identity, client_id: str, action: str, name: str) -> bool | None:
        return action == "write" if name.startswith("own/") else None

    def on_publish(self, client_id: str, run: Publish) -> None:
        self.seen.append((client_id, run.topic, *map(bytes.decode, run.payloads)))

    def on_session(self, client_id: str, event: str) -> None:
        self.seen.append((client_id, event))


def test_plug_ins_decide_first_and_see_what_happens() -> None:
    keeper = Doorkeeper()
    bench = Bench(PluginAccess([keeper], FileAccess(anonymous=True)))
    bench.broker.watchers = [keeper]
    bad = bench.link()
    bad.send(mqtt.connect("bad"))
    assert [sent.body[1] for sent in admit(bench, bad)] == [5]
    good = bench.link()
    good.send(mqtt.connect("good"), mqtt.publish("own/t", b"x"), mqtt.subscribe(1, ("own/t", 0), ("other", 0)))
    assert [sent.body for sent in admit(bench, good)] == [b"\x00\x00", b"\x00\x01\x80\x00"]
    good.disconnect()
    assert keeper.seen == [("good", "connected"), ("good", "own/t", "x"), ("good", "disconnected"), ("good", "ended")]


def test_a_plug_in_that_fails_refuses() -> None:
    class Broken(Plugin):
        def authenticate(self, connect: Connect, remote: Remote) -> Identity | Refusal | None:
            raise RuntimeError("database is away")

    bench = Bench(PluginAccess([Broken()], FileAccess(anonymous=True)))
    device = bench.link(5)
    device.send(mqtt.connect("c", 5))
    assert [sent.body[1] for sent in admit(bench, device)] == [codes.IMPLEMENTATION_ERROR]


def test_the_rules_of_the_group_decide_about_clients_too_and_changes_end_subscriptions() -> None:
    policy = [
        {"who": "mqtt/anna", "may": ["publish", "subscribe"], "topics": ["home/#"]},
        {"who": "door", "may": ["publish", "subscribe"], "topics": ["home/#"]},
    ]
    own = Certificate("door", b"", None, (), b"", b"")
    signed = Policy.make(AUTHORITY, 1, policy)
    guard = Guard(own, public_of(AUTHORITY), signed, lambda peer: None, lambda *told: None, lambda policy: None)
    bench = Bench(GroupAccess(Rights("mqtt", guard), Everybody()))
    lines: list[str] = []
    bench.broker.log = lambda level, line: lines.append(line)
    anna, other = bench.link(5), bench.link(5)
    anna.send(mqtt.connect("a", 5, user="anna"))
    other.send(mqtt.connect("o", 5))
    wanted = ("home/+", 0), ("#", 0), ("$share/g/home/a", 0), ("$SYS/#", 0)
    anna.send(mqtt.subscribe(1, *wanted, version=5))
    other.send(mqtt.subscribe(1, *wanted, version=5))
    assert [sent.body[-4:] for sent in anna.read()][1] == b"\x00\x87\x00\x00"
    assert [sent.body[-4:] for sent in other.read()][1] == b"\x87\x87\x87\x00"
    assert [line for line in lines if "may not" in line] == [
        "a (user anna) may not read '#': no rule allows door to subscribe #",
        "o (user anonymous) may not read 'home/+': no rule allows mqtt/ to subscribe home/+",
        "o (user anonymous) may not read '#': no rule allows door to subscribe #",
        "o (user anonymous) may not read '$share/g/home/a': no rule allows mqtt/ to subscribe home/a",
    ]
    access = bench.broker.access
    assert access.authorize(Identity("anna"), "a", "write", "home/lamp")
    assert not access.authorize(Identity("anna"), "a", "write", "plant/lamp")
    assert not access.changed()
    guard.take(Policy.make(AUTHORITY, 2, policy[1:]).to_text().encode())
    assert access.changed()
    bench.broker.recheck(bench.now)
    assert [*bench.broker.subscriptions.patterns] == ["$SYS/#"]
