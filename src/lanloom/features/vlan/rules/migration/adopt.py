"""Plan the way from Harvester's network controller to Lanloom alone (`lanloom harvester adopt`).

The controller's finalizers go only when it is gone: until then it may have work to do for them. Links are given to the
agents one cluster network at a time, by an annotation that goes when the nodes report that they have them. Addresses of
a HostNetworkConfig stay on their link: a NAD takes note of it, then it is deleted, then the NAD asks for the same.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from lanloom.api import names
from lanloom.api.core import CRDS, NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, HOST_NETWORK_CONFIGS, VLAN_CONFIGS, ClusterNetwork
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.features.vlan.rules.desired.adoption import NO_GRANT, AdoptionGrant, grant_of
from lanloom.features.vlan.rules.migration.hostnetworks import Move, moves, refusal, to_nad
from lanloom.features.vlan.rules.migration.plans import (
    Change,
    Item,
    MigrationPlan,
    Snapshot,
    Wait,
    annotate,
    foreign_finalizers,
)
from lanloom.features.vlan.rules.report.status import READY
from lanloom.text import listed

KEEP = "helm.sh/resource-policy"
"""The annotation by which Helm keeps an object that is no longer in a chart."""

_HELM = "meta.helm.sh/release-name"


def plan_adoption(now: Snapshot, namespace: str) -> MigrationPlan:
    """Return what is left until Lanloom makes the uplinks alone. NADs for HostNetworkConfigs get into `namespace`."""
    refusals = (*_unserved(now), *_unconvertible(now, namespace))
    if refusals:
        return MigrationPlan(refusals=refusals)
    begun = moves(now, namespace)
    items = (
        *_kept_definitions(now),
        *_removal(now),
        *_webhooks(now),
        *_finalizers(now),
        *_installers(now),
        *_mode(now),
        *_grants(now, begun),
        *_moved(now, begun),
        *_taken(now, begun),
    )
    return MigrationPlan(items=items, notes=_notes(now))


def _unserved(now: Snapshot) -> Iterator[str]:
    """Yield the nodes that would not be served: those without an agent."""
    live = now.live_nodes()
    for network in now.networks:
        name = network.metadata.name
        missing = [node for node in now.nodes_of(network) if node in live and now.report(name, node) is None]
        if missing:
            yield (
                f"no agent of Lanloom reports {name} on {listed(missing)}; run Lanloom's agent there, so that "
                "the uplinks are served"
            )


def _unconvertible(now: Snapshot, namespace: str) -> Iterator[str]:
    for move in moves(now, namespace):
        if problem := refusal(now, move):
            yield f"HostNetworkConfig {move.wanted.name} can't become a NAD because {problem}"


def _kept_definitions(now: Snapshot) -> Iterator[Item]:
    for item in now.definitions:
        annotations = item.metadata.annotations
        if _HELM in annotations and annotations.get(KEEP) != "keep":
            what = "Helm keeps it, with its objects, when the chart lets go of it"
            yield annotate(CRDS, item.metadata.key, what, {KEEP: "keep"})


def _removal(now: Snapshot) -> Iterator[Item]:
    if now.controller or now.webhook:
        yield Wait(
            until="Harvester's network controller and its webhook are removed",
            remedy="set harvester-network-controller.enabled: false in the values of Harvester's chart",
        )


def _webhooks(now: Snapshot) -> Iterator[Item]:
    for resource, name in now.webhooks:
        what = "it is not answered any more"
        yield Change(verb="delete", resource=resource, key=Key("", name), what=what)


def _with_finalizers(now: Snapshot) -> Iterator[tuple[Resource[Any], Object]]:
    yield from ((VLAN_CONFIGS, item) for item in now.configs)
    yield from ((CLUSTER_NETWORKS, item) for item in now.networks)
    yield from ((NADS, item) for item in now.nads)
    yield from now.others
    yield from ((HOST_NETWORK_CONFIGS, item) for item in now.host_networks if item.metadata.is_deleting)
    yield from ((NODES, item) for item in now.nodes)


def _finalizers(now: Snapshot) -> Iterator[Item]:
    for resource, item in _with_finalizers(now):
        yield from _stripped(resource, item)


def _stripped(resource: Resource[Any], item: Object) -> Iterator[Item]:
    meta = item.metadata
    left = foreign_finalizers(item)
    if len(left) < len(meta.finalizers):
        yield Change(
            verb="change",
            resource=resource,
            key=meta.key,
            what="without the finalizers of Harvester's network controller",
            body={"metadata": {"finalizers": left}},
            version=meta.resource_version,
        )


def stuck(now: Snapshot) -> tuple[str, ...]:
    """Return the objects that can't be deleted once the controller of their finalizers is gone."""
    found = [*_with_finalizers(now), *((HOST_NETWORK_CONFIGS, item) for item in now.host_networks)]
    titles = (f"{kind.kind} {item.metadata.key}" for kind, item in found if any(_stripped(kind, item)))
    return tuple(dict.fromkeys(titles))


def _installers(now: Snapshot) -> Iterator[Item]:
    """Yield the deletion of the VlanConfigs that the controller made for the installer's uplink."""
    for item in now.configs:
        if item.spec.cluster_network == names.MGMT and not item.metadata.is_deleting:
            what = "it describes the uplink of the installer, and only Harvester's controller reads it"
            yield Change(verb="delete", resource=VLAN_CONFIGS, key=item.metadata.key, what=what)


def _mode(now: Snapshot) -> Iterator[Item]:
    coexisting = [node for node, mode in now.modes().items() if mode == "beside"]
    if coexisting:
        yield Wait(until=f"the agents of {listed(coexisting)} work alone, a minute after the removal")


def _wanted_grant(now: Snapshot, network: ClusterNetwork, begun: Iterable[Move]) -> AdoptionGrant:
    """Return what the nodes of a cluster network have yet to take."""
    name = network.metadata.name
    vlans = tuple(sorted({move.vid for move in begun if move.cluster_network == name}))
    nodes = _live_nodes(now, network)
    if not vlans:
        nodes = tuple(node for node in nodes if name != names.MGMT and _is_foreign(now, name, node))
    return AdoptionGrant(nodes, vlans) if nodes else NO_GRANT


def _live_nodes(now: Snapshot, network: ClusterNetwork) -> tuple[str, ...]:
    live = now.live_nodes()
    return tuple(node for node in now.nodes_of(network) if node in live)


def _is_foreign(now: Snapshot, network: str, node: str) -> bool:
    """Return whether a node's uplink is not Lanloom's: it is Harvester's, or was."""
    report = now.report(network, node)
    if report is None:
        return False
    said = {item.reason for item in report.conditions if item.type == READY and item.status != "True"}
    return report.mode == "beside" or "ForeignLink" in said


def _grants(now: Snapshot, begun: tuple[Move, ...]) -> Iterator[Item]:
    waits: list[str] = []
    for network in now.networks:
        wanted, present = _wanted_grant(now, network, begun), grant_of(network)
        name = network.metadata.name
        if wanted == NO_GRANT:
            continue
        grant = AdoptionGrant(
            tuple(sorted({*wanted.nodes, *present.nodes})), tuple(sorted({*wanted.vlans, *present.vlans}))
        )
        if grant != present:
            what = f"gives Lanloom the links on {listed(grant.nodes)}"
            text = msgspec.json.encode(grant).decode()
            yield annotate(CLUSTER_NETWORKS, network.metadata.key, what, {names.ADOPT_LINKS: text})
        if name != names.MGMT:
            waits += [f"{name} on {node}" for node in wanted.nodes if _is_foreign(now, name, node)]
    if waits:
        yield Wait(until=f"the agents have marked the bridges and bonds of {listed(waits)}")


def _moved(now: Snapshot, begun: tuple[Move, ...]) -> Iterator[Item]:
    for move in begun:
        network = next((item for item in now.networks if item.metadata.name == move.cluster_network), None)
        yield from to_nad(now, move, _live_nodes(now, network) if network is not None else ())


def _taken(now: Snapshot, begun: tuple[Move, ...]) -> Iterator[Item]:
    for network in now.networks:
        given = names.ADOPT_LINKS in network.metadata.annotations
        if given or _wanted_grant(now, network, begun) != NO_GRANT:
            what = "has no links left to give"
            yield annotate(CLUSTER_NETWORKS, network.metadata.key, what, {names.ADOPT_LINKS: None})


def _notes(now: Snapshot) -> tuple[str, ...]:
    live = now.live_nodes()
    down = sorted({node for network in now.networks for node in now.nodes_of(network) if node not in live})
    if not down:
        return ()
    return (
        f"{listed(down)} is down: run the command again when it is back. After a reboot it has no links to take.",
    )
