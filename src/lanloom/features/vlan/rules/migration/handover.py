"""Plan the way from Lanloom alone to Harvester's network controller (`lanloom harvester hand-over`).

Agents take the marks off bridges and bonds themselves when the controller's account comes. What is left are objects:
Harvester's webhook refuses every change of a VlanConfig without its label, or with another MTU than its neighbours, and
the conditions that only Lanloom writes would never be corrected.
"""

from collections.abc import Iterator

from msgspec import to_builtins

from lanloom.api import names
from lanloom.api.harvester import CLUSTER_NETWORKS, DEFAULT_MTU, VLAN_CONFIGS
from lanloom.api.l3 import AnnotationError
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import parse_config
from lanloom.features.vlan.rules.migration.hostnetworks import has_addresses, moves
from lanloom.features.vlan.rules.migration.plans import Change, Item, MigrationPlan, Snapshot, Wait, annotate
from lanloom.features.vlan.rules.migration.tohostnetworks import (
    addresses_kept,
    addresses_to_move,
    to_host_network,
)
from lanloom.features.vlan.rules.report.status import READY
from lanloom.text import listed


def plan_hand_over(now: Snapshot, *, convert: bool = False) -> MigrationPlan:
    """Return what is left until Harvester's controller makes the uplinks.

    Node addresses stay Lanloom's, unless `convert` asks for HostNetworkConfigs in the place of NADs.
    """
    refusals = tuple(_unequal_mtus(now))
    if refusals:
        return MigrationPlan(refusals=refusals)
    items = (*_labels(now), *_grants(now), *_arrival(now), *_conditions(now), *_host_networks(now, convert))
    return MigrationPlan(items=items, notes=(*_refused(now), *_kept(now, convert)))


def _unequal_mtus(now: Snapshot) -> Iterator[str]:
    """Yield the cluster networks whose VlanConfigs differ in the MTU, where 0 and the default are the same."""
    for network in now.networks:
        name = network.metadata.name
        found = {
            item.metadata.name: item.spec.uplink.linkAttributes.mtu
            for item in now.configs
            if item.spec.cluster_network == name != names.MGMT and not item.metadata.is_deleting
        }
        if len({mtu or DEFAULT_MTU for mtu in found.values()}) > 1:
            listing = ", ".join(f"{config} has {mtu}" for config, mtu in sorted(found.items()))
            yield (
                f"the VlanConfigs of {name} differ in spec.uplink.linkAttributes.mtu ({listing}), so that Harvester's "
                "webhook would refuse every change of them; give all of them the same"
            )


def _labels(now: Snapshot) -> Iterator[Item]:
    for item in now.configs:
        wanted = item.spec.cluster_network
        if item.metadata.labels.get(names.CLUSTER_NETWORK_LABEL) != wanted:
            yield Change(
                verb="change",
                resource=VLAN_CONFIGS,
                key=item.metadata.key,
                what="has the label that Harvester's webhook asks for",
                body={"metadata": {"labels": {names.CLUSTER_NETWORK_LABEL: wanted}}},
            )


def _grants(now: Snapshot) -> Iterator[Item]:
    for network in now.networks:
        if names.ADOPT_LINKS in network.metadata.annotations:
            what = "gives Lanloom no links any more"
            yield annotate(CLUSTER_NETWORKS, network.metadata.key, what, {names.ADOPT_LINKS: None})


def _arrival(now: Snapshot) -> Iterator[Item]:
    if not now.controller:
        yield Wait(
            until="Harvester's network controller is installed",
            remedy="set harvester-network-controller.enabled: true in the values of Harvester's chart",
        )
    alone = [node for node, mode in now.modes().items() if mode != "beside"]
    if alone:
        yield Wait(until=f"the agents of {listed(alone)} have taken their marks off bridges and bonds")


def _conditions(now: Snapshot) -> Iterator[Item]:
    for network in now.networks:
        kept = tuple(item for item in network.status.conditions if item.type == READY)
        if kept != network.status.conditions:
            yield Change(
                verb="change",
                resource=CLUSTER_NETWORKS,
                key=network.metadata.key,
                what="without the conditions that only Lanloom writes",
                body={"status": {"conditions": to_builtins(kept)}},
                version=network.metadata.resource_version,
                status=True,
            )


def _host_networks(now: Snapshot, convert: bool) -> Iterator[Item]:
    """Yield the moves of addresses: those that have begun and are nowhere now, and all of them if asked for."""
    begun = [move for move in moves(now, "") if move.nad is not None]
    lost = [move for move in begun if move.config is not None or not _asks(move.nad)]
    chosen = {move.key: move for move in (*lost, *(addresses_to_move(now) if convert else ()))}
    for move in chosen.values():
        yield from to_host_network(now, move)
    for move in begun:
        if move.key not in chosen:
            what = "keeps its node addresses"
            yield annotate(NADS, move.key, what, {names.HOST_NETWORK: None})


def _asks(nad: NetworkAttachmentDefinition | None) -> bool:
    return nad is not None and has_addresses(nad)


def _refused(now: Snapshot) -> tuple[str, ...]:
    """Name the NADs that Harvester's webhook does not take."""
    found = [str(nad.metadata.key) for nad in now.nads if not _is_harvesters(nad)]
    if not found:
        return ()
    return (
        f"Harvester's webhook refuses changes of the NADs {listed(found)}, whose bridge is no cluster network's; "
        "for LANs, exclude them from it",
    )


def _is_harvesters(nad: NetworkAttachmentDefinition) -> bool:
    try:
        return parse_config(nad.spec.config) is not None
    except AnnotationError:
        return True


def _kept(now: Snapshot, convert: bool) -> tuple[str, ...]:
    """Name the NADs whose addresses stay Lanloom's, with the reason where HostNetworkConfigs are asked for."""
    if convert:
        return tuple(
            f"Lanloom goes on to serve the node addresses of {kept.key}: {kept.reason}"
            for kept in addresses_kept(now)
        )
    found = sorted(
        str(nad.metadata.key) for nad in now.nads if has_addresses(nad) and not nad.metadata.is_deleting
    )
    if not found:
        return ()
    return (
        f"Lanloom goes on to serve the node addresses of {listed(found)}, alongside Harvester's controller",
    )
