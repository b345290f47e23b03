"""Harvester's agent on one node: uplinks, their VLAN ids, and the sub-interfaces of HostNetworkConfigs.

It acts on changes of objects only, never on those of links: a link that was deleted stays away until an object changes,
or the agent starts. Left out are its reports of NICs in LinkMonitors, whose finalizer it has.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lanloom.api import names
from lanloom.api.core import NODES
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    ClusterNetwork,
    VlanConfig,
    VlanStatus,
)
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.desired.names import vlan_status_name
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom.node.ports import Link
from lanloom.node.vlanids import contains
from lanloom_lab.harvester import rules
from lanloom_lab.harvester.links import (
    AddBond,
    AddBridge,
    AddVlanLink,
    Delete,
    NodeLinks,
    SetAddress,
    SetMaster,
    SetVlan,
    Step,
)
from lanloom_lab.harvester.objects import (
    HOST_NETWORKS,
    MONITORS,
    READY,
    HostNetwork,
    LinkMonitor,
    Raw,
    with_ready,
)
from lanloom_lab.harvester.wrangler import NotYetError, Wrangler

Links = Mapping[str, Link]


class Agent:
    """The handlers of pkg/controller/agent on the node called `node`."""

    def __init__(self, wrangler: Wrangler, node: str, links: NodeLinks) -> None:
        self._wrangler = wrangler
        self._client = wrangler.client
        self._node = node
        self._links = links
        self._leased: set[str] = set()
        self._nads = wrangler.store(NADS)
        self._nodes = wrangler.store(NODES)
        self._statuses = wrangler.store(VLAN_STATUSES)
        self._hosts = wrangler.store(HOST_NETWORKS)
        wrangler.on_change(VLAN_CONFIGS, self._follow_config)
        wrangler.on_remove("harvester-network-vlanconfig-controller", VLAN_CONFIGS, self._drop_config)
        wrangler.on_change(CLUSTER_NETWORKS, self._carry_vlans)
        wrangler.on_change(HOST_NETWORKS, self._follow_host_network)
        name = "harvester-network-hostnetworkconfig-controller"
        wrangler.on_remove(name, HOST_NETWORKS, self._drop_host_network)
        wrangler.on_remove("harvester-network-link-monitor-controller", MONITORS, self._drop_monitor)

    async def initialize(self) -> None:
        """Describe the installer's uplink (vlanconfig/controller.go); the agent does not start without that."""
        body = rules.mgmt_config(self._node, await self._links.read())
        if body is not None:
            with suppress(AlreadyExists):
                await self._client.create(VLAN_CONFIGS, body)

    # VlanConfigs: vlanconfig/controller.go

    async def _follow_config(self, config: VlanConfig) -> None:
        """Set the uplink up, and take down the one that it was before it went to another cluster network (OnChange)."""
        network = config.spec.cluster_network
        if network in (names.MGMT, "") or config.metadata.is_deleting:
            return
        matched = self._node in rules.matched_nodes(config)
        status = self._status_of(config)
        if status is not None and (not matched or status.status.cluster_network != network):
            await self._tear_down(status)
        if matched:
            await self._set_up(config)

    async def _drop_config(self, config: VlanConfig) -> None:
        status = self._status_of(config)
        if config.spec.cluster_network != names.MGMT and status is not None:
            await self._tear_down(status)

    async def _set_up(self, config: VlanConfig) -> None:
        network, trouble = config.spec.cluster_network, ""
        try:
            links = await self._links.read()
            await self._links.apply(*_uplink(config, links))
        except NotYetError as error:
            trouble = str(error)
        await self._report(config, trouble)
        if trouble:
            raise NotYetError(f"set up VLAN failed, vlanconfig: {config.metadata.name}, error: {trouble}")
        await self._label_node(network, config.metadata.name)
        self._wrangler.enqueue(CLUSTER_NETWORKS, network)
        self._wake_host_networks(network)

    async def _tear_down(self, status: VlanStatus) -> None:
        """Delete bond and bridge, whatever made them, and with them what is on the bridge (removeVLAN)."""
        network = status.status.cluster_network
        bond, bridge = names.bond_name(network), names.bridge_name(network)
        links = await self._links.read()
        nics = [link.name for link in links.values() if link.master == bond]
        if bond in links and bridge in links:
            await self._links.apply(
                SetMaster(bond, ""), *(SetMaster(nic, "") for nic in nics), Delete(bond), Delete(bridge)
            )
        await self._unlabel_node(network, status.status.vlan_config)
        with suppress(NotFound):
            await self._client.delete(VLAN_STATUSES, status.metadata.name)
        self._wake_host_networks(network)

    def _status_of(self, config: VlanConfig) -> VlanStatus | None:
        """Return the report of this node by its labels; it tells the cluster network that the uplink was set up for."""
        wanted = {names.VLAN_CONFIG_LABEL: config.metadata.name, names.NODE_LABEL: self._node}
        found = (item for item in self._statuses.items() if wanted.items() <= item.metadata.labels.items())
        return next(found, None)

    async def _report(self, config: VlanConfig, trouble: str) -> None:
        """Write the VlanStatus; one that another writer created is taken over (updateStatus)."""
        network, meta = config.spec.cluster_network, config.metadata
        name = vlan_status_name(network, self._node)
        present = self._statuses.get(Key("", name))
        labels = {
            names.CLUSTER_NETWORK_LABEL: network,
            names.VLAN_CONFIG_LABEL: meta.name,
            names.NODE_LABEL: self._node,
        }
        conditions = present.status.conditions if present is not None else ()
        status = {
            "clusterNetwork": network,
            "vlanConfig": meta.name,
            "linkMonitor": network,
            "node": self._node,
            "conditions": with_ready(conditions, not trouble, trouble),
        }
        if present is None:
            owner = {
                "apiVersion": VLAN_CONFIGS.api_version,
                "kind": "VlanConfig",
                "name": meta.name,
                "uid": meta.uid,
            }
            metadata = {"name": name, "labels": labels, "ownerReferences": [owner]}
            await self._client.create(VLAN_STATUSES, {"metadata": metadata, "status": status})
        elif not _is_reported(present, labels, status):
            await self._wrangler.update(
                VLAN_STATUSES, present, {"metadata": {"labels": labels}, "status": status}
            )

    async def _label_node(self, network: str, config: str) -> None:
        wanted = {names.PREFIX + network: "true", names.VLAN_CONFIG_LABEL: config}
        node = self._nodes.get(Key("", self._node))
        if node is not None and not wanted.items() <= node.metadata.labels.items():
            await self._wrangler.update(NODES, node, {"metadata": {"labels": wanted}})

    async def _unlabel_node(self, network: str, config: str) -> None:
        node, key = self._nodes.get(Key("", self._node)), names.PREFIX + network
        labels = node.metadata.labels if node is not None else {}
        if node is not None and (key in labels or labels.get(names.VLAN_CONFIG_LABEL) == config):
            gone = {key: None, names.VLAN_CONFIG_LABEL: None}
            await self._wrangler.update(NODES, node, {"metadata": {"labels": gone}})

    # ClusterNetworks: clusternetwork/controller.go

    async def _carry_vlans(self, network: ClusterNetwork) -> None:
        """Let the uplink carry the ids of the NADs, and of links that are called like sub-interfaces (OnChange)."""
        name, links = network.metadata.name, await self._links.read()
        bond = links.get(names.bond_name(name))
        if network.metadata.is_deleting or bond is None or names.bridge_name(name) not in links:
            return
        wanted = rules.network_vids(name, self._nads.items()) | rules.manual_vids(name, links)
        present = {vid for first, last in bond.vlans for vid in range(first, last + 1)}
        changed = sorted((wanted ^ present) - {1})
        await self._links.apply(*(SetVlan(bond.name, vid, vid in wanted) for vid in changed))

    # HostNetworkConfigs: hostnetworkconfig/controller.go

    def _wake_host_networks(self, network: str) -> None:
        for item in self._hosts.items():
            if item.spec.cluster_network == network and not item.metadata.is_deleting:
                self._wrangler.enqueue(HOST_NETWORKS, item.metadata.name)

    async def _follow_host_network(self, item: HostNetwork) -> None:
        """Make the sub-interface with its address; one that is there is left as it is, whatever made it (OnChange)."""
        if item.metadata.is_deleting:
            return
        spec, links = item.spec, await self._links.read()
        name = rules.host_link(spec.cluster_network, spec.vlanID)
        uplink = {names.bond_name(spec.cluster_network), names.bridge_name(spec.cluster_network)}
        exists = uplink <= links.keys() and name in links
        if not self._is_selected(item):
            if exists:
                await self._delete_link(item, links)
            await self._write_part(item, None)
        elif exists:
            await self._write_part(item, "")
        elif uplink <= links.keys():
            await self._add_link(item, name)

    async def _add_link(self, item: HostNetwork, name: str) -> None:
        spec, bridge = item.spec, names.bridge_name(item.spec.cluster_network)
        trouble = ""
        try:
            await self._links.apply(
                SetVlan(bridge, spec.vlanID, on=True, itself=True), AddVlanLink(name, bridge, spec.vlanID)
            )
            # The address of a DHCP server needs the id on the uplink, which the other handler puts there.
            self._wrangler.enqueue(CLUSTER_NETWORKS, spec.cluster_network)
            await self._links.apply(SetAddress(name, await self._address(item, name)))
        except NotYetError as error:
            trouble = f"setup l3 connectivity failed: {error}"
        await self._write_part(item, trouble)
        if trouble:
            raise NotYetError(f"{item.metadata.name}: {trouble}")

    async def _address(self, item: HostNetwork, name: str) -> str:
        if item.spec.mode == "dhcp":
            return await self._links.lease(name)
        if self._node in item.spec.ips:
            return item.spec.ips[self._node]
        raise NotYetError(f"no matching IP found for node {self._node}")

    async def _drop_host_network(self, item: HostNetwork) -> None:
        links = await self._links.read()
        if names.bridge_name(item.spec.cluster_network) in links:
            await self._delete_link(item, links)

    async def _delete_link(self, item: HostNetwork, links: Links) -> None:
        """Delete the link of that name, whatever made it, and its id on the bridge (removeHostNetworkInterface)."""
        spec = item.spec
        name, bridge = (
            rules.host_link(spec.cluster_network, spec.vlanID),
            names.bridge_name(spec.cluster_network),
        )
        steps: list[Step] = []
        if contains(links[bridge].self_vlans, spec.vlanID):
            steps.append(SetVlan(bridge, spec.vlanID, on=False, itself=True))
        if name in links:
            steps.append(Delete(name))
        await self._links.apply(*steps)
        self._wrangler.enqueue(CLUSTER_NETWORKS, spec.cluster_network)

    def _is_selected(self, item: HostNetwork) -> bool:
        node = self._nodes.get(Key("", self._node))
        wanted = item.spec.node_selector.get("matchLabels", {})
        return not wanted or (node is not None and wanted.items() <= node.metadata.labels.items())

    async def _write_part(self, item: HostNetwork, trouble: str | None) -> None:
        """Write this node's part of the status; None: it has none."""
        own: Any = None
        if trouble is not None:
            condition: Raw = {"type": READY, "status": str(not trouble), "message": trouble}
            own = {
                "clusterNetwork": item.spec.cluster_network,
                "vlanID": item.spec.vlanID,
                "mode": item.spec.mode,
                "conditions": [condition],
            }
        if item.status.get("nodeStatus", {}).get(self._node) != own:
            patch = {"status": {"nodeStatus": {self._node: own}}}
            with suppress(NotFound):
                await self._client.patch(HOST_NETWORKS, item.metadata.name, patch, subresource="status")

    async def _drop_monitor(self, item: LinkMonitor) -> None:
        """Stop looking at its NICs, which is nothing here."""


def _is_reported(status: VlanStatus, labels: Mapping[str, str], wanted: Raw) -> bool:
    found, ready = status.status, next(item for item in wanted["conditions"] if item["type"] == READY)
    return (
        status.metadata.labels == labels
        and (found.cluster_network, found.vlan_config, found.link_monitor, found.node)
        == (wanted["clusterNetwork"], wanted["vlanConfig"], wanted["linkMonitor"], wanted["node"])
        and any(
            (item.type, item.status, item.message) == (READY, ready["status"], ready.get("message", ""))
            for item in found.conditions
        )
    )


def _uplink(config: VlanConfig, links: Links) -> list[Step]:
    """Return what makes bond and bridge as the VlanConfig says; those that are there stay, whatever made them.

    A bond that differs is made again, and the bridge is never (setUplink, EnsureBond of pkg/network/iface/bond.go).
    """
    spec, attributes = config.spec, config.spec.uplink.linkAttributes
    name, bridge = names.bond_name(spec.cluster_network), names.bridge_name(spec.cluster_network)
    bond, steps = links.get(name), list[Step]()
    slaves = {link.name for link in links.values() if link.master == name}
    master = bond.master if bond is not None else ""
    if bond is None or not rules.is_bond_kept(bond, config):
        steps += [Delete(name)] if bond is not None else []
        mode, miimon = spec.uplink.bondOptions.mode, rules.miimon_of(config)
        steps.append(AddBond(name, mode, miimon, attributes.mtu, attributes.txQLen))
        slaves, master = set(), ""
    for nic in spec.uplink.nics:
        link = links.get(nic)
        if link is None:
            raise NotYetError(f"get link {nic} failed, error: Link not found")
        if link.master not in ("", name):
            raise NotYetError(f"{nic} has been enslaved by the link {link.master}")
        steps += [SetMaster(nic, name, bonding=True)] if nic not in slaves else []
    steps += [SetMaster(nic, "") for nic in sorted(slaves - set(spec.uplink.nics))]
    present = links.get(bridge)
    if present is None or not (present.up and present.vlan_filtering):
        steps.append(AddBridge(bridge))
    if master != bridge:
        steps.append(SetMaster(name, bridge))
    return steps
