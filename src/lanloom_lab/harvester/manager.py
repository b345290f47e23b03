"""Harvester's manager: one in a cluster, which keeps objects in line and touches no host.

Left out are its jobs that ask DHCP servers for a network's gateway, its pings of that gateway, and overlay networks.
"""

from contextlib import suppress
from typing import Any

import msgspec

from lanloom.api import names
from lanloom.api.core import NODES, Node
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    DEFAULT_MTU,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    ClusterNetwork,
    VlanConfig,
    VlanStatus,
)
from lanloom.api.meta import Key, Object
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.resource import Resource
from lanloom.kube.errors import AlreadyExists, NotFound
from lanloom_lab.harvester import rules
from lanloom_lab.harvester.objects import (
    HOST_NETWORKS,
    MONITORS,
    READY,
    Raw,
    annotated,
    is_not_ready,
    is_ready,
    with_ready,
)
from lanloom_lab.harvester.rules import MGMT_LABEL
from lanloom_lab.harvester.wrangler import NotYetError, Wrangler


class Manager:
    """The handlers of pkg/controller/manager."""

    def __init__(self, wrangler: Wrangler) -> None:
        self._wrangler = wrangler
        self._client = wrangler.client
        self._networks = wrangler.store(CLUSTER_NETWORKS)
        self._configs = wrangler.store(VLAN_CONFIGS)
        self._statuses = wrangler.store(VLAN_STATUSES)
        self._nads = wrangler.store(NADS)
        self._hosts = wrangler.store(HOST_NETWORKS)
        wrangler.on_change(NODES, self._follow_node)
        wrangler.on_remove("harvester-network-manager-node-controller", NODES, self._forget_node)
        wrangler.on_change(VLAN_CONFIGS, self._ensure_network)
        name = "harvester-network-manager-vlanconfig-controller"
        wrangler.on_remove(name, VLAN_CONFIGS, self._pass_mtu_on)
        wrangler.on_change(VLAN_STATUSES, self._call_ready)
        wrangler.on_remove(name, VLAN_STATUSES, self._call_not_ready)
        for handler in (
            self._ensure_monitor,
            self._report_to_nads,
            self._report_to_host_networks,
            self._spread_mtu,
        ):
            wrangler.on_change(CLUSTER_NETWORKS, handler)
        wrangler.on_remove("harvester-network-manager-cn-controller", CLUSTER_NETWORKS, self._delete_monitor)
        wrangler.on_change(NADS, self._label)
        wrangler.on_remove("harvester-network-manager-nad-controller", NADS, self._update_vlan_set)

    async def initialize(self) -> None:
        """Make `mgmt`, which is ready, and the monitor of all NICs (initialize of clusternetwork/controller.go)."""
        conditions = with_ready((), ready=True)
        with suppress(AlreadyExists):
            body: Raw = {"metadata": {"name": names.MGMT}, "status": {"conditions": conditions}}
            await self._client.create(CLUSTER_NETWORKS, body)
        with suppress(AlreadyExists):
            rule = {"targetLinkRule": {"typeRule": "device"}}
            await self._client.create(MONITORS, {"metadata": {"name": "nic"}, "spec": rule})

    # Nodes: node/controller.go

    async def _follow_node(self, node: Node) -> None:
        """Label a node, and put it into or out of each VlanConfig's list; a refused write keeps the rest back."""
        if node.metadata.is_deleting:
            return
        if node.metadata.labels.get(MGMT_LABEL) != "true":
            await self._wrangler.update(NODES, node, {"metadata": {"labels": {MGMT_LABEL: "true"}}})
        if names.WITNESS_ROLE in node.metadata.labels:
            return
        for config in sorted(self._configs.items(), key=_by_name):
            if config.spec.cluster_network != names.MGMT:
                selected = rules.is_selected(config.spec.node_selector, node)
                await self._match(VLAN_CONFIGS, config, node, selected=selected)
        for host in sorted(self._hosts.items(), key=_by_name):
            if host.spec.node_selector and not host.metadata.is_deleting:
                wanted = host.spec.node_selector.get("matchLabels", {})
                selected = wanted.items() <= node.metadata.labels.items()
                await self._match(HOST_NETWORKS, host, node, selected=selected)

    async def _match(self, resource: Resource[Any], item: Object, node: Node, *, selected: bool) -> None:
        found = set(rules.matched_nodes(item))
        wanted = found | {node.metadata.name} if selected else found - {node.metadata.name}
        if wanted != found:
            text = msgspec.json.encode(sorted(wanted)).decode()
            await self._wrangler.update(resource, item, annotated(matched_nodes=text))

    async def _forget_node(self, node: Node) -> None:
        name = node.metadata.name
        for config in sorted(self._configs.items(), key=_by_name):
            if config.spec.cluster_network == names.MGMT:
                if config.metadata.name == rules.MGMT_CONFIG + name:
                    await self._delete(VLAN_CONFIGS, config.metadata.name)
            elif name in rules.matched_nodes(config):
                await self._match(VLAN_CONFIGS, config, node, selected=False)
                for status in self._statuses_of(config.spec.cluster_network):
                    if (status.status.vlan_config, status.status.node) == (config.metadata.name, name):
                        await self._delete(VLAN_STATUSES, status.metadata.name)

    # VlanConfigs and VlanStatuses: vlanconfig/controller.go

    async def _ensure_network(self, config: VlanConfig) -> None:
        name = config.spec.cluster_network
        if name == names.MGMT or config.metadata.is_deleting:
            return
        mtu = str(rules.mtu_of(config))
        wanted = annotated(uplink_mtu=mtu, mtu_source_vc=config.metadata.name)
        network = self._network(name)
        if network is None:
            await self._client.create(CLUSTER_NETWORKS, {"metadata": {"name": name, **wanted["metadata"]}})
        elif network.metadata.annotations.get(names.UPLINK_MTU) != mtu:
            await self._wrangler.update(CLUSTER_NETWORKS, network, wanted)

    async def _pass_mtu_on(self, config: VlanConfig) -> None:
        """Name another VlanConfig as the source of the MTU, or none."""
        network = self._network(config.spec.cluster_network)
        if network is None or network.metadata.annotations.get(names.MTU_SOURCE) != config.metadata.name:
            return
        others = [
            other
            for other in sorted(self._configs.items(), key=_by_name)
            if other.metadata.labels.get(names.CLUSTER_NETWORK_LABEL) == network.metadata.name
            and other.metadata.name != config.metadata.name
            and not other.metadata.is_deleting
        ]
        others.sort(key=lambda other: not other.spec.uplink.linkAttributes.mtu)
        patch = annotated(uplink_mtu=None, mtu_source_vc=None)
        if others:
            mtu = str(rules.mtu_of(others[0]))
            patch = annotated(uplink_mtu=mtu, mtu_source_vc=others[0].metadata.name)
        await self._wrangler.update(CLUSTER_NETWORKS, network, patch)

    async def _call_ready(self, status: VlanStatus) -> None:
        """One node's report makes a network ready, whatever it says."""
        name = status.status.cluster_network
        if name == names.MGMT or status.metadata.is_deleting:
            return
        network = self._network(name)
        if network is None:
            raise NotYetError(f"there is no cluster network {name}")
        if not is_ready(network.status.conditions):
            await self._set_ready(network, ready=True)

    async def _call_not_ready(self, status: VlanStatus) -> None:
        name = status.status.cluster_network
        others = [item for item in self._statuses_of(name) if item.metadata.name != status.metadata.name]
        network = self._network(name)
        if name == names.MGMT or others or network is None or is_not_ready(network.status.conditions):
            return
        await self._set_ready(network, ready=False)

    async def _set_ready(self, network: ClusterNetwork, *, ready: bool) -> None:
        conditions = with_ready(network.status.conditions, ready)
        await self._wrangler.update(CLUSTER_NETWORKS, network, {"status": {"conditions": conditions}})

    # ClusterNetworks: clusternetwork/controller.go and nad/controller.go

    async def _ensure_monitor(self, network: ClusterNetwork) -> None:
        name = network.metadata.name
        ready = is_ready(network.status.conditions) and not network.metadata.is_deleting
        if ready and self._wrangler.store(MONITORS).get(Key("", name)) is None:
            rule = {"targetLinkRule": {"nameRule": f"{name}(-br|-bo)"}}
            with suppress(AlreadyExists):
                await self._client.create(MONITORS, {"metadata": {"name": name}, "spec": rule})

    async def _delete_monitor(self, network: ClusterNetwork) -> None:
        await self._delete(MONITORS, network.metadata.name)

    async def _report_to_nads(self, network: ClusterNetwork) -> None:
        ready = is_ready(network.status.conditions) and not network.metadata.is_deleting
        text = "true" if ready else "false"
        for nad in self._nads_of(network):
            if nad.metadata.labels.get(names.READY_LABEL) != text and not nad.metadata.is_deleting:
                await self._wrangler.update(NADS, nad, {"metadata": {"labels": {names.READY_LABEL: text}}})

    async def _report_to_host_networks(self, network: ClusterNetwork) -> None:
        ready = is_ready(network.status.conditions) and not network.metadata.is_deleting
        message = "" if ready else "cluster network is down, global host network status is unready"
        for host in sorted(self._hosts.items(), key=_by_name):
            conditions = msgspec.convert(host.status.get("conditions", ()), tuple[_Condition, ...])
            reported = next((item.status for item in conditions if item.type == READY), "")
            mine = host.spec.cluster_network == network.metadata.name and not host.metadata.is_deleting
            if mine and reported != str(ready):
                own = {"type": READY, "status": str(ready), "message": message}
                patch = {"status": {"conditions": [own]}}
                await self._client.patch(HOST_NETWORKS, host.metadata.name, patch, subresource="status")

    async def _spread_mtu(self, network: ClusterNetwork) -> None:
        """Write the MTU of the network into its NADs (OnCNChange of nad/controller.go)."""
        text = network.metadata.annotations.get(names.UPLINK_MTU, "")
        if network.metadata.is_deleting or not text.isdecimal():
            return
        for nad in self._nads_of(network):
            config = rules.config_of(nad)
            if (config.get("mtu") or DEFAULT_MTU) != (int(text) or DEFAULT_MTU):
                changed = msgspec.json.encode(config | {"mtu": int(text)}).decode()
                await self._wrangler.update(NADS, nad, {"spec": {"config": changed}})

    # NADs: nad/controller.go

    async def _label(self, nad: NetworkAttachmentDefinition) -> None:
        if nad.metadata.is_deleting:
            return
        labels = rules.nad_labels(nad.metadata.labels, rules.config_of(nad))
        network = self._network(labels[names.CLUSTER_NETWORK_LABEL])
        if network is None:
            raise NotYetError(f"there is no cluster network {labels[names.CLUSTER_NETWORK_LABEL]}")
        labels[names.READY_LABEL] = "true" if is_ready(network.status.conditions) else "false"
        if labels != nad.metadata.labels:
            gone = dict.fromkeys(nad.metadata.labels.keys() - labels.keys())
            await self._wrangler.update(NADS, nad, {"metadata": {"labels": labels | gone}})
        else:
            await self._update_vlan_set(nad)

    async def _update_vlan_set(self, nad: NetworkAttachmentDefinition) -> None:
        """Tell agents the VLAN ids of a network's NADs, at each event of one of them (UpdateClusterNetworkVlanSet)."""
        network = self._network(nad.metadata.labels.get(names.CLUSTER_NETWORK_LABEL, ""))
        if network is None or network.metadata.is_deleting:
            return
        wanted = rules.vlan_set(rules.network_vids(network.metadata.name, self._nads.items()))
        if not wanted.items() <= network.metadata.annotations.items():
            await self._wrangler.update(CLUSTER_NETWORKS, network, {"metadata": {"annotations": wanted}})

    # Helpers

    def _network(self, name: str) -> ClusterNetwork | None:
        return self._networks.get(Key("", name))

    def _statuses_of(self, network: str) -> list[VlanStatus]:
        found = (item for item in self._statuses.items() if item.status.cluster_network == network)
        return sorted(found, key=_by_name)

    def _nads_of(self, network: ClusterNetwork) -> list[NetworkAttachmentDefinition]:
        name = network.metadata.name
        found = (
            nad for nad in self._nads.items() if nad.metadata.labels.get(names.CLUSTER_NETWORK_LABEL) == name
        )
        return sorted(found, key=_by_name)

    async def _delete(self, resource: Resource[Any], name: str) -> None:
        with suppress(NotFound):
            await self._client.delete(resource, name)


class _Condition(msgspec.Struct, frozen=True):
    type: str
    status: str


def _by_name(item: Object) -> tuple[str, str]:
    return item.metadata.key
