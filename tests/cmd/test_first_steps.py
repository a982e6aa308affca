"""What helps somebody who begins: the first words of `glue`, near misses, completion, logs."""

from __future__ import annotations

import json
import logging
import shutil
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from typing import Any, NoReturn

import pytest

from glue.cmd import common, completion, doctor, logs, main, simulate, topics
from tests.support.lan import Lan


def test_glue_alone_shows_what_to_try_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main([]) == 0
    assert "glue demo" in capsys.readouterr().out


def test_ctrl_c_while_a_command_is_loaded_ends_it_quietly(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(name: str) -> NoReturn:
        raise KeyboardInterrupt

    monkeypatch.setattr(main, "import_module", interrupted)
    assert main.main(["topics"]) == 0
    assert capsys.readouterr() == ("", "")


def test_python_runs_the_package_as_the_command() -> None:
    told = subprocess.run([sys.executable, "-m", "glue", "topcs"], capture_output=True, text=True, check=False)
    assert (told.returncode, told.stdout) == (2, "")
    assert "did you mean 'topics'?" in told.stderr


def test_every_command_stands_in_one_group_of_the_help() -> None:
    assert Counter(name for names in main.GROUPS.values() for name in names) == Counter(list(main.COMMANDS))


def test_a_near_miss_names_what_was_perhaps_meant(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["topcs"]) == 2
    assert "did you mean 'topics'?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        topics.parser().parse_args(["--interfac", "lo"])
    assert "did you mean --interface?" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        topics.parser().parse_args(["--seconds", "3"])
    assert "did you mean" not in capsys.readouterr().err


def test_bash_completes_commands_options_and_choices() -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("needs bash")

    def completed(*words: str) -> list[str]:
        line = f"COMP_WORDS=({' '.join(repr(word) for word in words)}); COMP_CWORD={len(words) - 1}; _glue"
        script = f'{completion.script("bash")}\n{line}\necho "${{COMPREPLY[@]}}"'
        return subprocess.run([bash, "-c", script], check=True, capture_output=True, text=True).stdout.split()

    assert completed("glue", "topi") == ["topics"]
    assert completed("glue", "topics", "--send-m") == ["--send-messages"]
    assert completed("glue", "endpoint", "--priority", "u") == ["urgent"]


@pytest.mark.parametrize("shell", completion.SHELLS)
def test_completion_knows_every_command_and_option(shell: str) -> None:
    script = completion.script(shell)
    for command in main.COMMANDS:
        for option in completion.options(command):
            assert option.name.lstrip("-") in script
            assert command in script


def test_logs_for_programs_are_one_json_object_a_line() -> None:
    record = logging.LogRecord("glue", logging.WARNING, "", 0, "%s is down", ("eth0",), None)
    found = json.loads(logs.JsonFormatter().format(record))
    assert (found["level"], found["logger"], found["message"]) == ("warning", "glue", "eth0 is down")


def test_what_is_lost_is_logged_once_with_its_cause_until_more_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    log = logs.LossLog()
    log.look({"serialization": {"malformed header": 3, "datagrams received": 9}})
    log.look({"serialization": {"malformed header": 3, "datagrams received": 99}})
    log.look({"serialization": {"malformed header": 5}})
    assert [record.getMessage() for record in caplog.records] == [
        "serialization: malformed header: 3 (3 in all)",
        "serialization: malformed header: 2 (5 in all)",
    ]


def test_the_level_of_logs_follows_the_option() -> None:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        root.handlers.clear()
        logs.begin("glue topics", Namespace(log_level="info", log_json=True))
        assert root.level == logging.INFO
        assert isinstance(root.handlers[0].formatter, logs.JsonFormatter)
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)
        logs.end()


def ended_soon(lan: Lan, words: list[str]) -> int:
    """The exit code of a command on this network that is ended after 0.05 s."""
    options = [word for name, value in lan.settings.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    return main.main([*words, *options, "--duration", "0.05"])


@pytest.mark.parametrize("words", [
    ["peers"], ["top"], ["request", "a", "b"], ["model", "get", "a"], ["receivers"],
])  # fmt: skip
def test_a_command_that_ends_before_its_answer_fails(
    words: list[str], lan: Lan, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ended_soon(lan, words) == 1
    assert capsys.readouterr().err == f"glue {words[0]}: ended before there was an answer\n"


@pytest.mark.parametrize(("command", "place"), [(doctor, "Observer"), (simulate, "results")])
def test_ctrl_c_before_a_verdict_is_no_success(
    command: Any, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def end(*_: object) -> None:
        raise common.Ended

    monkeypatch.setattr(command, place, lambda *_: Namespace(look=end) if command is doctor else end())
    assert command.main([]) == 1
    assert capsys.readouterr().err.endswith("ended before there was an answer\n")
