"""The page of a node, and the time line: what features have there, and what has changed."""

from pathlib import Path
from typing import Any

import pytest

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.core import EVENTS, NODES, PODS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.lan import LAN_NODES, LANS
from lanloom.api.multus import NADS, NETWORK_STATUS
from tests.console.site import TENANT, Site, read, read_until, site
from tests.features.vlan.cluster import cluster_network, nad, vlan_config

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>"


def condition(type: str, status: str, message: str = "") -> dict[str, Any]:
    """A condition of a report."""
    at = "2026-01-01T10:00:00Z"
    return {"type": type, "status": status, "reason": "Because", "message": message, "lastTransitionTime": at}


async def fill(made: Site) -> None:
    """A node with a NIC, an uplink, a VLAN with an address, one without, a LAN, a pod and a machine."""
    admin = made.admin
    await admin.create(NODES, {"metadata": {"name": "node1"}})
    await admin.create(CLUSTER_NETWORKS, cluster_network("cluster-1"))
    await admin.create(VLAN_CONFIGS, vlan_config("one", "cluster-1", nics=("eth7",)))
    for name, vid in (("vlan2012", 2012), ("guests", 2013)):
        await admin.create(NADS, nad(name, "cluster-1", vid, namespace="ours"), "ours")
    interface = {"vlanId": 2012, "name": "c.2012", "network": "ours/vlan2012", "state": "Ready"}
    status = {
        "node": "node1",
        "clusterNetwork": "cluster-1",
        "vlanConfig": "one",
        "bridge": "cluster-1-br",
        "uplink": "cluster-1-bo",
        "vlanIds": "1,2012-2013",
        "interfaces": [interface | {"mode": "static", "address": "192.168.1.10/24"}],
        "conditions": [condition("ready", "False", HOSTILE), condition("L3Ready", "True")],
    }
    await admin.create(CLUSTER_NETWORK_NODES, {"metadata": {"name": "cluster-1-node1"}})
    await admin.patch(CLUSTER_NETWORK_NODES, "cluster-1-node1", {"status": status}, subresource="status")
    spoke = {"name": "web", "mode": "veth", "pod": "ours/web"}
    entry = {
        "namespace": "ours",
        "name": "blue",
        "uid": "u",
        "device": "eth0",
        "ready": True,
        "spokes": [spoke],
    }
    await admin.create(LAN_NODES, {"metadata": {"name": "node1"}})
    await admin.patch(LAN_NODES, "node1", {"status": {"lans": [entry]}}, subresource="status")
    instance = {"apiVersion": "kubevirt.io/v1", "kind": "VirtualMachineInstance", "name": "vm1", "uid": "u1"}
    for name, owners in (("server", []), ("launcher", [instance])):
        attached = '[{"name": "ours/guests", "interface": "net1"}]'
        meta = {"name": name, "ownerReferences": owners, "annotations": {NETWORK_STATUS: attached}}
        spec = {"nodeName": "node1", "containers": [{"name": "main", "image": "web"}]}
        await admin.create(PODS, {"metadata": meta, "spec": spec}, "ours")


async def test_a_node_from_its_nics_to_its_users(tmp_path: Path) -> None:
    """The page of a node draws NIC, bond, bridge, networks, LAN, pods and machines, with links to their pages."""
    async with site(tmp_path) as made, made.browser() as browser:
        await fill(made)
        page = await read(browser, "/nodes/node1")
        page = page.replace('<tspan class="mark">', "").replace("</tspan>", "")
        for text in ("eth7", "◆ cluster-1-bo", "◆ cluster-1-br", "● 192.168.1.10/24", "ours/guests", "eth0"):
            assert f">{text}</text>" in page, text
        for text in ("ours/server", "ours/vm1", "ours/web", "● ours/blue"):
            assert f">{text}</text>" in page, text
        for href in (
            "/cluster-networks/cluster-1",
            "/networks/ours/guests",
            "/machines/ours/vm1",
            "/lans/ours/blue",
        ):
            assert f'href="{href}"' in page
        assert "Because" in page and HOSTILE not in page
        assert 'href="/nodes/node1"' in await read(browser, "/nodes")
        assert "There is nothing here" in await read(browser, "/nodes/none", 404)


async def test_a_user_of_a_namespace_sees_no_nodes(tmp_path: Path) -> None:
    """Who may not read nodes learns nothing of one, nor from the time line of what happens elsewhere."""
    async with site(tmp_path) as made, made.browser(TENANT) as browser:
        await fill(made)
        for path in ("/nodes", "/nodes/node1", "/nodes/node1?namespace=ours"):
            assert "eth7" not in await read(browser, path, 403)
        for path in ("/changes", "/changes?namespace=theirs"):
            assert "cluster-1" not in await read(browser, path)


async def test_what_changed_last_comes_first(tmp_path: Path) -> None:
    """The time line has Lanloom's Events and the conditions of all kinds, the latest first, and nothing of others."""
    async with site(tmp_path) as made, made.browser() as browser:
        await fill(made)
        for name, component, at in (
            ("old", "lanloom-agent", "09"),
            ("new", "lanloom-manager", "11"),
            ("x", "kubelet", "12"),
        ):
            event = {
                "metadata": {"name": name},
                "involvedObject": {"kind": "Node", "name": "node1"},
                "reason": f"Of{component}",
                "message": HOSTILE,
                "type": "Warning",
                "source": {"component": component},
                "lastTimestamp": f"2026-01-01T{at}:00:00Z",
            }
            await made.admin.create(EVENTS, event, "default")
        page = await read(browser, "/changes")
        places = [
            page.index(text) for text in ("Oflanloom-manager", "ready False: Because", "Oflanloom-agent")
        ]
        assert places == sorted(places)
        assert "Ofkubelet" not in page and HOSTILE not in page
        assert "Oflanloom-agent" in await read(browser, "/nodes/node1")


async def test_the_way_through_a_lan(tmp_path: Path) -> None:
    """The page of a LAN offers the ways between its spokes, and that of a way shows its hops and where it stops."""
    async with site(tmp_path) as made, made.browser() as browser:
        await fill(made)
        spec = {"ns": "blue", "bridge": "br0", "vxlan": "vx0", "vni": 7, "defaultVxlanDev": "eth0"}
        spokes = [{"name": "web", "mode": "veth"}, {"name": "db", "mode": "veth"}]
        lan = {"metadata": {"name": "blue"}, "spec": spec | {"spokes": ["web", "db", "idle"]}}
        uid = (await made.admin.create(LANS, lan, "ours")).metadata.uid
        entry = {"namespace": "ours", "name": "blue", "uid": uid, "ready": True, "spokes": spokes}
        await made.admin.patch(LAN_NODES, "node1", {"status": {"lans": [entry]}}, subresource="status")
        page = await read_until(browser, "/lans/ours/blue", 'href="/lans/ours/blue/trace/web/db"')
        assert "idle/" not in page
        page = await read(browser, "/lans/ours/blue/trace/web/db")
        assert "lanloom lan trace ours/blue --from web --to db" in page
        assert "Nothing is known to stop the frame" in page and "● </tspan>webV0" in page and "◆" not in page
        broken = entry | {"ready": False, "message": "eth0 is down", "spokes": spokes[:1]}
        await made.admin.patch(LAN_NODES, "node1", {"status": {"lans": [broken]}}, subresource="status")
        page = await read_until(browser, "/lans/ours/blue/trace/web/db", "The frame stops at hop")
        assert "◆ stops here" in page
        for path in ("/lans/ours/blue/trace/web/none", "/lans/ours/none/trace/web/db"):
            await read(browser, path, 404)
