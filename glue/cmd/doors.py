"""What `glue mqtt` and `glue http` share: a door serves in a thread of its own until the command ends."""

from __future__ import annotations

import argparse
import errno
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, ExitStack
from typing import Protocol, TypeVar

import glue.aio
from glue.cmd import common
from glue.cmd.output import CommandOutput
from glue.cmd.session import watched
from glue.errors import GlueError, InterfaceError
from glue.gateway.thread import in_thread


class Served(Protocol):
    """A door at an endpoint."""

    endpoint: glue.aio.Endpoint


Door = TypeVar("Door", bound=Served)


def serve(
    arguments: argparse.Namespace,
    output: CommandOutput,
    opened: Callable[[], AbstractAsyncContextManager[Door]],
    report: Callable[[Door], None],
    remedy: str,
) -> int:
    """Open a door, report it, and serve until the command ends; `remedy` tells what to do where it cannot listen."""
    try:
        with ExitStack() as stack:
            with output.progress("opening the door"):
                door = stack.enter_context(in_thread(opened))
            stack.enter_context(watched(arguments, door.endpoint))
            report(door)
            with common.until_ended(arguments.duration):
                common.wait_for_end()
    except OSError as error:
        if isinstance(error, GlueError):
            raise
        remedy = "it is not an address of this machine" if error.errno == errno.EADDRNOTAVAIL else remedy
        raise InterfaceError(f"cannot listen: {error.strerror or error}; {remedy}") from None
    return common.SUCCESS
