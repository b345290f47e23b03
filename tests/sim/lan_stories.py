"""One course of events with LANs, from a seed to its end."""

import copy
from functools import cache
from random import Random
from typing import Any

from lanloom.api.core import CRDS, LEASES, MUTATING_WEBHOOKS, NAMESPACES, PODS, VALIDATING_WEBHOOKS
from lanloom.api.crds import manifest
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.lan import LAN, LAN_NODES, LANS, MACVTAP_NAD, UID_LABEL, VETH_NAD
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.names import BRIDGES_NAMESPACE, LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.features.lan.admission import WEBHOOKS
from lanloom.features.lan.rules.hostbridge import far_name
from lanloom.kube.conditions import find
from lanloom.nads.admission import WEBHOOKS as REFERENCES
from lanloom.runtime.webhookconfig import webhook_configurations
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.conditions import stale
from tests.harness.servers.filled import filled
from tests.harness.virtual import run
from tests.sim.course import check_processes, disturb, ending, rest
from tests.sim.lan import LanCluster
from tests.sim.lan_clients import ALL_OF_THEM, LanProtections
from tests.sim.lan_judge import LanVerifier
from tests.sim.lan_users import PLACE, LanUsers

ACTS = 20
LONGEST = 2 * 86400.0
"""Virtual seconds after which something is waited for that never comes."""

KINDS: tuple[Resource[Any], ...] = (LANS, LAN_NODES, NADS, VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES)
"""The kinds that are defined: a server takes its time for each definition, whenever it starts."""


def play(seed: int, protections: LanProtections = ALL_OF_THEM) -> LanVerifier:
    """Plays a seed. Raises Harm, and AssertionError for whatever else is wrong."""
    return run(
        _play(seed, copy.deepcopy(_first_storage()), protections),
        rng=Random(f"order {seed}"),
        longest=LONGEST,
    )


@cache
def _first_storage() -> MemoryStorage:
    """A server that knows the kinds and the webhooks; made once, because CRDs take their time."""

    async def fill(admin: LocalClient) -> None:
        for resource in KINDS:
            crd = manifest(resource)
            await admin.create(CRDS, _tolerant(crd) if resource is LAN_NODES else crd)
        for name in (LANLOOM_NAMESPACE, PLACE):
            await admin.create(NAMESPACES, {"metadata": {"name": name}})
        table = [row for row in (*REFERENCES, *WEBHOOKS) if row.resource in (*KINDS, PODS)]
        mutating, validating = webhook_configurations(table, _url)
        await admin.create(MUTATING_WEBHOOKS, mutating)
        await admin.create(VALIDATING_WEBHOOKS, validating)

    return filled(fill)


def _tolerant(crd: dict[str, Any]) -> dict[str, Any]:
    """The definition of a version to come: it has fields that are not known today."""
    for version in crd["spec"]["versions"]:
        _open(version["schema"]["openAPIV3Schema"])
    return crd


def _open(schema: dict[str, Any]) -> None:
    if schema.get("type") == "object" and "properties" in schema:
        schema["x-kubernetes-preserve-unknown-fields"] = True
    for each in schema.get("properties", {}).values():
        _open(each)
    if "items" in schema:
        _open(schema["items"])


def _url(path: str) -> dict[str, str]:
    return {"url": f"https://lanloom{path}"}


async def _play(seed: int, storage: MemoryStorage, protections: LanProtections) -> LanVerifier:
    cluster = LanCluster(seed, storage, protections)
    async with ending(cluster):
        await cluster.start()
        await cluster.served.wait()
        users = LanUsers(cluster, Random(f"users {seed}"))
        users.begin()
        await disturb(cluster, users.act(ACTS))
        await users.settle()
        await _rest(cluster)
        await users.leave()
        await _rest(cluster, nothing_left=True)
        check_processes(cluster.processes.values())
        check_processes(cluster.kubelets.values())
    return cluster.witness


async def _rest(cluster: LanCluster, *, nothing_left: bool = False) -> None:
    await rest(lambda: _complaints(cluster, nothing_left), cluster.witness.harm, [12] * 50)


def _nads_of(item: LAN) -> set[Key]:
    """The places of a LAN's NADs."""
    return {
        Key(item.metadata.namespace, f"{prefix}{spoke}")
        for prefix in (MACVTAP_NAD, VETH_NAD)
        for spoke in item.spec.spokes
    }


async def _complaints(cluster: LanCluster, nothing_left: bool) -> list[str]:
    """Everything that is not as it should be when all is quiet."""
    found = list(cluster.witness.wrongs()) + await stale(cluster.admin, LANS, LAN_NODES)
    lans = (await cluster.admin.list(LANS)).items
    alive = {item.metadata.uid for item in lans}
    nads = (await cluster.admin.list(NADS)).items
    # A NAD of a LAN that is gone stays while a pod uses it, also where another LAN wants one of that name.
    kept = {
        nad.metadata.key
        for nad in nads
        if nad.metadata.labels.get(UID_LABEL) not in alive and cluster.witness.users_of(nad.metadata.key)
    }
    for item in lans:
        ready = find(item.status.conditions, "Ready")
        reason = ready.reason if ready is not None else "none"
        fine: tuple[str, ...] = (
            ("DeletionBlocked",) if item.metadata.is_deleting else ("Ready", "Conflict", "SpokeInUse")
        )
        if cluster.witness.forced:
            # One that was removed by force is still on nodes with its pods, and so may be a NAD that they use. Its pods
            # are those of the next one, which waits for them, too.
            fine += ("NodesNotReady", "NADConflict", "Terminating")
        if kept & _nads_of(item):
            fine += ("NADConflict",)
        if item.metadata.key in cluster.witness.contested:
            fine += ("NodesNotReady", "NADConflict")
        uplink = item.spec.uplink
        if uplink is not None and not any(node.carries(uplink.vlan) for node in cluster.nodes.values()):
            fine += ("UplinkDown",)
        if not nothing_left:
            found += _unjoined(cluster, item, reason)
        if nothing_left or reason not in fine:
            found.append(f"LAN {item.metadata.name} is {reason}: {ready}")
    for name, kubelet in cluster.kubelets.items():
        if not (kubelet.empty if nothing_left else kubelet.idle):
            found.append(f"kubelet of {name} has pods that do not run, or not end")
    needed = {item.spec.uplink.lease for item in lans if item.spec.uplink is not None}
    for lease in (await cluster.admin.list(LEASES, BRIDGES_NAMESPACE)).items:
        if nothing_left or lease.metadata.name not in needed:
            found.append(f"Lease {lease.metadata.name} is left over: {lease.spec}")
    for nad in nads:
        owner = nad.metadata.labels.get(UID_LABEL)
        if nothing_left or (owner not in alive and nad.metadata.key not in kept):
            found.append(f"NAD {nad.metadata.name} is left over")
    if nothing_left:
        for node in cluster.nodes.values():
            found += [f"{node.name} has {text} left" for text in node.left()]
        for report in (await cluster.admin.list(LAN_NODES)).items:
            found += [f"{report.metadata.name} reports {entry}" for entry in report.status.lans]
    else:
        found += await _floods(cluster)
        found += await _unreported(cluster)
    return found


def _unjoined(cluster: LanCluster, item: LAN, reason: str) -> list[str]:
    """Where a LAN is not at its VLAN by one node, or not at the bridge of each host that has it."""
    spec, nodes = item.spec, cluster.nodes.values()
    if item.metadata.is_deleting or reason != "Ready":
        return []
    found = []
    joined = cluster.witness.uplink_links(item.metadata.uid)
    if len(joined) != (spec.uplink is not None):
        found.append(
            f"LAN {item.metadata.name} with the uplink {spec.uplink} is joined to its VLAN by {joined}"
        )
    if spec.host_bridge is not None:
        here = {node.name for node in nodes if spec.host_bridge.name in node.world.bridges}
        place, name = f"bridge:{spec.host_bridge.name}", far_name(item.metadata.uid)
        there = {
            node.name
            for node in nodes
            for end in node.world.ends
            if (end.place, end.link.name) == (place, name)
        }
        if here != there:
            found.append(f"LAN {item.metadata.name} is at the bridge on {there}, not on {here}")
    return found


async def _unreported(cluster: LanCluster) -> list[str]:
    """Uses of spokes that the node does not report: other nodes would give the spoke to others."""
    reports = {item.metadata.name: item.status.lans for item in (await cluster.admin.list(LAN_NODES)).items}
    found = []
    for use in cluster.witness.uses():
        said = [each for entry in reports.get(use.node, ()) for each in entry.spokes]
        names = {f"{use.pod.namespace}/{use.pod.name}"}
        if cluster.nodes[use.node].runs == "older":
            names.add("")
        if not any(each.name == use.device.spoke and each.pod in names for each in said):
            found.append(f"{use.node} does not report {use}: {said}")
    return found


async def _floods(cluster: LanCluster) -> list[str]:
    """Where frames for many receivers are not sent exactly to the other nodes that carry a LAN."""
    found = []
    for node in cluster.nodes.values():
        for ns, space in node.world.names.items():
            lans = cluster.witness.lans_in(
                space
            )  # one that was removed by force may have left its namespace's name
            others = {
                other.address
                for other in cluster.nodes.values()
                if ns in other.world.names and lans & cluster.witness.lans_in(other.world.names[ns])
            }
            wanted = others - {node.address}
            if space.flood != wanted:
                found.append(f"{node.name} sends frames of {ns} to {space.flood}, not to {wanted}")
    return found
