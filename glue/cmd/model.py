"""`glue model`: share state with other terminals, kept by a majority of them. Run it in three, and kill any one.

    glue model --voters 3 --endpoint-name A            take part, show what happens, and do what is typed
    glue model set valve/1 '{"open":true}'             do one thing and end, without a vote
    glue model watch 'valve/#' --json                  follow the changes

A typed line, or the rest of the command line, is one of

    get KEY                 items [PATTERN]            watch PATTERN
    set KEY VALUE           update KEY DELTA           delete KEY
    compare KEY EXPECTED VALUE                         set KEY if EXPECTED is its value
    lock NAME [LEASE]       unlock NAME                status
    add KEY WHAT            discard KEY ELEMENT        of mergeable counters and sets (--mergeable)
    conflicts [PATTERN]                                mergeable keys with concurrent writes
    transfer ENDPOINT       remove ENDPOINT            typed at the leader: hand over; take a voter out for good
    help [COMMAND]          quit                       typed: list the commands; end

A JSON value is taken as JSON, any other value as a string. A value that begins with {, [ or " must be JSON. A delta
is a JSON Merge Patch (RFC 7396). A typed line needs no quotes around JSON: set valve/1 {"open": true}
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import glue
from glue.cmd import common
from glue.cmd.endpoint import next_line, parsed, shown
from glue.cmd.output import CommandOutput, printable
from glue.cmd.session import open_endpoint
from glue.cmd.words import BEGINNINGS, check_name, check_words, typed_words
from glue.errors import ConfigurationError

LOOK_INTERVAL = 0.1
"""Seconds between looks at the status: an election takes ten of them."""

COMMIT_INTERVAL = 1.0
"""Seconds between two status lines with only a higher commit index."""

LEASE = 10.0

RELEASE_TIMEOUT = 1.0
"""Seconds for a majority to take back all locks when the command ends; without it they stay until their leases end."""


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("model", "State that terminals share.", epilog=(__doc__ or "").split("\n", 2)[2])
    made.add_argument("command", nargs="*", help="do this and end; without, take part until Ctrl-C")
    group = made.add_argument_group("model")
    group.add_argument("--model", default="model", metavar="NAME", help="which one (default: %(default)s)")
    group.add_argument(
        "--voters",
        type=common.count,
        metavar="NUMBER",
        help="how many vote (default: 3, or with --observer as many as do)",
    )
    group.add_argument("--members", metavar="NAME,NAME,...", help="who votes, instead of how many")
    group.add_argument("--observer", action="store_true", help="follow without a vote")
    group.add_argument(
        "--mergeable", type=prefixes, metavar="PREFIX=KIND,...",
        help="keys that need no majority, such as stats/=counter,tags/=set; all terminals say the same",
    )  # fmt: skip
    group.add_argument("--data-dir", metavar="DIRECTORY", help="keep the state on disk (default: in memory)")
    group.add_argument(
        "--election-timeout", type=common.positive_number, default=1.0, metavar="SECONDS",
        help="how long voters do without a leader (default: %(default)g)",
    )  # fmt: skip
    group.add_argument(
        "--timeout", type=common.positive_number, default=10.0, metavar="SECONDS",
        help="how long to wait for an answer (default: %(default)g)",
    )  # fmt: skip
    return made


def prefixes(text: str) -> dict[str, str]:
    """Parse the value of --mergeable."""
    pairs = [part.partition("=") for part in text.split(",")]
    if not all(prefix and kind for prefix, _, kind in pairs):
        raise argparse.ArgumentTypeError(f"{text!r}: expected PREFIX=KIND,..., such as stats/=counter")
    return {prefix: kind for prefix, _, kind in pairs}


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Run the command of the command line, or take part until the command ends."""
    one_shot = bool(arguments.command)
    if one_shot:
        check_words(arguments.command, USAGES)
        if arguments.command[0] == "help":
            tell_usage(output, *arguments.command[1:])
            return common.SUCCESS
        if arguments.command[0] in TYPED:
            raise ConfigurationError(f"{arguments.command[0]} is to be typed in a terminal that takes part")
    members = arguments.members.split(",") if arguments.members else None
    with open_endpoint(arguments, output, quiet=one_shot) as endpoint:
        model = endpoint.model(
            arguments.model,
            voters=arguments.voters or (None if members or one_shot or arguments.observer else 3),
            members=members,
            observer=arguments.observer or one_shot,
            mergeable=arguments.mergeable,
            data_dir=arguments.data_dir,
            election_timeout=arguments.election_timeout,
        )
        terminal = Terminal(model, output, arguments.timeout)
        is_done = not one_shot or arguments.command[0] == "watch"  # else ending it early is a failure
        with common.until_ended(arguments.duration):
            if not one_shot:
                terminal.live()
            elif not terminal.do_once(arguments.command, is_merging=bool(arguments.mergeable)):
                return common.FAILURE
            elif arguments.command[0] in ("watch", "lock"):
                terminal.tell_if_alone()
                common.wait_for_end()
            is_done = True
        is_done = terminal.release_all() or is_done  # a lock was the answer, whenever the signal came after it
    return common.SUCCESS if is_done else common.ended_early("model")


class Terminal:
    """A model in a terminal: carries out commands, and shows changes."""

    def __init__(self, model: glue.Model, output: CommandOutput, timeout: float) -> None:
        self._model = model
        self._output = output
        self._timeout = timeout
        self._locks: dict[str, glue.Lock] = {}

    # -------------------------------------------------------------------------------------------- display

    def live(self) -> None:
        """Show the status and every change, and carry out typed commands, until the command ends."""
        threading.Thread(target=self._look, name="status", daemon=True).start()
        with common.waiting():
            self._model.watch("#", self._show_change)
        while line := next_line():
            try:
                words = typed_words(line, USAGES)
                if words:
                    check_words(words, USAGES)
                    self.do(words)
            except glue.ConfigurationError as error:
                self._output.complaint("mistake", str(error), reason=str(error))
        common.wait_for_end()

    def tell_if_alone(self) -> None:
        """Report if no leader is in reach; the command then waits for one."""
        with common.waiting():
            is_ready = self._model.wait_until_ready(self._timeout)
        if not is_ready:
            self._output.complaint("waiting", "no leader in reach; waiting for one")

    def _look(self) -> None:
        """Report changes of the status; runs in a thread that ends with the process."""
        told: Any = None
        told_at = 0.0
        while True:
            try:
                status = self._model.status
            except glue.GlueError:
                return  # the endpoint was closed
            known = (status.role, status.term, status.leader, status.voters, status.failure)
            moved = told is not None and status.commit_index != told[1]
            if told is None or known != told[0] or (moved and time.monotonic() - told_at > COMMIT_INTERVAL):
                self.show_status(status)
                told, told_at = (known, status.commit_index), time.monotonic()
            time.sleep(LOOK_INTERVAL)

    def show_status(self, status: glue.ModelStatus) -> None:
        """Print a status."""
        voters = ", ".join(map(printable, status.voters)) or "not yet known"
        leader = printable(status.leader) if status.leader else "none"
        text = (
            f"{status.role} in term {status.term}, leader {leader}, commit index {status.commit_index}, "
            f"{status.keys} {'key' if status.keys == 1 else 'keys'}; voters: {voters}"
            f"{'; ' + status.failure if status.failure else ''}"
        )
        self._output.event(
            "status", self._output.style("cyan", text), role=status.role, term=status.term, leader=status.leader,
            commit_index=status.commit_index, voters=list(status.voters), keys=status.keys,
            age=None if status.age == float("inf") else round(status.age, 3), failure=status.failure,
        )  # fmt: skip

    def _show_change(self, change: glue.Change) -> None:
        key = printable(change.key)
        text = f"{key} deleted" if change.deleted else f"{key} = {shown(change.value)}"
        note = "conflict" if change.is_conflict else change.index or "merged"
        self._output.event(
            "change", f"{text}  ({note})", key=change.key, value=change.value, deleted=change.deleted,
            index=change.index, live=change.live, conflict=change.is_conflict,
        )  # fmt: skip

    # ------------------------------------------------------------------------------------------ commands

    def do(self, words: Sequence[str]) -> bool:
        """Carry out a command and report its outcome; returns whether it succeeded. `Ended` may rise meanwhile."""
        output = self._output
        try:
            with common.waiting():
                DOING[words[0]][0](self, *words[1:])
        except glue.UnknownOutcomeError as error:
            output.complaint("unknown", f"unknown: {error}", reason=str(error))
        except (glue.RefusedError, glue.ModelError) as error:
            output.complaint("refused", f"refused: {error}", reason=str(error))
        else:
            return True
        return False

    def do_once(self, words: Sequence[str], is_merging: bool) -> bool:
        """Carry out a command for an endpoint with a short life; returns whether it succeeded.

        With mergeable keys, it synchronizes with another replica before and after.
        """
        if not is_merging:
            return self.do(words)
        return self._met() and self.do(words) and self._met()

    def _met(self) -> bool:
        try:
            with common.waiting():
                self._model.synchronize(self._timeout)
        except glue.MinorityError as error:
            self._output.complaint("refused", f"refused: {error}", reason=str(error))
            return False
        return True

    def _committed(self, index: int) -> None:
        text = f"committed at {index}" if index else "written; the others merge it"
        self._output.event("committed", text, index=index)

    def get(self, key: str) -> None:
        """Show one key."""
        entry = self._model.entry(key, timeout=self._timeout)
        text = f"{printable(key)} has no value" if entry is None else shown(entry.value)
        value, revision = (None, 0) if entry is None else (entry.value, entry.revision)
        self._output.event("value", text, key=key, value=value, found=entry is not None, revision=revision)

    def items(self, pattern: str = "#") -> None:
        """Show all keys that match."""
        for key, value in self._model.items(pattern, timeout=self._timeout).items():
            self._output.event("value", f"{printable(key)} = {shown(value)}", key=key, value=value, found=True)

    def set(self, key: str, value: str) -> None:
        """Set a key."""
        self._committed(self._model.set(key, _value(value), timeout=self._timeout))

    def update(self, key: str, delta: str) -> None:
        """Patch a key."""
        self._committed(self._model.update(key, _value(delta), timeout=self._timeout))

    def delete(self, key: str) -> None:
        """Delete a key."""
        self._committed(self._model.delete(key, timeout=self._timeout))

    def add(self, key: str, what: str) -> None:
        """Add to a counter or a set."""
        value = parsed(what)
        self._committed(self._model.add(key, value if isinstance(value, int) else what, timeout=self._timeout))

    def discard(self, key: str, element: str) -> None:
        """Remove from a set."""
        self._committed(self._model.discard(key, element, timeout=self._timeout))

    def conflicts(self, pattern: str = "#") -> None:
        """Show values that were written at the same time."""
        for key, values in self._model.conflicts(pattern).items():
            text = f"{printable(key)} = {' or '.join(map(shown, values))}"
            self._output.event("conflict", text, key=key, values=list(values))

    def compare(self, key: str, expected: str, value: str) -> None:
        """Set a key if it has the expected value."""
        index = self._model.compare_and_set(key, _value(expected), _value(value), timeout=self._timeout)
        self._committed(index)

    def watch(self, pattern: str) -> None:
        """Show the changes of the keys that match."""
        self._model.watch(pattern, self._show_change)

    def lock(self, name: str, lease: str = str(LEASE)) -> None:
        """Take a lock."""
        held = self._locks[name] = self._model.lock(name, _seconds(lease), timeout=self._timeout)
        text = f"locked for {held.remaining:.1f} s, token {held.token}"
        self._output.event("locked", text, name=name, token=held.token, remaining=round(held.remaining, 3))

    def unlock(self, name: str) -> None:
        """Give a lock back."""
        if name not in self._locks:
            raise ConfigurationError(f"lock {name!r} was not taken in this terminal, which alone can give it back")
        self._locks.pop(name).release()
        self._output.event("unlocked", "unlocked", name=name)

    def release_all(self) -> bool:
        """Give the locks back that were not unlocked; returns whether there were any."""
        until = time.monotonic() + RELEASE_TIMEOUT
        for held in self._locks.values():
            left = until - time.monotonic()
            if held.remaining and left > 0:
                with suppress(glue.GlueError):
                    held.release(timeout=left)
        return bool(self._locks)

    def status(self) -> None:
        """Show the status, up to date if a majority is in reach."""
        if self._model.wait_until_ready(self._timeout):
            with suppress(glue.GlueError):
                self._model.entry("status", timeout=self._timeout)  # any read waits for the log
        self.show_status(self._model.status)

    def transfer(self, name: str) -> None:
        """Hand the leadership over."""
        self._model.transfer(name, timeout=self._timeout)
        self._output.event("transferred", f"{printable(name)} leads", name=name)

    def remove(self, name: str) -> None:
        """Remove a voter."""
        self._model.remove(name, timeout=self._timeout)
        self._output.event("removed", f"{printable(name)} votes no more", name=name)

    def help(self, name: str | None = None) -> None:
        """Show the commands."""
        tell_usage(self._output, *([] if name is None else [name]))

    def quit(self) -> None:
        """End the command."""
        common.request_end()


def _value(text: str) -> Any:
    """Return the JSON value of a text, or the text itself.

    Raises ConfigurationError for text that begins like JSON and is not: a delta without its last brace would replace
    the whole value by a string.
    """
    value = parsed(text)
    if value == text and text[:1] in BEGINNINGS:
        raise ConfigurationError(f"{printable(text)} begins like JSON, but is none; a string goes in quotes: '\"...\"'")
    return value


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigurationError(f"lease {text!r}: expected a number of seconds") from None


DOING: dict[str, tuple[Callable[..., None], str]] = {
    "get": (Terminal.get, "KEY"),
    "items": (Terminal.items, "[PATTERN]"),
    "set": (Terminal.set, "KEY VALUE"),
    "update": (Terminal.update, "KEY DELTA"),
    "delete": (Terminal.delete, "KEY"),
    "compare": (Terminal.compare, "KEY EXPECTED VALUE"),
    "add": (Terminal.add, "KEY WHAT"),
    "discard": (Terminal.discard, "KEY ELEMENT"),
    "conflicts": (Terminal.conflicts, "[PATTERN]"),
    "watch": (Terminal.watch, "PATTERN"),
    "lock": (Terminal.lock, "NAME [LEASE]"),
    "unlock": (Terminal.unlock, "NAME"),
    "status": (Terminal.status, ""),
    "transfer": (Terminal.transfer, "ENDPOINT"),
    "remove": (Terminal.remove, "ENDPOINT"),
    "help": (Terminal.help, "[COMMAND]"),
    "quit": (Terminal.quit, ""),
}
"""The commands and their arguments; those in brackets may be left out."""

USAGES = {name: usage for name, (_, usage) in DOING.items()}

TYPED = ("unlock", "transfer", "remove", "quit")
"""Commands of a terminal that stays: it has the lock, or leads."""


def tell_usage(output: CommandOutput, name: str | None = None) -> None:
    """Show all commands, or the use of one."""
    names = [name] if name is not None else list(DOING)
    check_name(names[0], USAGES)
    usages = {one: f"{one} {USAGES[one]}".strip() for one in names}
    width = max(map(len, usages.values()))
    for one, usage in usages.items():
        meaning = (DOING[one][0].__doc__ or "").split(".", 1)[0]
        output.event("usage", f"{usage:{width}}  {meaning}", command=one, usage=usage, meaning=meaning)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
