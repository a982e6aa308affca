"""`glue mqtt`: a door for MQTT clients, which then talk with the endpoints of the network and with each other.

    glue mqtt --interface en0 --anonymous                      MQTT on port 1883 for all clients
    glue mqtt --passwords users --rules rules --tls-cert door.pem --tls-key door.key --ws-port 9001
    glue mqtt passwd users kitchen                             set a password in the file `users`
    glue mqtt --shared doors --anonymous                       be a cluster with the other doors that say so
    glue mqtt --shared doors --witness --endpoint-name third   no door, but the third vote that two doors need
    glue mqtt clients                                          show the clients of all doors

Without --anonymous and --passwords only clients of this machine may connect.
"""

from __future__ import annotations

import argparse
import getpass
import logging
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from operator import itemgetter
from pathlib import Path
from typing import Any

import glue
import glue.aio
from glue.cmd import common
from glue.cmd.doors import serve
from glue.cmd.output import CommandOutput, printable
from glue.cmd.session import chosen, open_endpoint
from glue.cmd.tls import add_tls_options, server_context
from glue.errors import ConfigurationError
from glue.gateway.descriptors import allow_files
from glue.gateway.mqtt.files import FileAccess, write_password
from glue.gateway.mqtt.gateway import MQTT_PORT, TLS_PORT, Gateway
from glue.gateway.mqtt.limits import Limits
from glue.gateway.names import MQTT_DOORS

FIELDS = {
    "clients": ("client", "user", "address", "version", "connected", "received", "sent", "dropped"),
    "sessions": ("client", "connected", "subscriptions", "waiting", "under_way", "dropped", "expires"),
}
"""What a door tells of each of its clients and sessions."""
REPLICAS = 2
"""Doors of a cluster that have what is acknowledged."""
ELECTION_TIMEOUT = 0.7
"""Seconds without a leader of the cluster before an election: clients of a dead door are to go on within 3 s."""
DOOR_TIMEOUT = 3.0
"""Seconds for the doors of the network to be found and to answer."""


def parser() -> common.Parser:
    """Return the parser of this command."""
    made = common.common_parser("mqtt", "A door for MQTT clients.", epilog=__doc__.split("\n", 2)[2])
    made.add_argument(
        "task", nargs="*", metavar="TASK",
        help="instead of serving: `passwd FILE USER` sets a password; `clients` and `sessions` show those of all doors",
    )  # fmt: skip
    made.add_argument("--delete", action="store_true", help="with passwd: remove the user")
    group = made.add_argument_group("listening")
    group.add_argument("--host", metavar="ADDRESS", help="listen on this address only (default: on all)")
    group.add_argument(
        "--port", type=common.port_number, default=MQTT_PORT, help="for MQTT over TCP (default: %(default)s)"
    )
    group.add_argument("--ws-port", type=common.port_number, metavar="PORT", help="for MQTT over websockets")
    group.add_argument(
        "--tls-port", type=common.port_number, metavar="PORT",
        help=f"for MQTT over TLS, with a certificate (default: {TLS_PORT})",
    )  # fmt: skip
    add_tls_options(group)
    made.add_argument(
        "--data-dir", type=Path, metavar="DIR", help="keep sessions, messages for them and retained messages in DIR"
    )
    group = made.add_argument_group("several doors")
    group.add_argument(
        "--shared", metavar="NAME",
        help="be a cluster with the other doors that give this name of a model: when one dies, others go on",
    )  # fmt: skip
    group.add_argument(
        "--replicas", type=common.count, metavar="N",
        help=f"with --shared: acknowledge what N of the first 2N-1 doors have (default: {REPLICAS})",
    )  # fmt: skip
    group.add_argument(
        "--witness", action="store_true",
        help="with --shared: serve no clients, but vote, so that two doors go on when one of them dies",
    )  # fmt: skip
    group = made.add_argument_group("clients")
    group.add_argument("--anonymous", action="store_true", help="let clients in that give no user name")
    group.add_argument("--passwords", type=Path, metavar="FILE", help="users and their hashed passwords")
    group.add_argument(
        "--rules", type=Path, metavar="FILE", help="who may read and write which topics, as in mosquitto"
    )
    group.add_argument("--max-clients", type=common.count, default=Limits().clients, help="(default: %(default)s)")
    group.add_argument(
        "--max-queued", type=common.count, default=Limits().queue_messages, metavar="N",
        help="messages that wait for a client (default: %(default)s)",
    )  # fmt: skip
    return made


def run(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Serve until the command ends; or set a password, or show what the doors of the network tell."""
    words = arguments.task
    if words in (["clients"], ["sessions"]):
        return show(arguments, output, words[0])
    if len(words) == 3 and words[0] == "passwd":
        return set_password(Path(words[1]), words[2], arguments.delete)
    if words:
        raise ConfigurationError(f"{' '.join(words)!r}: expected nothing, `clients`, `sessions` or `passwd FILE USER`")
    _check(arguments)
    if arguments.witness:
        return witness(arguments, output)
    access = FileAccess(
        arguments.passwords,
        arguments.rules,
        arguments.anonymous,
        local_only=arguments.passwords is None and not arguments.anonymous,
    )
    tls = server_context(arguments)
    tls_port = TLS_PORT if arguments.tls_port is None else arguments.tls_port
    limits = Limits(clients=arguments.max_clients, queue_messages=arguments.max_queued)
    allow_files(limits.clients)
    settings = common.settings_from(arguments)
    logging.getLogger("glue.mqtt").setLevel(logging.INFO)

    @asynccontextmanager
    async def opened() -> AsyncIterator[Gateway]:
        async with glue.aio.Endpoint(**settings) as endpoint:
            data_dir, shared = arguments.data_dir, None
            if arguments.shared is not None:
                shared = endpoint.model(arguments.shared, **voting(arguments, data_dir))
                data_dir = None
            async with Gateway(
                endpoint, host=arguments.host, port=arguments.port, tls=tls,
                tls_port=tls_port if tls else None, websocket_port=arguments.ws_port,
                access=access, limits=limits, data_dir=data_dir, shared=shared,
            ) as gateway:  # fmt: skip
                yield gateway

    def told(gateway: Gateway) -> None:
        report(output, gateway, access)

    return serve(arguments, output, opened, told, "choose other ports with --port")


def _check(arguments: argparse.Namespace) -> None:
    """Refuse options that do nothing without another one."""
    for option in ("witness", "replicas"):
        if getattr(arguments, option) and arguments.shared is None:
            raise ConfigurationError(f"--{option}: give the name of the cluster with --shared")
    if arguments.tls_port is not None and arguments.tls_cert is None:
        raise ConfigurationError("--tls-port needs --tls-cert and --tls-key")


def voting(arguments: argparse.Namespace, data_dir: Path | None) -> dict[str, Any]:
    """How the model of a cluster is opened: so many vote that a majority has as many replicas as are asked for."""
    voters = 2 * (arguments.replicas or REPLICAS) - 1
    return {"voters": voters, "data_dir": data_dir, "election_timeout": ELECTION_TIMEOUT}


def witness(arguments: argparse.Namespace, output: CommandOutput) -> int:
    """Vote in the cluster until the command ends; it holds all sessions and waiting messages, as each voter does."""
    with open_endpoint(arguments, output) as endpoint:
        endpoint.model(arguments.shared, **voting(arguments, arguments.data_dir))
        with common.until_ended(arguments.duration):
            common.wait_for_end()
    return common.SUCCESS


def report(output: CommandOutput, gateway: Gateway, access: FileAccess) -> None:
    """Report the ports that are served, and which clients may connect."""
    endpoint = gateway.endpoint
    served = [f"mqtt on port {gateway.port}"]
    if gateway.tls_port:
        served.append(f"mqtt over TLS on port {gateway.tls_port}")
    if gateway.websocket_port:
        served.append(f"websockets on port {gateway.websocket_port}")
    _, reason = chosen(endpoint.settings)
    text = f"{endpoint.name} on {reason}; {', '.join(served)}; {access.describe()}; Ctrl-C ends"
    output.event(
        "started", output.style("dim", text), id=endpoint.id, port=gateway.port, tls_port=gateway.tls_port,
        websocket_port=gateway.websocket_port,
    )  # fmt: skip


def show(arguments: argparse.Namespace, output: CommandOutput, what: str) -> int:
    """Show the clients or the sessions of all doors of the network."""
    with open_endpoint(arguments, output, quiet=True) as endpoint, common.until_ended(arguments.duration):
        try:
            with output.progress("asking the doors"):
                common.wait_for(partial(endpoint.wait_for_responders, MQTT_DOORS, 1), DOOR_TIMEOUT)
                replies = list(endpoint.request_all(MQTT_DOORS, what, DOOR_TIMEOUT))
        except glue.NoResponderError:
            print("glue mqtt: no door is known on this network", file=sys.stderr)
            return common.FAILURE
        answers = [(reply.responder, reply.payload) for reply in replies if isinstance(reply.payload, list)]
        silent = sorted(reply.responder for reply in replies if not isinstance(reply.payload, list))
        if silent:
            print(f"glue mqtt: no answer of {', '.join(map(printable, silent))}", file=sys.stderr)
        if not any(told for _, told in answers):
            print(f"glue mqtt: no {what} at {len(answers)} door{'s' * (len(answers) != 1)}", file=sys.stderr)
        for door, told in sorted(answers, key=itemgetter(0)):
            for one in filter(lambda one: isinstance(one, dict), told):
                words = [
                    f"{name} {value}" for name, value in one.items() if name != "client" and value not in (None, "")
                ]
                text = (
                    f"{printable(str(one.get('client'))):24} at {printable(door)}: {', '.join(map(printable, words))}"
                )
                fields = {name: one.get(name) for name in FIELDS[what]}
                output.event(what[:-1], text, door=door, **fields)
    return common.FAILURE if silent else common.SUCCESS


def set_password(path: Path, user: str, delete: bool) -> int:
    """Set or remove a password: `glue mqtt passwd`."""
    try:
        write_password(path, user, None if delete else _ask_password(user))
    except OSError as error:
        print(f"glue mqtt passwd: {path}: {error.strerror}", file=sys.stderr)
        return common.FAILURE
    except (KeyboardInterrupt, EOFError):
        return common.FAILURE
    return common.SUCCESS


def _ask_password(user: str) -> str:
    """Ask twice in a terminal; else the first line of the standard input. An empty password is refused."""
    if not sys.stdin.isatty():
        password = sys.stdin.readline().rstrip("\r\n")
    else:
        password = getpass.getpass(f"password for {user}: ")
        if getpass.getpass("once more: ") != password:
            raise ConfigurationError("the two passwords differ; nothing was changed")
    if not password:
        raise ConfigurationError("an empty password lets everybody in; nothing was changed")
    return password


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code."""
    return common.execute(parser(), run, argv)


if __name__ == "__main__":
    sys.exit(main())
