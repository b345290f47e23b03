"""A real webhook server: HTTPS with a certificate of its own, called by the API servers under test."""

import base64
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import trustme
import uvicorn
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

Review = dict[str, Any]
Handle = Callable[[Review], Mapping[str, Any]]

DEAD_PORT = 1
"""A port on which nothing listens (tcpmux, which no machine of today serves)."""


class Hook:
    """One webhook: answers reviews with its handler's response and remembers the requests."""

    def __init__(self, url: str, ca_bundle: str, handle: Handle) -> None:
        self.url = url
        self.ca_bundle = ca_bundle
        self._handle = handle
        self._seen: list[Review] = []

    @property
    def client_config(self) -> dict[str, str]:
        """The `clientConfig` of a webhook that calls this one."""
        return {"url": self.url, "caBundle": self.ca_bundle}

    @property
    def called(self) -> bool:
        """Whether a review has come since the last `take`."""
        return bool(self._seen)

    def take(self) -> list[Review]:
        """The reviews since the last call.

        Of several in a row about the same change only the last: kube-apiserver asks once more when its cache was stale.
        """
        taken, self._seen = self._seen, []
        return [
            review
            for index, review in enumerate(taken)
            if not (taken[index + 1 :] and _change(review["request"]) == _change(taken[index + 1]["request"]))
        ]

    def answer(self, review: Review) -> dict[str, Any]:
        """The AdmissionReview to send back."""
        self._seen.append(review)
        response = {"uid": review["request"]["uid"], "allowed": True, **self._handle(review["request"])}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


def _change(request: Mapping[str, Any]) -> tuple[object, ...]:
    """What a review is about, whatever state the server found before."""
    wanted = dict(request.get("object") or {})
    metadata = {key: value for key, value in wanted.pop("metadata", {}).items() if key != "resourceVersion"}
    place = (request["operation"], request.get("namespace"), request.get("name"), request.get("subResource"))
    return (*place, wanted, metadata)


class Hooks:
    """The webhooks of one server under test, each at a path of its own."""

    def __init__(self, root: str, ca: str) -> None:
        self._root = root
        self._ca_bundle = base64.b64encode(ca.encode()).decode()
        self._hooks: dict[str, Hook] = {}

    def add(self, name: str, handle: Handle) -> Hook:
        """A new webhook; a second one of the same name gets another path."""
        path = f"{name}-{len(self._hooks)}"
        hook = self._hooks[path] = Hook(f"{self._root}/{path}", self._ca_bundle, handle)
        return hook

    async def serve(self, request: Request) -> Response:
        """Answer one review."""
        hook = self._hooks[request.path_params["path"]]
        return JSONResponse(await run_in_threadpool(hook.answer, await request.json()))


@contextmanager
def hook_server(directory: Path) -> Iterator[Hooks]:
    """A webhook server on a free port of the loopback interface, for as long as the block runs."""
    authority = trustme.CA()
    certificate = directory / "hook.pem"
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(certificate)
    listener = socket.create_server(("127.0.0.1", 0))
    hooks = Hooks(f"https://127.0.0.1:{listener.getsockname()[1]}", authority.cert_pem.bytes().decode())
    application = Starlette(routes=[Route("/{path}", hooks.serve, methods=["POST"])])
    server = uvicorn.Server(
        uvicorn.Config(application, ssl_certfile=str(certificate), log_level="warning", lifespan="off")
    )
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="webhooks")
    thread.start()
    try:
        yield hooks
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
