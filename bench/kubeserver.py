"""A process that serves one resource from memory, so that the kit is measured and not a server.

Lists come from pages that were encoded beforehand. A watch sends one event after the other at the rate asked for; each
carries the monotonic time at which it was sent, which the other process on this machine can compare with its own.
"""

import asyncio
import json
import sys
import time
from contextlib import suppress
from typing import Any

from aiohttp import web

PAGE = 500
SENT = "bench/sent-ns"
SETTLE_SECONDS = 1.0
"""Between a watch's start and its first event: the client has just listed, and tidies its memory up."""


def pod(number: int, version: int, annotations: dict[str, str]) -> dict[str, Any]:
    """An object of a pod's usual size, about 5 KB, most of which Lanloom does not read."""
    environment = [
        {"name": f"VARIABLE_{index}", "value": f"value-{number}-{index}" * 3} for index in range(12)
    ]
    container = {
        "image": f"registry.example.org/team/application-{number % 50}:1.2.{number}",
        "env": environment,
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"memory": "256Mi"}},
        "volumeMounts": [{"name": f"volume-{index}", "mountPath": f"/mnt/{index}"} for index in range(6)],
        "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080}, "periodSeconds": 10},
    }
    conditions = [
        {"type": kind, "status": "True", "lastProbeTime": None, "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for kind in ("Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"application-{number}",
            "namespace": f"team-{number % 20}",
            "uid": f"00000000-0000-4000-8000-{number:012x}",
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app": f"application-{number % 50}", "pod-template-hash": f"{number:010x}"},
            "annotations": annotations,
            "managedFields": [_managed(name) for name in ("kube-controller-manager", "kubelet")],
        },
        "spec": {
            "nodeName": f"node-{number % 100}",
            "containers": [container | {"name": name} for name in ("main", "sidecar")],
            "volumes": [{"name": f"volume-{index}", "emptyDir": {}} for index in range(6)],
        },
        "status": {"phase": "Running", "podIP": "192.0.2.1", "conditions": conditions},
    }


def _managed(manager: str) -> dict[str, Any]:
    fields: dict[str, Any] = {
        f"f:{name}": {} for name in ("image", "env", "resources", "volumeMounts", "livenessProbe", "name")
    }
    return {"manager": manager, "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:spec": fields}}


class Server:
    """`objects` in number, at version `objects`; a watch starts there."""

    def __init__(self, objects: int, rate: int, events: int) -> None:
        self._objects, self._rate, self._events = objects, rate, events
        self._pages = [self._page(start) for start in range(0, objects, PAGE)]

    def _page(self, start: int) -> bytes:
        end = min(start + PAGE, self._objects)
        meta = {"resourceVersion": str(self._objects)} | (
            {"continue": str(end)} if end < self._objects else {}
        )
        items = [pod(number, number + 1, {}) for number in range(start, end)]
        return json.dumps({"apiVersion": "v1", "kind": "PodList", "metadata": meta, "items": items}).encode()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """A page of the list, or a watch."""
        if "watch" in request.query:
            return await self._watch(request)
        page = self._pages[int(request.query.get("continue", "0")) // PAGE]
        return web.Response(body=page, content_type="application/json")

    async def _watch(self, request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        with suppress(ConnectionError):  # the client has measured enough and goes
            await response.prepare(request)
            await self._stream(response)
        return response

    async def _stream(self, response: web.StreamResponse) -> None:
        started = time.monotonic() + SETTLE_SECONDS
        for number in range(self._events):
            await asyncio.sleep(max(0.0, started + number / self._rate - time.monotonic()))
            item = pod(number % self._objects, self._objects + number + 1, {SENT: str(time.monotonic_ns())})
            await response.write(json.dumps({"type": "MODIFIED", "object": item}).encode() + b"\n")
        await asyncio.Event().wait()


async def serve(objects: int, rate: int, events: int) -> None:
    """Serves until killed; prints the port when ready."""
    server = Server(objects, rate, events)
    runner = web.ServerRunner(web.Server(server.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
