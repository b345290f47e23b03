"""Addresses of IPv6 for guests on a real kernel: what a real client, systemd-networkd, makes of the answers."""

import asyncio
import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.core import PODS
from lanloom.features.ipam.agent.links import NetlinkGuestPorts
from lanloom.node.namespaces import open_namespace
from lanloom_lab.assets import default_cache, private_tree
from tests.features.ipam.agent.objects import config, pod_body
from tests.features.ipam.dhcp.node import OTHER6, SUBNET6, Node, a_node
from tests.features.lan.kernel.machines import run
from tests.features.liveupdate.kernel.ground import INTERFACE, MAC, Ground
from tests.features.liveupdate.kernel.test_guest_dhcp import a_machine
from tests.harness.kernel import INSIDE

# A read-only /sys tells networkd that there is no udev to wait for. A machine without an id has no other DUID.
NETWORKD = """\
mount --make-rprivate /
for path in run etc/systemd var/lib; do mount -t tmpfs t "$TREE/$path"; done
mount -t proc p "$TREE/proc"
mount -t sysfs -o ro s "$TREE/sys"
mkdir -p "$TREE/etc/systemd/network"
printf '[Match]\\nName=guest0\\n[Network]\\nDHCP=ipv6\\n' >"$TREE/etc/systemd/network/guest.network"
printf '[DHCPv6]\nDUIDType=link-layer\n' >"$TREE/etc/systemd/networkd.conf"
mkdir "$TREE/run/systemd"
exec chroot "$TREE/" /usr/lib/systemd/systemd-networkd
"""


@contextmanager
def networkd(where: Path) -> Iterator[None]:
    """A client at the link `guest0` of a namespace, with files of its own."""
    tree = "" if INSIDE in os.environ else str(private_tree(default_cache(), print))
    environment = {**os.environ, "TREE": tree, "SYSTEMD_LOG_TARGET": "console"}
    words = ["unshare", "--mount", "/bin/sh", "-euc", NETWORKD]
    with open_namespace(where) as inside:
        process = inside.call(lambda: subprocess.Popen(words, env=environment))
    try:
        yield
    finally:
        process.kill()
        process.wait()


def addresses(where: Path) -> list[str]:
    """The guest's addresses of IPv6 but those of its link alone."""
    links = json.loads(run(where, "ip -6 -json address show dev guest0 scope global") or "[]")
    return [item["local"] for link in links for item in link["addr_info"] if "local" in item]


def routes(where: Path) -> dict[str, dict[str, Any]]:
    """The guest's routes of IPv6, by their destinations."""
    return {item["dst"]: item for item in json.loads(run(where, "ip -6 -json route show") or "[]")}


async def until_routed(where: Path, subnet: str) -> None:
    """Wait until the guest has the route to a prefix: its client sets addresses and routes one by one."""
    async with asyncio.timeout(120):
        while subnet not in await asyncio.to_thread(routes, where):  # noqa: ASYNC110 - another program's
            await asyncio.sleep(0.3)


async def until_addressed(node: Node, where: Path, own: str) -> None:
    """Wait until the guest has an address, as the server sees it and as the guest does."""
    async with asyncio.timeout(120):
        while not node.counted("ack") or own not in await asyncio.to_thread(addresses, where):  # noqa: ASYNC110 - another program's
            await asyncio.sleep(0.3)


@pytest.mark.parametrize("subnet", [SUBNET6, OTHER6], ids=["with a gateway", "without a gateway"])
async def test_a_real_client(ground: Ground, subnet: dict[str, Any]) -> None:
    """A client gets the NIC's address and the prefix on its link, and neither another address nor a default route."""
    guest = ground.names.path("guest-db")
    async with a_node(subnet) as node:
        node.links = NetlinkGuestPorts(host=ground.host)
        own = (await a_machine(node)).partition("/")[0]
        node.serve()
        with networkd(guest):
            await until_addressed(node, guest, own)
            await until_routed(guest, subnet["cidr"])
            assert addresses(guest) == [own]
            found = routes(guest)
            assert "gateway" not in found[subnet["cidr"]]
            assert "default" not in found
        assert not {"OtherDhcpServer", "OtherAddress", "AddressDeclined"} & set(await node.reasons())


async def attached(node: Node) -> str:
    """A pod with the client's interface at the first bridge, as Multus, CNI and kubelet leave it; its address."""
    await node.nad("lan0", bridge="one-br")
    await node.pod("web", pod_body("web", networks="lan0"))
    [address] = await node.add("web", interface=INTERFACE, settings=config(name="lan0"))
    await node.report("web", nad="lan0", interface=INTERFACE, mac=MAC)
    status = {"status": {"podIP": "10.0.0.7", "podIPs": [{"ip": "10.0.0.7"}]}}
    await node.client.patch(PODS, "web", status, "default", subresource="status")
    return address.partition("/")[0]


@pytest.mark.slow
async def test_a_real_client_after_a_move(ground: Ground) -> None:
    """A client whose NIC gets another network has its address there, and no other, when it has renewed its lease."""
    guest = ground.names.path("guest-db")
    async with a_node({**SUBNET6, "leaseSeconds": 60}) as node:
        await node.network("net6", OTHER6)
        await node.nad("six", "net6", bridge="one-br")
        node.links = NetlinkGuestPorts(host=ground.host)
        old = await attached(node)
        node.serve()
        with networkd(guest):
            await until_addressed(node, guest, old)
            [new] = await node.add("web", interface=INTERFACE, settings=config("net6", "six"))
            await node.report("web", nad="six", interface=INTERFACE, mac=MAC)
            await until_addressed(node, guest, own := new.partition("/")[0])
            async with asyncio.timeout(120):
                while await asyncio.to_thread(addresses, guest) != [own]:  # noqa: ASYNC110 - another program's
                    await asyncio.sleep(0.3)
            await until_routed(guest, OTHER6["cidr"])
        assert "OtherAddress" not in await node.reasons()
