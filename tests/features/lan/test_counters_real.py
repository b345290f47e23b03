"""Counters of a LAN through a real kube-apiserver: which nodes it asks, and for which user."""

from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.core import NAMESPACES, PODS
from lanloom.api.lan import LAN_NODES, LANS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.features.lan.counters import AGENTS, Silent, read_counters
from lanloom.kube.errors import AlreadyExists, Forbidden
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.harness.servers.installed import Installer
from tests.harness.servers.real import RealServer

pytestmark = [pytest.mark.realserver, pytest.mark.slow]

NAME, PLACE = "counted", "default"
SPEC: dict[str, Any] = {
    "ns": "counted",
    "bridge": "br0",
    "vxlan": "vx0",
    "vni": 703,
    "defaultVxlanDev": "eth0",
    "spokes": ["web"],
}


async def _attach(admin: HttpClient) -> None:
    """Makes a LAN with a spoke in use on a node whose agent is a pod with an address that no server asks."""
    made = await admin.create(LANS, {"metadata": {"name": NAME}, "spec": SPEC}, PLACE)
    entry: dict[str, Any] = {"namespace": PLACE, "name": NAME, "uid": made.metadata.uid, "vni": 703}
    entry |= {"ready": True, "spokes": [{"name": "web", "mode": "veth"}]}
    await admin.create(LAN_NODES, {"metadata": {"name": NAME}})
    await admin.patch(LAN_NODES, NAME, {"status": {"lans": [entry]}}, subresource="status")
    container = {"name": "agent", "image": "lanloom", "ports": [{"containerPort": 9811}]}
    spec = {"nodeName": NAME, "containers": [container], "automountServiceAccountToken": False}
    pod = {"metadata": {"name": NAME, "labels": dict([AGENTS.split("=")])}, "spec": spec}
    await admin.create(PODS, pod, LANLOOM_NAMESPACE)
    status = {"phase": "Running", "podIP": "127.0.0.1", "podIPs": [{"ip": "127.0.0.1"}]}
    await admin.patch(PODS, NAME, {"status": status}, LANLOOM_NAMESPACE, subresource="status")


async def test_a_real_server_decides(real_server: RealServer, real_binaries: Path) -> None:
    """A real server passes nothing on to a loopback address, nor for who may not get pods/proxy; it says why."""
    Installer(real_binaries, real_server).definitions()
    config = load(str(real_server.kubeconfig))
    async with (
        HttpClient(config) as admin,
        HttpClient(replace(config, token=real_server.user_token)) as alice,
    ):
        with suppress(AlreadyExists):
            await admin.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
        await _attach(admin)
        try:
            found = await read_counters(admin, NAME, PLACE)
            assert found.silent == (Silent(NAME, "its agent tells nothing: address not allowed"),)
            with pytest.raises(Forbidden, match="pods/proxy"):
                await alice.ask_pod(LANLOOM_NAMESPACE, NAME, "metrics")
        finally:
            await admin.delete(PODS, NAME, LANLOOM_NAMESPACE, grace=0)
            await admin.delete(LAN_NODES, NAME)
            await admin.delete(LANS, NAME, PLACE)
