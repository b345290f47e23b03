"""How a client shows who it is: by a token, a password, a certificate, or what a program prints."""

import asyncio
import ssl
from collections.abc import Callable

from lanloom.kube.config import ClusterConfig, client_context
from lanloom.kube.credentials import identity_headers, read_token
from lanloom.kube.execplugin import Credential, ExecCredentials


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
