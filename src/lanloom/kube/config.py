"""The API server that a client connects to, who the client is there, and TLS as both ask.

What is sent of the user with each request is a token, a password, and the user to impersonate.
`lanloom.kube.loading` finds the configuration in force; `lanloom.kube.kubeconfig` reads its files.
"""

import base64
import os
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Literal
from urllib.parse import quote

from msgspec import Struct, structs

from lanloom.kube.errors import CANNOT_CONNECT, ConfigError

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

_HEADER_NAME = "!#$&'*+-.^_`|~"
"""Characters of a header's name besides letters and digits; the percent sign is for those that are escaped."""


class Impersonation(Struct, frozen=True):
    """The user that requests impersonate, instead of the one of the credentials. Without `user`, there is none."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: Mapping[str, tuple[str, ...]] = {}


Interactive = Literal["Never", "IfAvailable", "Always"]


class ExecPlugin(Struct, frozen=True, kw_only=True):
    """A program that prints credentials, by the protocol of client.authentication.k8s.io.

    `cluster` is what the program learns of the cluster; None for nothing. A `quiet` program has no terminal.
    """

    command: str
    api_version: str
    args: tuple[str, ...] = ()
    env: tuple[tuple[str, str], ...] = ()
    interactive: Interactive = "Never"
    install_hint: str = ""
    cluster: Mapping[str, object] | None = None
    quiet: bool = False


class ClusterConfig(Struct, frozen=True, kw_only=True):
    """An API server and credentials for it. Certificates and keys are PEM; `token_file` is read again as it changes.

    `proxy` is the URL of a proxy, empty for a direct connection. `timeout` is that of a request in seconds: 0 for
    none, None for the client's own. `notes` say what of a kubeconfig is ignored, and why.
    """

    server: str
    ca: bytes = b""
    insecure: bool = False
    server_name: str = ""
    proxy: str = ""
    compression: bool = True
    token: str = ""
    token_file: str = ""
    username: str = ""
    password: str = ""
    client_certificate: bytes = b""
    client_key: bytes = b""
    exec: ExecPlugin | None = None
    impersonate: Impersonation = Impersonation()
    namespace: str = "default"
    timeout: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def is_simple(self) -> bool:
        """Whether a connection needs neither a proxy nor a program that prints credentials."""
        return not self.proxy and self.exec is None

    def with_token(self, token: str) -> "ClusterConfig":
        """Return the same server for the user of a token, with nothing of the user that is configured."""
        return structs.replace(
            self,
            token=token,
            token_file="",
            username="",
            password="",
            client_certificate=b"",
            client_key=b"",
            exec=None,
            impersonate=Impersonation(),
        )

    def without_terminal(self) -> "ClusterConfig":
        """Return the same access, with a program for credentials that neither asks nor prints anything."""
        if self.exec is None:
            return self
        return structs.replace(self, exec=structs.replace(self.exec, interactive="Never", quiet=True))


def client_context(config: ClusterConfig, certificate: tuple[bytes, bytes] | None = None) -> ssl.SSLContext:
    """Return the context for connections. Raises ConfigError for certificates that can't be used.

    `certificate` is that of the client with its key, if it is not the configured one.
    """
    try:
        context = ssl.create_default_context(cadata=config.ca.decode("ascii") if config.ca else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"certificate-authority of {config.server} is not a PEM certificate: {error}"
        ) from None
    if config.insecure:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    chain, key = certificate or (config.client_certificate, config.client_key)
    if chain:
        _load_client_certificate(context, config, chain + b"\n" + key)
    return context


def _load_client_certificate(context: ssl.SSLContext, config: ClusterConfig, pem: bytes) -> None:
    try:
        with memory_file(pem) as path:
            context.load_cert_chain(path, password="")
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
            return f"{CANNOT_CONNECT}{place}: {why.lower()}"
        case OSError(errno=int(number)):
            return f"{CANNOT_CONNECT}{place}: {os.strerror(number).lower()}"
    return ""


@contextmanager
def memory_file(content: bytes) -> Iterator[str]:
    """Provide a path under which this process can read `content` while the block lasts. Nothing reaches a disk.

    For libraries that take secrets by path only (OpenSSL under Python's `ssl`).
    """
    descriptor = os.memfd_create("lanloom")
    try:
        with os.fdopen(os.dup(descriptor), "wb") as file:
            file.write(content)
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


def identity_headers(config: ClusterConfig, token: str) -> Iterator[tuple[str, str]]:
    """Yield the headers of the user, whose token of this moment is `token`; empty for one without a token."""
    if token:
        yield "Authorization", f"Bearer {token}"
    elif config.username:
        pair = f"{config.username}:{config.password}".encode()
        yield "Authorization", f"Basic {base64.b64encode(pair).decode()}"
    yield from _impersonation_headers(config.impersonate)


def _impersonation_headers(wanted: Impersonation) -> Iterator[tuple[str, str]]:
    if wanted.user:
        yield "Impersonate-User", wanted.user
    if wanted.uid:
        yield "Impersonate-Uid", wanted.uid
    for group in wanted.groups:
        yield "Impersonate-Group", group
    for key, texts in wanted.extra.items():
        for text in texts:
            yield f"Impersonate-Extra-{quote(key, safe=_HEADER_NAME)}", text


def read_token(config: ClusterConfig) -> str:
    """Return the token of this moment: that of the token file if there is one. Raises ConfigError."""
    if not config.token_file:
        return config.token
    try:
        return Path(config.token_file).read_text().strip()
    except OSError as error:
        raise ConfigError(f"can't read the token file {config.token_file}: {error.strerror}") from None
