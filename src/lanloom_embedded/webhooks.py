"""Calls admission webhooks over HTTPS, at the address that their client configuration gives."""

import base64
import binascii
from typing import Protocol

import msgspec

from lanloom.kube.errors import TransportError
from lanloom_embedded.engine.webhooks import WebhookError
from lanloom_embedded.kinds import Raw

_DEFAULT_TIMEOUT = 10.0


class Poster(Protocol):
    """Posts a body to an HTTPS server and returns the answer's body. Raises TransportError."""

    async def post(
        self, url: str, body: bytes, *, ca_bundle: bytes, server_name: str | None = None, timeout: float
    ) -> bytes:
        """The answer's body; `ca_bundle` is PEM, empty for the system's CAs."""
        ...


class HttpsWebhooks:
    """A `WebhookCaller` over HTTPS."""

    def __init__(self, poster: Poster) -> None:
        self._poster = poster

    async def call(self, webhook: Raw, review: Raw) -> Raw:
        """The AdmissionReview that came back. Raises WebhookError."""
        config = webhook.get("clientConfig") or {}
        timeout = float(webhook.get("timeoutSeconds") or _DEFAULT_TIMEOUT)
        url, server_name = address_of(config)
        url += f"{'&' if '?' in url else '?'}timeout={timeout:g}s"
        try:
            ca_bundle = base64.b64decode(config.get("caBundle") or "")
            body = msgspec.json.encode(review)
            answer = await self._poster.post(
                url, body, ca_bundle=ca_bundle, server_name=server_name, timeout=timeout
            )
            return msgspec.json.decode(answer, type=dict)
        except (TransportError, msgspec.DecodeError, binascii.Error) as error:
            raise WebhookError(f'Post "{url}": {error}') from None


def address_of(config: Raw) -> tuple[str, str | None]:
    """The URL of a client configuration, and the name that the certificate must have if it is not the URL's.

    A service is called by its cluster DNS name, which resolves only where there is a cluster's DNS.
    """
    if config.get("url"):
        return str(config["url"]), None
    service = config.get("service") or {}
    host = f"{service.get('name')}.{service.get('namespace')}.svc"
    path = str(service.get("path") or "/")
    return f"https://{host}:{service.get('port') or 443}/{path.lstrip('/')}", host
