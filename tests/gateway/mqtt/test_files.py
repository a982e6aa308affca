"""The files of passwords and rules: what each line may hold, what is said about it, and what is remembered."""

from __future__ import annotations

import os
from pathlib import Path
from random import Random

import pytest

from glue.errors import ConfigurationError
from glue.gateway.mqtt import codes, files
from glue.gateway.mqtt.files import FileAccess, hashed, is_right, read_passwords, read_rules, write_password
from glue.gateway.mqtt.identity import Identity, Refusal, Remote, Rule
from glue.gateway.mqtt.packets import Connect, Publish
from glue.simulation.disk import SimulatedDisk
from tests.support import mqtt
from tests.support.mqtt import Bench

HERE, AWAY = Remote("127.0.0.1:5", "", True), Remote("10.0.0.7:5")


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hashing costs nothing."""
    monkeypatch.setattr(files, "COST", 16)


def greeting(user: str | None = None, password: bytes | None = None) -> Connect:
    return Connect(5, "c", True, 0, username=user, password=password)


def test_a_password_is_hashed_with_the_costs_of_the_page_and_a_salt_of_its_own() -> None:
    first, second = hashed("secret"), hashed("secret")
    name, *costs, salt, digest = first.split("$")
    assert (name, costs, len(salt), len(digest)) == ("scrypt", ["16384", "8", "1"], 32, 64)
    assert first != second
    assert is_right(b"secret", first)
    assert not is_right(b"Secret", first)


@pytest.mark.parametrize(
    ("stored", "right"),
    [  # RFC 7914, section 12: the first 32 bytes of its vectors
        ("scrypt$1024$8$16$4e61436c$fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162", True),
        ("scrypt$1024$8$16$4e61436d$fdbabe1c9d3472007856e7190d01e9fe7c6ad7cbc8237830e77376634b373162", False),
    ],
)
def test_a_hash_has_its_own_parameters_as_the_rfc_writes_them(stored: str, right: bool) -> None:
    assert is_right(b"password", stored) == right


@pytest.mark.usefixtures("cheap")
def test_setting_and_removing_a_password_touches_no_other_line(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"# ours\nkitchen-2:{hashed('two')}\n\nkitchen:{hashed('old')}\n")
    before = path.read_text().splitlines()
    write_password(path, "kitchen", "new")
    *others, changed = path.read_text().splitlines()
    assert others == before[:3]
    assert changed.startswith("kitchen:scrypt$")
    assert is_right(b"new", changed.partition(":")[2])
    assert [*read_passwords(path)] == ["kitchen-2", "kitchen"]
    write_password(path, "kitchen", None)
    assert path.read_text().splitlines() == before[:3]
    with pytest.raises(ConfigurationError, match="no user 'kitchen'"):
        write_password(path, "kitchen", None)
    assert [one.name for one in tmp_path.iterdir()] == ["users"]


@pytest.mark.parametrize("name", ["", "a:b", "a\nb", "a\rb"])
def test_a_user_name_that_no_line_can_hold_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match="at least one character, and no colon"):
        write_password(tmp_path / "users", name, "x")
    assert not (tmp_path / "users").exists()


def test_rules_are_read_as_mosquitto_reads_them(tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_text(
        "topic read public/#\n"
        "  # a remark\n"
        "topic   plain name with spaces\n"
        "\n"
        "user kitchen staff\n"
        "topic read  home/ a\n"
        "topic\twrite log\n"
        "topic readwrite both\n"
        "topic deny home/secret\n"
        "topic read\n"
        "pattern deny %u/x\n"
        "pattern %c/own\n"
        "user\tkitchen\n"
    )
    users, everybody = read_rules(path)
    staff = [
        Rule("read", "home/ a"), Rule("write", "log"), Rule("readwrite", "both"), Rule("", "home/secret"),
        Rule("readwrite", "read"),
    ]  # fmt: skip
    assert users == {
        "": [Rule("read", "public/#"), Rule("readwrite", "plain name with spaces")], "kitchen staff": staff,
        "kitchen": [],
    }  # fmt: skip
    assert everybody == [Rule("", "%u/x"), Rule("readwrite", "%c/own")]
    assert [rule.line for rule in (*users[""], *users["kitchen staff"], *everybody)] == [1, 3, 6, 7, 8, 9, 10, 11, 12]


@pytest.mark.parametrize("line", ["topic", "pattern", "user", "topics read a", "read a"])
def test_a_rule_that_is_not_understood_is_named_with_its_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "rules").write_text(f"# rules\n\ntopic read a\n{line}\n")
    with pytest.raises(ConfigurationError, match=r"rules, line 4: expected `user NAME`, `topic …` or `pattern …`"):
        read_rules(tmp_path / "rules")


def test_files_that_hold_no_text_or_are_not_there_say_so(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigurationError, match="binary: cannot be read: 'utf-8' codec"):
        read_rules(tmp_path / "binary")
    with pytest.raises(ConfigurationError, match="missing: cannot be read: No such file or directory"):
        read_passwords(tmp_path / "missing")


@pytest.mark.usefixtures("cheap")
@pytest.mark.parametrize(
    ("has_users", "options", "here", "away", "named", "words"),
    [
        (False, (False, False), "needed", "needed", "needed", "clients with a certificate"),
        (False, (True, False), "in", "in", "in", "clients without a user name"),
        (False, (False, True), "in", "others", "in",
         "clients of this machine only (--anonymous or --passwords lets others in)"),
        (False, (True, True), "in", "in", "in", "clients without a user name"),
        (True, (False, False), "needed", "needed", "asked", "users of {}"),
        (True, (True, False), "in", "in", "asked", "users of {} and clients without a user name"),
        (True, (False, True), "in", "others", "asked",
         "users of {} and clients of this machine only (--anonymous or --passwords lets others in)"),
    ],
)  # fmt: skip
def test_who_may_connect_is_what_the_gateway_says(
    tmp_path: Path, has_users: bool, options: tuple[bool, bool], here: str, away: str, named: str, words: str
) -> None:
    path = tmp_path / "users"
    write_password(path, "kitchen", "secret")
    access = FileAccess(path if has_users else None, anonymous=options[0], local_only=options[1])
    answers = {
        "in": Identity(),
        "asked": None,
        "others": Refusal(
            codes.NOT_AUTHORIZED, "clients of other machines need --anonymous or --passwords at the gateway"
        ),
        "needed": Refusal(codes.BAD_CREDENTIALS, "a user name and a password are needed"),
    }
    found = [access.authenticate(greeting(), HERE), access.authenticate(greeting(), AWAY)]
    found.append(access.authenticate(greeting("kitchen", b"secret"), HERE))
    assert found == [answers[here], answers[away], answers[named]]
    assert access.authenticate(greeting("other"), Remote("10.0.0.7:5", "device-7")) == Identity("device-7")
    assert access.describe() == "open to " + words.format(path)


@pytest.mark.usefixtures("cheap")
def test_a_password_is_compared_for_known_and_unknown_users_alike(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_password(tmp_path / "users", "kitchen", "secret")
    write_password(tmp_path / "users", "hall", "other")
    access = FileAccess(tmp_path / "users")
    compared: list[bytes] = []
    plain = files.is_right
    monkeypatch.setattr(files, "_NOBODY", f"scrypt$16$8$1${'00' * 16}${'00' * 32}")

    def compare(password: bytes, stored: str) -> bool:
        compared.append(password)
        return plain(password, stored)

    monkeypatch.setattr(files, "is_right", compare)
    tries = ("kitchen", b"secret"), ("hall", b"secret"), ("nobody", b"secret"), ("kitchen", None), (None, b"other")
    found = [access.check(greeting(*one), AWAY) for one in tries]
    assert found == [
        Identity("kitchen"),
        *(
            Refusal(codes.BAD_CREDENTIALS, f"wrong user name or password ({name!r})")
            for name in ("hall", "nobody", "kitchen", None)
        ),
    ]
    assert compared == [b"secret", b"secret", b"secret", b"", b"other"]
    assert [access.knows(Identity(name)) for name in ("kitchen", "other", "")] == [True, False, True]
    assert FileAccess().knows(Identity("other"))


def test_the_hash_of_nobody_costs_what_a_password_costs() -> None:
    assert files._NOBODY.split("$")[:4] == hashed("x").split("$")[:4]
    assert not is_right(b"", files._NOBODY)


def test_a_refusal_names_the_line_that_denies_or_the_file_that_does_not_allow(tmp_path: Path) -> None:
    path = tmp_path / "rules"
    path.write_text("user a\ntopic home/#\ntopic deny home/x\npattern deny log/#\npattern log/%u\n")
    access = FileAccess(rules=path)
    a, b = Identity("a"), Identity("b")
    found = [
        (access.authorize(who, "c", "read", name), access.refused_by(who, "c", "read", name))
        for who, name in ((a, "home/y"), (a, "$share/g/home/x"), (b, "home/x"), (b, "log/b"))
    ]
    nothing = f"no rule in {path} allows it"
    assert found == [
        (True, nothing),
        (False, f"{path}, line 3: deny home/x"),
        (False, nothing),
        (False, f"{path}, line 4: deny log/#"),
    ]
    assert FileAccess().authorize(b, "c", "write", "anything")


def test_decisions_are_remembered_until_a_file_changes_and_never_too_many(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rules"
    path.write_text("user a\ntopic read x\n")
    access = FileAccess(rules=path)
    decided: list[tuple[str, ...]] = []
    plain = access._decide

    def decide(*asked: str) -> bool:
        decided.append(asked)
        return plain(*asked)

    monkeypatch.setattr(access, "_decide", decide)
    monkeypatch.setattr(files, "REMEMBERED", 4)
    asked = [("a", "c", "read", "x"), ("b", "c", "read", "x"), ("a", "c", "write", "x"), ("a", "d", "read", "x")]

    def ask(*questions: tuple[str, str, str, str]) -> list[bool]:
        return [access.authorize(Identity(user), *rest) for user, *rest in questions]

    assert ask(*asked, *asked) == [True, False, False, True] * 2
    assert [(user, id, *rest) for user, id, *rest in decided] == asked, "each was decided once"
    assert ask(("a", "c", "read", "y"), asked[0]) == [False, True]
    assert len(decided) == 6, "the fifth made room for itself, so the first is decided again"
    path.write_text("user a\ntopic write x\n")
    assert ask(asked[0]) == [True], "nobody has looked yet"
    assert access.changed()
    assert ask(asked[0], asked[2]) == [False, True]
    assert not access.changed()


def test_each_way_in_which_a_file_changes_is_noticed_and_a_fault_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "rules"

    def write(text: str, at: int) -> None:
        path.write_text(text)
        os.utime(path, ns=(at, at))

    write("topic a\n", 1_000)
    access = FileAccess(rules=path, anonymous=True)
    write("topic b\n", 2_000)
    assert access.changed(), "another time"
    write("topic cc\n", 2_000)
    assert access.changed(), "another size"
    (tmp_path / "next").write_text("topic dd\n")
    os.utime(tmp_path / "next", ns=(2_000, 2_000))
    os.replace(tmp_path / "next", path)
    assert access.changed(), "another file"
    assert access.authorize(Identity(), "c", "read", "dd")
    path.unlink()
    assert [access.changed(), access.changed()] == [False, False]
    assert access.authorize(Identity(), "c", "read", "dd")
    assert caplog.messages == [f"{path}: cannot be read: No such file or directory; what was read before stays valid"]
    write("topic e\n", 3_000)
    assert access.changed()
    assert access.authorize(Identity(), "c", "read", "e")


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("is_stored", [False, True])
def test_who_subscribes_to_more_than_is_allowed_gets_all_but_what_is_denied(
    tmp_path: Path, qos: int, is_stored: bool
) -> None:
    path = tmp_path / "rules"
    path.write_text("topic readwrite home/#\ntopic deny home/secret/#\npattern deny home/%c/own\n")
    bench = Bench(FileAccess(rules=path, anonymous=True), directory=SimulatedDisk(Random(1)) if is_stored else None)

    def told(device: mqtt.Device, *topics: str, retain: bool = False) -> list[bytes]:
        """What a client gets of what endpoints publish on some topics."""
        for topic in topics:
            bench.broker.deliver(bench.now, Publish(topic, (topic.encode(),), 2, retain))
        if is_stored:
            bench.sync()
        return [mqtt.publication(one, 5).payload for one in device.read() if one.kind == 3]

    topics = "home/secret/b", "home/s/own", "home/a", "home/p/own", "home/secret", "home/b"
    allowed = [b"home/a", b"home/p/own", b"home/b"]
    device = bench.connect("s", 5, clean=False, raw=b"\x11\0\0\x0e\x10")
    told(device, *topics, retain=True)
    device.send(mqtt.subscribe(1, ("home/#", qos), version=5))
    assert sorted(told(device)) == sorted(allowed)
    assert told(device, *topics) == allowed
    device.leave()
    told(device, *topics)
    back = bench.link(5)
    back.send(mqtt.connect("s", 5, clean=False, raw=b"\x11\0\0\x0e\x10"))
    assert [one for one in told(back) if one not in allowed] == []
    path.write_text("topic readwrite home/#\ntopic deny home/a\n")
    assert bench.broker.access.changed()
    bench.broker.recheck(bench.now)
    assert told(back, *topics) == [one.encode() for one in topics if one != "home/a"]
    assert told(bench.connect("other", 5), *topics) == []
