"""The admission webhooks over HTTPS: AdmissionReview in, AdmissionReview out, the features' verdicts between.

`mutate` and `validate` serve every feature; a request goes to each of them, and the first refusal is the answer.
`references` is about all pods and machines, so it is a webhook of its own (see `webhookconfig`).
"""

import asyncio
import base64
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from hmac import compare_digest
from typing import Any, NamedTuple, Protocol

import msgspec
import structlog
from msgspec import Struct
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from lanloom.api.admission import AdmissionRequest, Verdict
from lanloom.kube.errors import TransportError
from lanloom.kube.inflight import InFlight
from lanloom.runtime.certificates import Bundle
from lanloom.runtime.https.bodies import DEPTH, VALUES, check_json
from lanloom.runtime.https.connections import limits_of_process
from lanloom.runtime.https.errors import StatusError, TooManyRequests
from lanloom.runtime.https.server import HttpsServer, present, server_context
from lanloom.runtime.https.shares import INLINE_BYTES, RETRY_SECONDS, Share, Shares
from lanloom.runtime.process import is_out_of_memory
from lanloom.runtime.sockets import listen
from lanloom.runtime.webhookconfig import REFERENCES_PATH
from lanloom.runtime.webhooktable import TableAdmission

log = structlog.get_logger(__name__)

API_VERSION = "admission.k8s.io/v1"
BODY_MAX = 32 * 1024 * 1024
"""Bytes of a review: an object has 3 MiB at the most, the one that is stored 1.5, and six stand for one where it is
escaped."""
_HELD_BYTES = 6 * BODY_MAX
"""Bytes of long reviews in progress. One peer has a third, and an API server is one: twenty of the largest objects."""

CONNECTIONS = 512
"""Connections of the port, half of them of one peer. An API server needs one for each review in progress."""

Decide = Callable[[AdmissionRequest], Awaitable[Verdict]]
Observer = Callable[[str, str, float], None]
"""Receives each review: the resource that the request names, how it ended (allowed, refused, failed), the seconds."""

Decode = Callable[[Callable[[bytes], AdmissionRequest], bytes], Awaitable[AdmissionRequest]]
"""Reads a body with a reader, here or in a thread."""

WebhookObserver = Callable[[str, str, str, float], None]
"""The same with the webhook's name (mutate, validate, references) before it."""


class Admission(Protocol):
    """The answer of a feature to a request."""

    def mutate(self, request: AdmissionRequest) -> Verdict:
        """Return defaults as a JSON patch."""
        ...

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """Allow the request or refuse it."""
        ...


class _Review(Struct, frozen=True, rename="camel"):
    api_version: str
    kind: str
    request: AdmissionRequest


_VALUES = 3 * VALUES
"""Values of a review: those of an object before and after, and who asks for it."""
_DEPTH = DEPTH + 2
"""Levels of a review, which holds the objects in its request."""

_DECODER = msgspec.json.Decoder(_Review)


def _request_in(body: bytes) -> AdmissionRequest:
    check_json(body, _VALUES, _DEPTH)
    return _DECODER.decode(body).request


async def _at_once(reader: Callable[[bytes], AdmissionRequest], body: bytes) -> AdmissionRequest:
    return reader(body)


async def answer(body: bytes, decide: Decide, observe: Observer, decode: Decode = _at_once) -> bytes:
    """Return the response to an AdmissionReview.

    Raises msgspec.DecodeError for a body that is none, StatusError for one with too many values or levels, and where
    too many wait.
    """
    request = await decode(_request_in, body)
    started, outcome = asyncio.get_running_loop().time(), "failed"
    try:
        verdict = await decide(request)
        outcome = "allowed" if verdict.allowed else "refused"
    finally:
        observe(request.resource.resource, outcome, asyncio.get_running_loop().time() - started)
    response: dict[str, Any] = {"uid": request.uid, "allowed": verdict.allowed}
    if not verdict.allowed:
        response["status"] = {"code": 403, "reason": "Forbidden", "message": verdict.message}
    if verdict.patch:
        response["patchType"] = "JSONPatch"
        response["patch"] = base64.b64encode(msgspec.json.encode(verdict.patch)).decode()
    if verdict.warnings:
        response["warnings"] = verdict.warnings
    return msgspec.json.encode({"apiVersion": API_VERSION, "kind": "AdmissionReview", "response": response})


def mutate_all(admissions: Sequence[Admission]) -> Decide:
    """Return the defaults of every feature, one after the other, and what they say of them."""

    async def decide(request: AdmissionRequest) -> Verdict:
        verdicts = [admission.mutate(request) for admission in admissions]
        return Verdict(
            patch=tuple(item for verdict in verdicts for item in verdict.patch),
            warnings=tuple(text for verdict in verdicts for text in verdict.warnings),
        )

    return decide


def validate_all(admissions: Sequence[Admission], in_flight: InFlight | None = None) -> Decide:
    """Return the first refusal, after which no other feature is asked, or the warnings of all.

    What is refused is not `in_flight` any more, although a feature that was asked before has allowed it.
    """
    decide_all = _validate_all([admission.validate for admission in admissions])

    async def decide(request: AdmissionRequest) -> Verdict:
        verdict = await decide_all(request)
        if in_flight is not None and not verdict.allowed:
            in_flight.withdraw(request)
        return verdict

    return decide


def _validate_all(validators: Sequence[Decide]) -> Decide:
    async def decide(request: AdmissionRequest) -> Verdict:
        warnings: list[str] = []
        for validator in validators:
            verdict = await validator(request)
            if not verdict.allowed:
                return verdict
            warnings += verdict.warnings
        return Verdict(warnings=tuple(warnings))

    return decide


def refer_all(admissions: Sequence[TableAdmission]) -> Decide:
    """Return the first refusal of a reference, after which no other feature is asked, or the warnings of all."""
    return _validate_all([admission.refer for admission in admissions])


async def _allowed(_request: AdmissionRequest) -> Verdict:
    return Verdict()


class Reply(NamedTuple):
    """The answer of a page: a review, or a text that says why there is none."""

    code: int
    body: bytes
    headers: dict[str, str] = {}


class Reviews:
    """The pages of the webhooks. What a page replies does not depend on how a review reached it.

    Until `ready()`, reviews are answered with 503, so that nothing is judged blindly. Of several refusals the first
    feature's is returned, so the feature with the narrowest rules comes first. `refer` judges what refers to networks.
    """

    def __init__(
        self,
        admissions: Sequence[Admission],
        ready: Callable[[], bool],
        observe: WebhookObserver = lambda _webhook, _resource, _verdict, _seconds: None,
        refer: Decide = _allowed,
        in_flight: InFlight | None = None,
    ) -> None:
        self._ready = ready
        self._shares = Shares(_HELD_BYTES, CONNECTIONS)
        self.pages: dict[str, tuple[Decide, Observer]] = {
            "/mutate": (mutate_all(admissions), partial(observe, "mutate")),
            "/validate": (validate_all(admissions, in_flight), partial(observe, "validate")),
            REFERENCES_PATH: (refer, partial(observe, "references")),
        }

    async def ask(self, page: str, body: bytes) -> bytes:
        """Return a page's answer to a review of this process's own API server. Raises TransportError as over HTTPS."""

        async def read(_share: Share) -> bytes:
            return body

        try:
            reply = await self.reply(page, "", read)
        except Exception as error:
            if is_out_of_memory(error):
                raise
            log.exception("review-failed", page=page)
            reply = _text(500, "Internal Server Error")
        if reply.code != 200:
            raise TransportError(f"the server answered {reply.code}: {reply.body.decode()}")
        return reply.body

    async def reply(self, page: str, peer: str, read: Callable[[Share], Awaitable[bytes | None]]) -> Reply:
        """Reply to a review of a peer; `read` returns its body, None for one that is too long."""
        if not self._ready():
            return _text(503, "Lanloom has not read the cluster yet; try again")
        decide, observe = self.pages[page]
        try:
            with self._shares.of(peer) as share:
                body = await read(share)
                if body is None:
                    return _text(413, f"The body is longer than {BODY_MAX} bytes")
                return Reply(200, await answer(body, decide, observe, share.decoded))
        except TooManyRequests as error:
            return _text(error.code, error.message)._replace(headers={"retry-after": str(RETRY_SECONDS)})
        except msgspec.DecodeError as error:
            return _text(400, f"The body is not an AdmissionReview: {error}")
        except StatusError as error:
            return _text(error.code, f"The body is not an AdmissionReview: {error}")


def _text(code: int, message: str) -> Reply:
    return Reply(code, message.encode())


def webhook_app(
    admissions: Sequence[Admission],
    ready: Callable[[], bool],
    observe: WebhookObserver = lambda _webhook, _resource, _verdict, _seconds: None,
) -> Starlette:
    """Return the ASGI application of the webhooks of these features (see `Reviews`)."""
    return app_of(Reviews(admissions, ready, observe))


def app_of(reviews: Reviews) -> Starlette:
    """Return the ASGI application that replies for all pages."""

    def endpoint(page: str) -> Callable[[Request], Any]:
        async def review(request: Request) -> Response:
            peer = request.client.host if request.client else ""
            reply = await reviews.reply(page, peer, partial(_body, request))
            kind = "application/json" if reply.code == 200 else "text/plain"
            return Response(reply.body, reply.code, reply.headers, kind)

        return review

    return Starlette(routes=[Route(page, endpoint(page), methods=["POST"]) for page in reviews.pages])


def secret_path(app: ASGIApp, path: Callable[[], str]) -> ASGIApp:
    """Return the application below a path of one segment; requests elsewhere are answered with 404.

    Nothing at all is there as long as the path is empty.
    """

    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            first, _, rest = scope["path"][1:].partition("/")
            known = path()
            if not known or not compare_digest(first.encode(), known.encode()):
                await PlainTextResponse("Not found", 404)(scope, receive, send)
                return
            scope = {**scope, "path": f"/{rest}"}
        await app(scope, receive, send)

    return serve


async def _body(request: Request, share: Share) -> bytes | None:
    """Read the body; None for one that is too long, of which nothing is kept. Raises TooManyRequests."""
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > BODY_MAX:
            return None
        if len(body) > INLINE_BYTES:
            share.take(len(body) - share.held)
    return bytes(body)


class TlsServer:
    """An HTTPS server whose certificate can be exchanged while it runs: new connections get the new one."""

    def __init__(self, app: ASGIApp, host: str, port: int, bundle: Bundle) -> None:
        self._context = server_context()
        self.use(bundle)
        self._socket = listen(host, port)
        self._server = HttpsServer(app, self._context, (self._socket,), limits_of_process(CONNECTIONS))

    def use(self, bundle: Bundle) -> None:
        """Present this certificate from now on."""
        present(self._context, bundle.certificate, bundle.key)

    @property
    def port(self) -> int:
        """The port that it listens on."""
        return int(self._socket.getsockname()[1])

    async def started(self) -> None:
        """Return when it accepts connections."""
        await self._server.started()

    def drain(self) -> None:
        """End each connection after its next response."""
        self._server.drain()

    async def run(self) -> None:
        """Serve until cancelled; then no client can connect any more."""
        try:
            await self._server.run()
        finally:
            self._server.hang_up()
