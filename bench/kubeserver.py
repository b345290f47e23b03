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


def network(number: int, version: int, annotations: dict[str, str]) -> dict[str, Any]:
    """Return a NetworkAttachmentDefinition as clusters hold it: about 4 KB, half of which Lanloom does not read."""
    name, vid = f"network-{number}", number % 4094 + 1
    config = {
        "cniVersion": "0.3.1",
        "name": name,
        "type": "bridge",
        "bridge": f"cluster-{number % 50}-br",
        "promiscMode": True,
        "vlan": vid,
        "ipam": {},
    }
    route = {"mode": "auto", "serverIPAddr": "", "cidr": f"10.{number % 250}.0.0/16", "connectivity": "true"}
    addresses = {f"node-{node}": f"10.{number % 250}.0.{node}/16" for node in range(1, 9)}
    labels = {
        "network.harvesterhci.io/clusternetwork": f"cluster-{number % 50}",
        "network.harvesterhci.io/ready": "true",
        "network.harvesterhci.io/type": "L2VlanNetwork",
        "network.harvesterhci.io/vlan-id": str(vid),
    }
    written = {
        "network.harvesterhci.io/route": json.dumps(route),
        "network.harvesterhci.io/l3-connectivity": "true",
        "network.harvesterhci.io/node-ip-map": json.dumps(addresses),
    }
    metadata = {"name": name, "namespace": f"team-{number % 20}", "labels": labels, "annotations": written}
    spec = {"config": json.dumps(config)}
    applied = json.dumps({"apiVersion": "k8s.cni.cncf.io/v1", "metadata": metadata, "spec": spec})
    served = {
        "uid": f"00000000-0000-4000-8000-{number:012x}",
        "resourceVersion": str(version),
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "annotations": written | {"kubectl.kubernetes.io/last-applied-configuration": applied} | annotations,
        "managedFields": [_managed(manager, metadata) for manager in ("kubectl", "harvester", "rancher")],
    }
    return {
        "apiVersion": "k8s.cni.cncf.io/v1",
        "kind": "NetworkAttachmentDefinition",
        "metadata": metadata | served,
        "spec": spec,
    }


def _managed(manager: str, metadata: dict[str, Any]) -> dict[str, Any]:
    fields: dict[str, Any] = {
        f"f:{part}": {f"f:{key}": {} for key in metadata[part]} for part in ("labels", "annotations")
    }
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "k8s.cni.cncf.io/v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:metadata": fields, "f:spec": {"f:config": {}}},
    }


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
        items = [network(number, number + 1, {}) for number in range(start, end)]
        return json.dumps(
            {
                "apiVersion": "k8s.cni.cncf.io/v1",
                "kind": "NetworkAttachmentDefinitionList",
                "metadata": meta,
                "items": items,
            }
        ).encode()

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        """Return a page of the list, or a watch."""
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
            item = network(
                number % self._objects, self._objects + number + 1, {SENT: str(time.monotonic_ns())}
            )
            await response.write(json.dumps({"type": "MODIFIED", "object": item}).encode() + b"\n")
        await asyncio.Event().wait()


async def serve(objects: int, rate: int, events: int) -> None:
    """Serve until killed; print the port when ready."""
    server = Server(objects, rate, events)
    runner = web.ServerRunner(web.Server(server.answer))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
