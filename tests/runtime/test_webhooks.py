"""The webhooks over real HTTPS on loopback."""

import asyncio
import base64
import time
from collections.abc import AsyncIterator, Awaitable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from lanloom.api.admission import AdmissionRequest, Verdict
from lanloom.api.meta import ObjectMeta
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features import FEATURES
from lanloom.kube.errors import TransportError
from lanloom.kube.inflight import InFlight
from lanloom.runtime.certificates import Bundle, issue
from lanloom.runtime.feature import webhooks_of
from lanloom.runtime.https.shares import INLINE_BYTES, Share, Shares
from lanloom.runtime.webhookconfig import webhook_configurations
from lanloom.runtime.webhooks import (
    BODY_MAX,
    Admission,
    Reviews,
    TlsServer,
    WebhookObserver,
    answer,
    webhook_app,
)
from lanloom.runtime.webhooktable import Webhook
from lanloom_embedded.client import HttpsPoster


class Scripted:
    """A feature that answers what the test set."""

    def __init__(self, defaults: Verdict = Verdict(), verdict: Verdict = Verdict()) -> None:  # noqa: B008 - frozen
        self._defaults = defaults
        self._verdict = verdict
        self.seen: list[AdmissionRequest] = []

    def mutate(self, request: AdmissionRequest) -> Verdict:
        """As the port says."""
        self.seen.append(request)
        return self._defaults

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """As the port says."""
        self.seen.append(request)
        return self._verdict


class Running:
    """A server, and a client that trusts it."""

    def __init__(self, server: TlsServer, poster: HttpsPoster, bundle: Bundle) -> None:
        self.server = server
        self._poster = poster
        self.ca = bundle.ca

    async def post(self, path: str, body: bytes) -> bytes:
        """Posts as an API server does."""
        url = f"https://127.0.0.1:{self.server.port}{path}"
        return await self._poster.post(url, body, ca_bundle=self.ca, timeout=60)

    async def ask(self, path: str) -> dict[str, Any]:
        """The response to a review of a NAD that is created."""
        answer = msgspec.json.decode(await self.post(path, msgspec.json.encode(REVIEW)))
        assert (answer["apiVersion"], answer["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
        response: dict[str, Any] = answer["response"]
        return response


REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "u-1",
        "operation": "CREATE",
        "resource": {
            "group": "k8s.cni.cncf.io",
            "version": "v1",
            "resource": "network-attachment-definitions",
        },
        "name": "a",
        "namespace": "default",
        "object": {"metadata": {"name": "a"}},
        "oldObject": None,
        "userInfo": {"username": "alice", "groups": ["people"]},
        "dryRun": False,
        "options": {"kind": "CreateOptions"},
    },
}


def _nobody(_webhook: str, _resource: str, _verdict: str, _seconds: float) -> None:
    """Hears of reviews and does nothing."""


@asynccontextmanager
async def running(
    admissions: Sequence[Admission], *, ready: bool = True, observe: WebhookObserver = _nobody
) -> AsyncIterator[Running]:
    """The webhooks of these features on a free port."""
    bundle = issue(("127.0.0.1",), time.time())
    server = TlsServer(webhook_app(admissions, lambda: ready, observe), "127.0.0.1", 0, bundle)
    poster = HttpsPoster()
    task = asyncio.create_task(server.run())
    try:
        await server.started()
        yield Running(server, poster, bundle)
    finally:
        await poster.close()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_refusal_carries_the_rule_s_message() -> None:
    """A refused request is answered with the uid, 403 and the rule's own words."""
    async with running([Scripted(verdict=Verdict(allowed=False, message="can't, because"))]) as webhooks:
        response = await webhooks.ask("/validate")
    assert response["uid"] == "u-1"
    assert response["allowed"] is False
    assert response["status"] == {"code": 403, "reason": "Forbidden", "message": "can't, because"}


async def test_the_first_refusal_is_the_answer() -> None:
    """Of several features, one that refuses is enough."""
    features = [Scripted(), Scripted(verdict=Verdict(allowed=False, message="no"))]
    async with running(features) as webhooks:
        assert (await webhooks.ask("/validate"))["allowed"] is False


async def test_nobody_is_asked_after_a_refusal() -> None:
    """What a feature remembers of requests that it allows, no feature before it has refused."""
    last = Scripted()
    async with running([Scripted(verdict=Verdict(allowed=False, message="no")), last]) as webhooks:
        await webhooks.ask("/validate")
    assert last.seen == []


async def test_warnings_of_all_features_are_shown() -> None:
    """An allowed request carries every feature's warnings."""
    features = [Scripted(verdict=Verdict(warnings=("one",))), Scripted(verdict=Verdict(warnings=("two",)))]
    async with running(features) as webhooks:
        assert (await webhooks.ask("/validate"))["warnings"] == ["one", "two"]


async def test_defaults_are_a_json_patch() -> None:
    """Defaults come as a base64-encoded JSON patch."""
    operation = {"op": "add", "path": "/metadata/labels", "value": {"a": "b"}}
    async with running([Scripted(defaults=Verdict(patch=(operation,)))]) as webhooks:
        response = await webhooks.ask("/mutate")
    assert response["patchType"] == "JSONPatch"
    assert msgspec.json.decode(base64.b64decode(response["patch"])) == [operation]


async def test_a_feature_sees_the_request() -> None:
    """What the API server says of object and user reaches the feature."""
    feature = Scripted()
    async with running([feature]) as webhooks:
        await webhooks.ask("/validate")
    (request,) = feature.seen
    assert request.object == {"metadata": {"name": "a"}}
    assert (request.user_info.username, request.user_info.groups) == ("alice", ("people",))


async def test_nothing_is_judged_before_the_cluster_is_read() -> None:
    """Until the manager has read the cluster, reviews are answered with 503 and the reason."""
    async with running([Scripted()], ready=False) as webhooks:
        with pytest.raises(TransportError, match=r"503.*has not read the cluster yet"):
            await webhooks.ask("/validate")


class Faulty(Scripted):
    """A feature with a fault."""

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """Fail."""
        raise KeyError("oops")


@pytest.mark.parametrize(
    ("feature", "ready", "body"),
    [
        (Scripted(verdict=Verdict(warnings=("one",))), True, msgspec.json.encode(REVIEW)),
        (Scripted(verdict=Verdict(allowed=False, message="no")), True, msgspec.json.encode(REVIEW)),
        (Scripted(), True, b"{}"),
        (Scripted(), True, msgspec.json.encode(REVIEW | {"padding": "x" * INLINE_BYTES})),
        (Scripted(), False, msgspec.json.encode(REVIEW)),
        (Faulty(), True, msgspec.json.encode(REVIEW)),
    ],
    ids=["warning", "refusal", "rubbish", "long", "not ready", "fault"],
)
async def test_a_review_in_the_same_process_gets_the_same_answer(
    feature: Admission, ready: bool, body: bytes
) -> None:
    """An API server in the manager's process gets, without a connection, what it would get over HTTPS."""

    async def outcome(asked: Awaitable[bytes]) -> bytes | str:
        try:
            return await asked
        except TransportError as error:
            return str(error)

    async with running([feature], ready=ready) as webhooks:
        over_https = await outcome(webhooks.post("/validate", body))
    reviews = Reviews([feature], lambda: ready)
    assert await outcome(reviews.ask("/validate", body)) == over_https


async def test_rubbish_is_refused() -> None:
    """A body that is no AdmissionReview is answered with 400 and what is wrong with it."""
    async with running([Scripted()]) as webhooks:
        with pytest.raises(TransportError, match=r"400.*not an AdmissionReview"):
            await webhooks.post("/validate", b"{}")


async def test_a_body_that_is_nested_without_end_is_refused() -> None:
    """A body that is nested too deeply to be read is answered with 400 like any other rubbish."""
    nested = b'{"apiVersion": "x", "kind": "y", "request": {"object": ' + b"[" * 100_000
    async with running([Scripted()]) as webhooks:
        with pytest.raises(TransportError, match=r"400.*not an AdmissionReview"):
            await webhooks.post("/validate", nested)


async def test_a_review_has_a_bound_on_its_values() -> None:
    """A body with more values than two objects may have is refused before it is built."""
    many = b'{"apiVersion": "x", "kind": "y", "request": {"object": [' + b"1," * 300_000
    async with running([Scripted()]) as webhooks:
        with pytest.raises(TransportError, match=r"413.*more than 300000 values"):
            await webhooks.post("/validate", many)


async def test_long_reviews_are_decoded_beside_the_event_loop() -> None:
    """The event loop goes on while a long review is decoded."""

    async def decide(_request: AdmissionRequest) -> Verdict:
        return Verdict()

    padded = msgspec.json.encode({**REVIEW, "padding": "x" * INLINE_BYTES})
    share = Share(Shares(), "")
    task = asyncio.create_task(
        answer(padded, decide, lambda _resource, _verdict, _seconds: None, share.decoded)
    )
    await asyncio.sleep(0)
    assert not task.done()
    assert msgspec.json.decode(await task)["response"]["allowed"]


async def test_the_certificate_changes_without_a_restart() -> None:
    """A renewed certificate is presented to new connections, and the old CA no longer fits."""
    async with running([Scripted()]) as webhooks:
        await webhooks.ask("/validate")
        renewed = issue(("127.0.0.1",), time.time())
        webhooks.server.use(renewed)
        fresh = HttpsPoster()
        try:
            url = f"https://127.0.0.1:{webhooks.server.port}/validate"
            body = msgspec.json.encode(REVIEW)
            assert await fresh.post(url, body, ca_bundle=renewed.ca, timeout=60)
            with pytest.raises(TransportError):
                await fresh.post(url, body, ca_bundle=webhooks.ca, timeout=60)
        finally:
            await fresh.close()


async def test_a_body_that_no_api_server_sends_is_not_kept() -> None:
    """A body that is longer than any review is refused before it has taken the manager's memory."""
    async with running([Scripted()]) as webhooks:
        with pytest.raises(TransportError, match="413"):
            await webhooks.post("/validate", b" " * (BODY_MAX + 1))
        assert (await webhooks.ask("/validate"))["allowed"]


def test_configurations_fail_closed() -> None:
    """A registered webhook names its resources, and refuses requests when it can't be reached."""
    table = (
        Webhook("mutate", NADS, ("CREATE",), Scripted.mutate),
        Webhook("validate", NADS, ("CREATE", "UPDATE"), Scripted.validate),
    )
    mutating, validating = webhook_configurations(table, lambda path: {"url": f"https://h{path}"})
    assert mutating["webhooks"][0]["clientConfig"] == {"url": "https://h/mutate"}
    (webhook,) = validating["webhooks"]
    assert (webhook["failurePolicy"], webhook["sideEffects"]) == ("Fail", "None")
    assert webhook["rules"][0]["resources"] == ["network-attachment-definitions"]
    assert webhook["rules"][0]["operations"] == ["CREATE", "UPDATE"]


def test_the_registered_webhooks_are_those_of_the_golden_file() -> None:
    """What the API server is to ask the features about changes by intent only."""
    golden = (Path(__file__).parents[1] / "golden/webhooks.yaml").read_text()
    table = webhooks_of(FEATURES)
    found = [
        configuration
        for beside in (False, True)
        for configuration in webhook_configurations(
            table, lambda path: {"url": f"https://there{path}"}, coexists=beside
        )
    ]
    assert found == list(yaml.load_all(golden, yaml.CSafeLoader))


def test_what_is_not_filled_in_is_judged() -> None:
    """A kind of which some objects are not sent to be filled in has a webhook that judges all of them."""
    table = webhooks_of(FEATURES)
    for row in table:
        if row.unless:
            judging = [each for each in table if (each.verb, each.resource) == ("validate", row.resource)]
            assert any(set(row.operations) <= set(each.operations) and not each.unless for each in judging)


class Broken(Scripted):
    """A feature with a bug."""

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """As the port says, were it not for the bug."""
        raise ZeroDivisionError


async def test_an_observer_hears_how_reviews_end() -> None:
    """Each review is reported with its webhook, its resource and its end: allowed, refused, or failed by a bug."""
    told: list[tuple[str, str, str]] = []

    def observe(webhook: str, resource: str, verdict: str, seconds: float) -> None:
        assert 0 <= seconds < 60
        told.append((webhook, resource, verdict))

    body = msgspec.json.encode(REVIEW)
    async with running([Scripted(verdict=Verdict(allowed=False, message="no"))], observe=observe) as webhooks:
        await webhooks.post("/mutate", body)
        await webhooks.post("/validate", body)
    async with running([Broken()], observe=observe) as webhooks:
        with pytest.raises(TransportError, match="500"):
            await webhooks.post("/validate", body)
    plural = NADS.plural
    assert told == [
        ("mutate", plural, "allowed"),
        ("validate", plural, "refused"),
        ("validate", plural, "failed"),
    ]


class Remembering(Scripted):
    """A feature that allows an object, which counts for the next request."""

    def __init__(self, in_flight: InFlight) -> None:
        super().__init__()
        self._in_flight = in_flight

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """As the port says."""
        item = NetworkAttachmentDefinition(metadata=ObjectMeta(name="a"))
        self._in_flight.add(NADS, request, item, None)
        return Verdict()


async def test_what_a_feature_refuses_is_not_in_flight() -> None:
    """An object that one feature allows and the next one refuses stands against no other request."""
    in_flight = InFlight()
    for allowed in (True, False):
        both = [Remembering(in_flight), Scripted(verdict=Verdict(allowed=allowed))]
        reviews = Reviews(both, lambda: True, in_flight=in_flight)
        await reviews.ask("/validate", msgspec.json.encode(REVIEW))
        assert bool(in_flight.of(NADS)) == allowed
