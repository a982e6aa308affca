"""The options of commands that listen with TLS, and the context made of them."""

from __future__ import annotations

import argparse
import ssl
from pathlib import Path

from glue.errors import ConfigurationError


def add_tls_options(group: argparse._ArgumentGroup) -> None:
    """Add the options to a group of a parser."""
    group.add_argument("--tls-cert", type=Path, metavar="FILE", help="certificate chain, PEM: serve with TLS")
    group.add_argument("--tls-key", type=Path, metavar="FILE", help="its private key, PEM")
    group.add_argument("--tls-ca", type=Path, metavar="FILE", help="clients must bring a certificate signed by this")


def server_context(arguments: argparse.Namespace) -> ssl.SSLContext | None:
    """Return the context; None without a certificate. Raises ConfigurationError."""
    if (arguments.tls_cert is None) != (arguments.tls_key is None):
        raise ConfigurationError("--tls-cert and --tls-key go together")
    if arguments.tls_cert is None:
        if arguments.tls_ca is not None:
            raise ConfigurationError("--tls-ca needs --tls-cert and --tls-key")
        return None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    for file in filter(None, (arguments.tls_cert, arguments.tls_key, arguments.tls_ca)):
        try:
            file.read_bytes()
        except OSError as error:  # `ssl` does not say which file
            raise ConfigurationError(f"the certificate cannot be used: {file}: {error.strerror}") from None
    try:
        context.load_cert_chain(arguments.tls_cert, arguments.tls_key)
        if arguments.tls_ca is not None:
            context.load_verify_locations(arguments.tls_ca)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"the certificate cannot be used: {arguments.tls_cert}: {error}") from None
    return context
