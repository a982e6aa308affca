"""`glue http`: a door for HTTP: publish with curl, stream to browsers, webhooks, and a page that shows the network.

    glue http --interface en0                                  for programs and browsers of this machine, port 8080
    glue http --data-dir door --anonymous                      for everybody, with webhooks that survive a restart
    glue http --tokens tokens --tls-cert door.pem --tls-key door.key
    glue http token new kitchen --tokens tokens --publish 'home/#' --subscribe 'home/#'
    glue http token delete kitchen --tokens tokens

Without --anonymous and --tokens only clients of this machine may do anything.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import glue.aio
from glue.cmd import common
from glue.cmd.doors import serve
from glue.cmd.output import CommandOutput
from glue.cmd.session import chosen
from glue.cmd.tls import add_tls_options, server_context
from glue.errors import ConfigurationError
from glue.gateway.descriptors import allow_files
from glue.gateway.http.gateway import HTTP_PORT, Gateway
from glue.gateway.http.guard import LAN
from glue.gateway.http.limits import Limits
from glue.gateway.http.tokens import EVERYTHING, Access, add_token, remove_token

ELECTION_TIMEOUT = 0.5
"""Seconds of silence after which doors that share subscriptions choose another leader for their model."""


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("http", "A door for HTTP.", epilog=__doc__.split("\n", 2)[2])
    made.add_argument(
        "task", nargs="*", metavar="TASK",
        help="instead of serving: `token new NAME` makes a token and prints it once; `token delete NAME` removes it",
    )  # fmt: skip
    group = made.add_argument_group("listening")
    group.add_argument("--host", metavar="ADDRESS", help="listen on this address only (default: on all)")
    group.add_argument("--port", type=common.port_number, default=HTTP_PORT, help="(default: %(default)s)")
    add_tls_options(group)
    group.add_argument(
        "--cors", action="append", default=[], metavar="ORIGIN", help="let pages of this origin call the door"
    )
    group = made.add_argument_group("clients")
    group.add_argument("--anonymous", action="store_true", help="let everybody do everything")
    group.add_argument("--tokens", type=Path, metavar="FILE", help="tokens, and what each may do")
    group.add_argument(
        "--publish", action="append", default=[], metavar="PATTERN", help="with token new: where it may publish"
    )
    group.add_argument(
        "--subscribe", action="append", default=[], metavar="PATTERN", help="with token new: what it may read"
    )
    group.add_argument("--admin", action="store_true", help="with token new: it may do everything")
    group.add_argument("--certificate", action="store_true", help="with token new: rights of a client certificate")
    group = made.add_argument_group("storing and delivering")
    group.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="subscriptions and their messages are here, and survive a restart"
    )
    group.add_argument(
        "--keep", action="append", default=[], metavar="PATTERN", help="keep these topics for history, too"
    )
    group.add_argument("--age", default="7d", help="how long messages are kept (default: %(default)s)")
    group.add_argument("--size", default="1GB", help="how much of them (default: %(default)s)")
    group.add_argument(
        "--deliver-to", action="append", default=[], metavar="NETWORK",
        help=f"webhooks may be in this network, such as 127.0.0.0/8 (default: {', '.join(LAN)})",
    )  # fmt: skip
    group.add_argument(
        "--model", action="append", default=[], metavar="NAME", help="let clients read and write keys of this model"
    )
    group.add_argument(
        "--shared", metavar="NAME", help="share subscriptions with the other doors that give this name of a model"
    )
    group.add_argument("--voters", type=common.count, default=1, help="voters of a shared model (default: %(default)s)")
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Serve until the command ends; or make or remove a token."""
    words = arguments.task
    if words[:1] == ["token"]:
        return change_tokens(arguments, output)
    if words:
        raise ConfigurationError(f"{' '.join(words)!r}: expected nothing, `token new NAME` or `token delete NAME`")
    everything, is_closed = EVERYTHING, arguments.tokens is not None
    access = Access(
        arguments.tokens, anonymous=everything if arguments.anonymous else None, local=None if is_closed else everything
    )
    tls = server_context(arguments)
    settings = common.settings_from(arguments)
    allow_files(Limits().connections + Limits().attempts)
    logging.getLogger("glue.http").setLevel(logging.INFO)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Gateway]:
        async with glue.aio.Endpoint(**settings) as endpoint:
            models = {name: endpoint.model(name, observer=True) for name in arguments.model}
            shared = None
            if arguments.shared is not None:
                shared_dir = None if arguments.data_dir is None else arguments.data_dir / "model"
                shared = endpoint.model(
                    arguments.shared, voters=arguments.voters, data_dir=shared_dir, election_timeout=ELECTION_TIMEOUT
                )
                await shared.wait_until_ready(10.0)
            async with Gateway(
                endpoint, host=arguments.host, port=arguments.port, tls=tls, access=access,
                data_dir=arguments.data_dir, keep=arguments.keep, age=arguments.age, size=arguments.size,
                deliver_to=arguments.deliver_to or LAN, models=models, shared=shared, cors=arguments.cors,
            ) as gateway:  # fmt: skip
                yield gateway

    def told(gateway: Gateway) -> None:
        report(output, gateway, tls is not None)

    return serve(arguments, output, opened, told, "choose another port with --port")


def report(output: CommandOutput, gateway: Gateway, is_secure: bool) -> None:
    """Print the address and the access of the door."""
    endpoint = gateway.endpoint
    scheme = "https" if is_secure else "http"
    where = f"{scheme}://localhost:{gateway.port}/"
    _, reason = chosen(endpoint.settings)
    text = f"{endpoint.name} on {reason}; {where}; {gateway.access.describe()}; Ctrl-C ends"
    output.event("started", output.style("dim", text), id=endpoint.id, port=gateway.port, url=where)


def change_tokens(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Make or remove a token: `glue http token`."""
    words, path = arguments.task[1:], arguments.tokens
    if path is None or len(words) != 2 or words[0] not in ("new", "delete"):
        raise ConfigurationError("expected: glue http token new NAME --tokens FILE, or token delete NAME --tokens FILE")
    try:
        if words[0] == "delete":
            remove_token(path, words[1])
            return common.SUCCESS
        token = add_token(
            path, words[1], arguments.publish, arguments.subscribe, admin=arguments.admin,
            for_certificate=arguments.certificate,
        )  # fmt: skip
    except OSError as error:
        print(f"glue http token: {path}: {error.strerror}", file=sys.stderr)
        return common.FAILURE
    if token:
        output.event("token", token, name=words[1], token=token)
    return common.SUCCESS


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
