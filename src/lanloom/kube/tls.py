"""TLS towards the API server, as its configuration asks, and in words why a connection was not made."""

import os
import socket
import ssl
from collections.abc import Iterator
from contextlib import contextmanager

from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import ConfigError


def client_context(config: ClusterConfig) -> ssl.SSLContext:
    """Return the context for connections. Raises ConfigError for certificates that can't be used."""
    try:
        context = ssl.create_default_context(cadata=config.ca.decode("ascii") if config.ca else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"certificate-authority of {config.server} is not a PEM certificate: {error}"
        ) from None
    if config.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    if config.client_certificate:
        _load_client_certificate(context, config)
    return context


def _load_client_certificate(context: ssl.SSLContext, config: ClusterConfig) -> None:
    try:
        with memory_file(config.client_certificate + b"\n" + config.client_key) as path:
            context.load_cert_chain(path)
    except ssl.SSLError as error:
        raise ConfigError(
            f"client-certificate or client-key of {config.server} can't be used: {error}"
        ) from None


def why_not_connected(error: OSError, place: str) -> str:
    """Return why there is no connection to `place` (host:port), for people; empty where the error does not tell."""
    match error:
        case ssl.SSLCertVerificationError():
            return f"the server's certificate is not trusted: {error.verify_message}"
        case socket.gaierror(strerror=str(why)):
            return f"cannot connect to {place}: {why.lower()}"
        case OSError(errno=int(number)):
            return f"cannot connect to {place}: {os.strerror(number).lower()}"
    return ""


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """A path under which this process can read `content` while the block lasts. Nothing reaches a disk.

    For libraries that take secrets by path only (OpenSSL under Python's `ssl`).
    """
    descriptor = os.memfd_create("lanloom")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
