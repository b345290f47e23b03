"""The server as a client of HTTP: it calls admission webhooks, and asks pods.

Webhooks are called over HTTPS, at the address that their client configuration gives. Each call trusts one bundle of
CAs. Connections are reused. Webhooks of this very process are asked without one: most of a review's cost is its
encryption, twice in one process. Pods are asked over HTTP, at the addresses that their status gives.
"""

import base64
import binascii
import errno
import ssl
from collections.abc import Awaitable, Callable
from typing import Protocol

import aiohttp
import msgspec
from aiohttp.http_exceptions import ContentEncodingError

from lanloom.kube.config import why_not_connected
from lanloom.kube.errors import TransportError
from lanloom.text import authority
from lanloom_embedded.engine.webhooks import WebhookError
from lanloom_embedded.front.proxy import Answer
from lanloom_embedded.kinds import Raw

_DEFAULT_TIMEOUT = 10.0

SECONDS, MOST_BYTES = 10.0, 8 << 20
"""How long a pod may take to answer, and how much."""


class Poster(Protocol):
    """Posts a body to an HTTPS server and returns the answer's body. Raises TransportError."""

    async def post(
        self, url: str, body: bytes, *, ca_bundle: bytes, server_name: str | None = None, timeout: float
    ) -> bytes:
        """Return the answer's body; `ca_bundle` is PEM, empty for the system's CAs."""
        ...


Ask = Callable[[bytes], Awaitable[bytes]]
"""Returns a webhook's answer to a review. Raises TransportError."""


class HttpsWebhooks:
    """A `WebhookCaller` over HTTPS.

    `own` returns how to ask the webhook of a client configuration if it is one of this process, None for all others.
    """

    def __init__(self, poster: Poster) -> None:
        self._poster = poster
        self.own: Callable[[Raw], Ask | None] = lambda _config: None

    async def call(self, webhook: Raw, review: Raw) -> Raw:
        """Return the AdmissionReview that came back. Raises WebhookError."""
        config = webhook.get("clientConfig") or {}
        timeout = float(webhook.get("timeoutSeconds") or _DEFAULT_TIMEOUT)
        url, server_name = address_of(config)
        url += f"{'&' if '?' in url else '?'}timeout={timeout:g}s"
        try:
            body = msgspec.json.encode(review)
            if (ask := self.own(config)) is not None:
                answer = await ask(body)
            else:
                ca_bundle = base64.b64decode(config.get("caBundle") or "")
                answer = await self._poster.post(
                    url, body, ca_bundle=ca_bundle, server_name=server_name, timeout=timeout
                )
            return msgspec.json.decode(answer, type=dict)
        except (TransportError, msgspec.DecodeError, binascii.Error) as error:
            raise WebhookError(f'Post "{url}": {error}') from None


def address_of(config: Raw) -> tuple[str, str | None]:
    """Return the URL of a client configuration, and the name that the certificate must have if it is not the URL's.

    A service is called at the URL that was found for it, or else by its cluster DNS name, which resolves only where
    there is a cluster's DNS.
    """
    service = config.get("service") or {}
    host = f"{service.get('name')}.{service.get('namespace')}.svc" if service else None
    if config.get("url"):
        return str(config["url"]), host
    path = str(service.get("path") or "/")
    return f"https://{authority(host or '', service.get('port') or 443)}/{path.lstrip('/')}", host


class HttpsPoster:
    """Posts bodies to HTTPS servers that are trusted by a CA bundle of their own."""

    def __init__(self) -> None:
        self._session: aiohttp.ClientSession | None = None
        self._contexts: dict[bytes, ssl.SSLContext] = {}

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def post(
        self, url: str, body: bytes, *, ca_bundle: bytes, server_name: str | None = None, timeout: float
    ) -> bytes:
        """Return the answer's body. `ca_bundle` is PEM, empty for the system's CAs; `timeout` in seconds.

        Raises TransportError when there is no answer, or one that is not 200.
        """
        try:
            async with self._opened().post(
                url,
                data=body,
                headers={"Content-Type": "application/json", "Accept": "application/json"},
                ssl=self._context(ca_bundle),
                server_hostname=server_name,
                timeout=aiohttp.ClientTimeout(total=timeout),
                allow_redirects=False,  # a webhook must not send the API server's requests anywhere else
            ) as response:
                answer = await response.read()
                if response.status != 200:
                    text = answer[:300].decode(errors="replace").strip()
                    raise TransportError(f"the server answered {response.status}: {text}")
                return answer
        except TimeoutError:
            raise TransportError(f"no answer within {timeout:g} s") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise TransportError(reason(error)) from None

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session

    def _context(self, ca_bundle: bytes) -> ssl.SSLContext:
        context = self._contexts.get(ca_bundle)
        if context is None:
            if len(self._contexts) > 32:  # bundles of certificates that were renewed since
                self._contexts.clear()
            context = ssl.create_default_context(cadata=ca_bundle.decode("ascii") if ca_bundle else None)
            self._contexts[ca_bundle] = context
        return context


async def fetch(url: str) -> Answer:
    """Get a URL. A redirection is an answer as any other. Raises TransportError."""
    timeout = aiohttp.ClientTimeout(total=SECONDS)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, allow_redirects=False) as answer,
        ):
            body = bytearray()
            async for part in answer.content.iter_any():
                body += part
                if len(body) > MOST_BYTES:
                    raise TransportError(f"the answer has more than {MOST_BYTES >> 20} MiB")
            return Answer(answer.status, answer.content_type, bytes(body))
    except TimeoutError:
        raise TransportError(f"no answer within {SECONDS:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise TransportError(reason(error)) from None


def reason(error: Exception) -> str:
    """Return why there was no whole answer, for people: aiohttp's own texts show objects of its own and of TLS."""
    match error:
        case aiohttp.ClientConnectorCertificateError(certificate_error=OSError() as why):
            return why_not_connected(why, "")
        case aiohttp.ClientConnectorError(os_error=OSError() as why, host=host, port=port):
            return why_not_connected(why, authority(host, str(port))) or str(error)
        case aiohttp.ClientHttpProxyError(status=status, message=message):
            return f"the proxy answered {status} {message}; check its address and your rights there"
        case aiohttp.ClientResponseError() | aiohttp.ClientPayloadError(__cause__=ContentEncodingError()):
            return "what came is no answer of HTTP; check the address, and proxies on the way"
        case aiohttp.ClientPayloadError():
            return "the connection broke in the middle of the answer; try again"
        case (
            aiohttp.ServerDisconnectedError()
            | ConnectionError()
            | OSError(errno=errno.ECONNRESET | errno.EPIPE | errno.ECONNABORTED)
        ):
            return "the connection broke before there was an answer; try again"
    return str(error)
