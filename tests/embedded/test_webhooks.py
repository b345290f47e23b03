"""How a webhook is reached, and what is made of its silence."""

import base64

import msgspec
import pytest

from lanloom.kube.errors import TransportError
from lanloom_embedded.client import HttpsWebhooks, address_of
from lanloom_embedded.engine.webhooks import WebhookError
from lanloom_embedded.kinds import Raw


class PlayedPoster:
    """Answers every post alike, and keeps it."""

    def __init__(self, answer: bytes | TransportError) -> None:
        self.answer = answer
        self.posts: list[tuple[str, bytes, bytes, str | None, float]] = []

    async def post(
        self, url: str, body: bytes, *, ca_bundle: bytes, server_name: str | None = None, timeout: float
    ) -> bytes:
        """The played answer."""
        self.posts.append((url, body, ca_bundle, server_name, timeout))
        if isinstance(self.answer, TransportError):
            raise self.answer
        return self.answer


URL = "https://127.0.0.1:9443/validate"
WEBHOOK: Raw = {
    "clientConfig": {"url": URL, "caBundle": base64.b64encode(b"PEM").decode()},
    "timeoutSeconds": 5,
}


def test_service_is_reached_by_its_name_in_the_cluster() -> None:
    """A service becomes its DNS name, which the certificate must carry."""
    service = {"name": "hook", "namespace": "ns", "path": "/validate", "port": 8443}
    assert address_of({"service": service}) == ("https://hook.ns.svc:8443/validate", "hook.ns.svc")
    assert address_of({"service": {"name": "hook", "namespace": "ns"}}) == (
        "https://hook.ns.svc:443/",
        "hook.ns.svc",
    )
    assert address_of({"url": URL}) == (URL, None)


async def test_review_is_posted_to_the_address_of_the_configuration() -> None:
    """The review goes to the URL, with the CA and the time-out of the configuration."""
    poster = PlayedPoster(b'{"kind": "AdmissionReview"}')
    assert await HttpsWebhooks(poster).call(WEBHOOK, {"request": {}}) == {"kind": "AdmissionReview"}
    assert poster.posts == [(f"{URL}?timeout=5s", msgspec.json.encode({"request": {}}), b"PEM", None, 5.0)]


async def test_a_webhook_of_the_same_process_is_asked_without_a_connection() -> None:
    """The configuration that a webhook of this process has goes to it; any other one is posted to."""
    asked: list[bytes] = []

    async def ask(body: bytes) -> bytes:
        asked.append(body)
        return b'{"kind": "own"}'

    poster = PlayedPoster(b'{"kind": "AdmissionReview"}')
    webhooks = HttpsWebhooks(poster)
    webhooks.own = lambda config: ask if config == WEBHOOK["clientConfig"] else None
    assert await webhooks.call(WEBHOOK, {"request": {}}) == {"kind": "own"}
    assert (asked, poster.posts) == ([msgspec.json.encode({"request": {}})], [])
    other: Raw = {"clientConfig": {"url": f"{URL}/other"}}
    assert await webhooks.call(other, {}) == {"kind": "AdmissionReview"}
    assert len(poster.posts) == 1


@pytest.mark.parametrize("answer", [TransportError("no server listens"), b"<html>", b"[]"])
async def test_silence_and_nonsense_name_the_address(answer: bytes | TransportError) -> None:
    """When there is no answer, or none that is a review, the error says where it was sought."""
    with pytest.raises(WebhookError, match=r"https://127\.0\.0\.1:9443/validate"):
        await HttpsWebhooks(PlayedPoster(answer)).call(WEBHOOK, {})
