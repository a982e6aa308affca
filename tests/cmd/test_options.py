"""How commands take their options, and how they complain."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from importlib import import_module

import pytest

import glue
from glue.cmd import main, traffic
from glue.cmd.common import settings_from, size
from glue.cmd.endpoint import parsed, shown
from glue.network import Interface

LAYER_COMMANDS = ("network", "discovery", "transport", "fragmentation", "topics", "endpoint")
COMMON_OPTIONS = (
    "--interface",
    "--multicast-address",
    "--listen-port",
    "--endpoint-name",
    "--network-id",
    "--discovery",
    "--duration",
    "--json",
)


@pytest.mark.parametrize("command", LAYER_COMMANDS)
def test_every_command_explains_its_options(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main([command, "--help"])
    assert ended.value.code == 0
    text = capsys.readouterr().out
    assert text.startswith(f"usage: glue {command}")
    assert all(option in text for option in COMMON_OPTIONS)


@pytest.mark.parametrize(
    "wrong",
    [
        ["--no-such-option"],
        ["--duration", "soon"],
        ["--duration", "-1"],
        ["--duration", "1e30"],
        ["--listen-port", "x"],
        ["--rate", "inf"],
        ["--count", "0"],
        ["--size", "3 apples"],
    ],
)
def test_a_wrong_option_is_one_line_and_exit_code_2(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main.main(["topics", *wrong])
    assert ended.value.code == 2
    complaint = capsys.readouterr().err
    assert complaint.startswith("glue topics: ")
    assert complaint.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "arguments", "complaint"),
    [
        ("topics", ["--interface", "nothing0"], "nothing0"),
        ("network", ["--interface", "nothing0"], "nothing0"),
        ("demo", ["--interface", "nothing0"], "nothing0"),
        ("topics", ["--network-id", "70000"], "--network-id 70000: expected a number"),
        ("topics", ["--topic", "a/#", "--send-messages"], "wildcard"),
        ("topics", ["--topic", ""], "topic"),
        ("topics", ["--interface", "nothing0"], "--interface 'nothing0'"),
        ("topics", ["--peer", "nowhere"], "--peer"),
        ("endpoint", [], "nothing to do"),
        ("endpoint", ["--subscribe", "a/#/b"], "a/#/b"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(
    command: str, arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.main([command, *arguments]) == 2
    said = capsys.readouterr().err
    assert complaint in said
    assert said.startswith(f"glue {command}: ")
    assert said.count("\n") == 1


@pytest.mark.parametrize("command", main.COMMANDS)
def test_help_needs_nothing_but_ascii(command: str) -> None:
    assert import_module(f"glue.cmd.{command}").parser().format_help().isascii()


def test_a_locale_without_a_character_ends_nothing() -> None:
    environment = {**os.environ, "PYTHONIOENCODING": "ascii"}
    for arguments in (["--help"], ["topics", "--topic", "caf\u00e9/#", "--send-messages"]):
        done = subprocess.run(
            [sys.executable, "-m", "glue.cmd.main", *arguments],
            capture_output=True, text=True, env=environment, check=False,
        )  # fmt: skip
        assert "Traceback" not in done.stderr
        assert done.stdout or r"caf\xe9" in done.stderr


def test_a_taken_port_is_told_without_error_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
        other.bind(("0.0.0.0", 0))
        port = str(other.getsockname()[1])
        assert main.main(["topics", "--interface", "lo", "--listen-port", port]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"glue topics: --listen-port {port}: the port is taken by another program")


def test_a_file_that_is_missing_is_told_without_error_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["play", "/nonexistent/trace.pcapng"]) == 1
    assert capsys.readouterr().err == "glue play: /nonexistent/trace.pcapng: No such file or directory\n"


def test_a_mistake_in_the_environment_names_the_variable(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GLUE_NETWORK_ID", "70000")
    assert main.main(["topics"]) == 2
    assert capsys.readouterr().err.startswith("glue topics: GLUE_NETWORK_ID=70000: expected")


def test_the_demo_refuses_an_interface_that_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("glue.network.choice.list_interfaces", lambda: [Interface("lo", 1, up=False, loopback=True)])
    assert main.main(["demo"]) == 2
    assert "interface='lo': it cannot be used: down" in capsys.readouterr().err


def test_an_unknown_interface_names_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    main.main(["discovery", "--interface", "nothing0"])
    assert " lo" in capsys.readouterr().err


def test_only_what_was_given_becomes_a_setting() -> None:
    parser = import_module("glue.cmd.discovery").parser()
    assert settings_from(parser.parse_args([])) == {}
    given = ["--endpoint-name", "attic", "--interface", "en0", "--network-id", "0", "--listen-port", "0"]
    given += ["--peer", "10.0.0.5", "--peer", "10.0.0.6:7000"]
    expected: dict[str, object] = {"name": "attic", "interface": "en0", "network_id": 0, "listen_port": 0}
    given += ["--discovery", "dns-sd"]
    expected["discovery"] = "dns-sd"
    expected["peers"] = ["10.0.0.5", "10.0.0.6:7000"]
    assert settings_from(parser.parse_args(given)) == expected


@pytest.mark.parametrize(
    ("text", "number"), [("0", 0), ("64", 64), ("100k", 100_000), ("100kB", 100_000), ("10MB", 10**7), ("1G", 10**9)]
)
def test_sizes_may_have_units(text: str, number: int) -> None:
    assert size(text) == number


@pytest.mark.parametrize("length", [0, 1, 7, 8, 9, 40, 100_000])
def test_a_filled_message_has_its_size_and_shows_damage(length: int) -> None:
    payload = traffic.numbered("attic", 3, length)
    assert isinstance(payload, bytes)
    assert len(payload) == length
    assert traffic.is_intact(payload)
    if length:
        assert not traffic.is_intact(payload[:-1] + b"?")


@pytest.mark.parametrize(
    "value", [1, 2.5, None, True, [1, "a"], {"a": {}}, "word", "two words", "21.5", "null", '"', ""]
)
def test_what_endpoint_shows_it_reads_again(value: object) -> None:
    assert parsed(shown(value)) == value


def test_what_is_not_json_is_published_as_a_string() -> None:
    assert [parsed(text) for text in ("NaN", "{broken", "[" * 100_000)] == ["NaN", "{broken", "[" * 100_000]


def test_glue_lists_its_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 0
    assert main.main(["--help"]) == 0
    text = capsys.readouterr().out
    assert all(command in text for command in LAYER_COMMANDS)


def test_glue_names_its_version(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--version", "-V"):
        assert main.main([option]) == 0
        assert capsys.readouterr().out == f"glue {glue.__version__}\n"


def test_an_unknown_command_is_a_mistake(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["topic"]) == 2
    assert "topics" in capsys.readouterr().err


def test_asking_for_help_imports_no_more_than_it_needs() -> None:
    program = "import sys, json, glue.cmd.main as m; m.main(['--help']); print(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "glue.cmd.topics" not in json.loads(done.stdout.splitlines()[-1])
