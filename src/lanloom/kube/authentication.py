"""How a client shows who it is: by a token, a password, a certificate, or what a program prints.

How programs that print credentials are run, their input, and how long their output is valid: the protocol is
client.authentication.k8s.io, and client-go's authenticator is the model.
"""

import asyncio
import os
import ssl
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

import msgspec
from msgspec import Struct

from lanloom.api.reading import ObjectDecoder
from lanloom.kube.config import ClusterConfig, ExecPlugin, client_context, identity_headers, read_token
from lanloom.kube.errors import ConfigError


class Credential(Struct, frozen=True, rename="camel"):
    """What a program printed, the `status` of an ExecCredential. Certificate and key are PEM."""

    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None

    @property
    def certificate(self) -> tuple[bytes, bytes] | None:
        """The client's certificate and its key."""
        chain, key = self.client_certificate_data.encode(), self.client_key_data.encode()
        return (chain, key) if chain else None


class _ExecCredential(Struct, frozen=True, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: Credential | None = None


class ExecCredentials:
    """The credentials of a program, which is run again when they have expired or were refused.

    `now` is the time in seconds since 1970.
    """

    def __init__(self, plugin: ExecPlugin, now: Callable[[], float]) -> None:
        self._plugin = plugin
        self._now = now
        self._held: Credential | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> Credential:
        """Return credentials that have not expired; one call at a time runs the program. Raises ConfigError."""
        async with self._lock:
            if self._held is None or self._is_over(self._held):
                self._held = await run_plugin(self._plugin)
            return self._held

    def refused(self, credential: Credential) -> None:
        """Note that the server knows no such user: the next request runs the program again."""
        if self._held is credential:
            self._held = None

    def _is_over(self, credential: Credential) -> bool:
        until = credential.expiration_timestamp
        return until is not None and self._now() > until.timestamp()


async def run_plugin(plugin: ExecPlugin, environment: Mapping[str, str] = os.environ) -> Credential:
    """Run the program once. Raises ConfigError, which says what it did wrong."""
    interactive = _is_interactive(plugin)
    spec: dict[str, object] = {"interactive": interactive}
    if plugin.cluster is not None:
        spec["cluster"] = plugin.cluster
    info = {"kind": "ExecCredential", "apiVersion": plugin.api_version, "spec": spec}
    info_variable = {"KUBERNETES_EXEC_INFO": msgspec.json.encode(info).decode()}
    try:
        process = await asyncio.create_subprocess_exec(
            plugin.command,
            *plugin.args,
            env={**environment, **dict(plugin.env), **info_variable},
            stdin=None if interactive else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL if plugin.quiet else None,
        )
    except OSError as error:
        hint = f"\n{_printable(plugin.install_hint)}" if plugin.install_hint else ""
        raise ConfigError(f"exec: can't run {plugin.command}: {error.strerror}{hint}") from None
    try:
        output, _ = await process.communicate()
    except BaseException:
        if process.returncode is None:
            process.kill()
        raise
    if process.returncode:
        raise ConfigError(f"exec: {plugin.command} failed with exit code {process.returncode}")
    return read_credential(plugin, output)


def read_credential(plugin: ExecPlugin, output: bytes) -> Credential:
    """Read what a program printed. Raises ConfigError."""
    try:
        found = ObjectDecoder(_ExecCredential).decode(output)
    except msgspec.DecodeError as error:
        raise ConfigError(f"exec: {plugin.command} printed no ExecCredential: {error}") from None
    if (found.kind, found.api_version) != ("ExecCredential", plugin.api_version):
        raise ConfigError(
            f"exec: {plugin.command} printed {found.kind or 'an object without a kind'} of"
            f" {found.api_version or 'no version'}, not ExecCredential of {plugin.api_version}"
        )
    status = found.status
    if status is None or not (status.token or status.client_certificate_data or status.client_key_data):
        raise ConfigError(f"exec: {plugin.command} printed neither a token nor a certificate with its key")
    if bool(status.client_certificate_data) != bool(status.client_key_data):
        raise ConfigError(f"exec: {plugin.command} printed a certificate or a key, but not both")
    until = status.expiration_timestamp
    if until is not None and until.tzinfo is None:
        return msgspec.structs.replace(status, expiration_timestamp=until.replace(tzinfo=UTC))
    return status


def _is_interactive(plugin: ExecPlugin) -> bool:
    """Return whether the program gets the terminal. Raises ConfigError for one that needs it where there is none."""
    has_terminal = sys.stdin is not None and sys.stdin.isatty()
    if plugin.interactive == "Always" and not has_terminal:
        raise ConfigError(
            f"exec: {plugin.command} has interactiveMode Always, and standard input is not a terminal; run the command"
            " in a terminal"
        )
    return plugin.interactive != "Never" and has_terminal


def _printable(text: str) -> str:
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)


class Authentication:
    """The user of a configuration, at this moment.

    A token from a file is read again when it is older than `token_age` seconds. `now` is the time in seconds since
    1970, by which credentials of a program expire.
    """

    def __init__(self, config: ClusterConfig, *, token_age: float, now: Callable[[], float]) -> None:
        self._config = config
        self._token_age = token_age
        self._token = config.token
        self._token_due = 0.0
        self._plugin = ExecCredentials(config.exec, now) if config.exec is not None else None
        self._certificate: tuple[bytes, bytes] | None = None
        self._tls = client_context(config) if config.server.startswith("https:") else None

    @property
    def tls(self) -> ssl.SSLContext | None:
        """The TLS of new connections, None for a server without it. Its certificate is that of the last headers."""
        return self._tls

    async def headers(self) -> tuple[list[tuple[str, str]], Credential | None]:
        """Return the headers of a request, and what a program printed for them. Raises ConfigError."""
        token, credential = await self._bearer(), None
        if self._plugin is not None and not (
            token or self._config.username or self._config.client_certificate
        ):
            credential = await self._plugin.get()
            token = credential.token
            self._show(credential.certificate)
        return list(identity_headers(self._config, token)), credential

    def refused(self, credential: Credential | None) -> None:
        """Have the program run again before the next request, if this is still what it printed last."""
        if credential is not None and self._plugin is not None:
            self._plugin.refused(credential)

    def _show(self, certificate: tuple[bytes, bytes] | None) -> None:
        """Have new connections show this certificate. Those that show another one are not used again."""
        if certificate != self._certificate:
            self._certificate = certificate
            self._tls = client_context(self._config, certificate)

    async def _bearer(self) -> str:
        now = asyncio.get_running_loop().time()
        if self._config.token_file and now >= self._token_due:
            self._token = await asyncio.to_thread(read_token, self._config)
            self._token_due = now + self._token_age
        return self._token
