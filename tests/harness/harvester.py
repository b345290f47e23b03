"""Harvester, as far as tests need it: its definitions, and what its controller does on hosts and to objects.

The definitions are facts of those that Harvester ships (`tests/api/harvester_crds.json`).
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from lanloom.api import names
from lanloom.api.admission import UserInfo
from lanloom.api.core import CRDS, NAMESPACES, SERVICE_ACCOUNTS
from lanloom.api.harvester import (
    CLUSTER_NETWORKS,
    DEFAULT_MTU,
    GROUP,
    VERSION,
    VLAN_CONFIGS,
    VLAN_STATUSES,
    VlanConfig,
)
from lanloom.api.multus import NADS
from lanloom.features.vlan.rules.names import vlan_status_name
from lanloom.kube.ports import Client
from lanloom.node.ports import Link
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.local import LocalClient
from lanloom_embedded.schema import ACCEPT_UNENFORCED
from tests.fakes import FakeHost

Raw = dict[str, Any]

FACTS: dict[str, Raw] = json.loads((Path(__file__).parents[1] / "api/harvester_crds.json").read_text())[
    "kinds"
]


def definitions() -> list[Raw]:
    """Harvester's CustomResourceDefinitions."""
    return [_definition(plural, facts) for plural, facts in sorted(FACTS.items())]


def _definition(plural: str, facts: Raw) -> Raw:
    version: Raw = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": _schema(facts["schema"])},
        "additionalPrinterColumns": [
            {"name": name, "type": "date" if name == "AGE" else "string", "jsonPath": path}
            for name, path in facts["columns"]
        ],
    }
    if facts["statusSubresource"]:
        version["subresources"] = {"status": {}}
    kind = {"plural": plural, **{key: facts[key] for key in ("kind", "singular", "shortNames")}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{GROUP}", "annotations": {ACCEPT_UNENFORCED: "accept"}},
        "spec": {"group": GROUP, "names": kind, "scope": "Cluster", "versions": [version]},
    }


def _schema(fields: dict[str, Raw]) -> Raw:
    """The schema of fields that are listed by paths such as `.spec.nics[]`."""
    root: Raw = dict(fields["."])
    made = {"": root}
    for path, facts in sorted(fields.items()):
        if path == ".":
            continue
        made[path] = dict(facts)
        if path.endswith("[]"):
            made[path[:-2]]["items"] = made[path]
        elif path.endswith("{}"):
            made[path[:-2]]["additionalProperties"] = made[path]
        else:
            parent, _, name = path.rpartition(".")
            made[parent].setdefault("properties", {})[name] = made[path]
    return root


async def install(admin: Client) -> None:
    """Its definitions in the place of Lanloom's, and its service account."""
    for manifest in definitions():
        name = manifest["metadata"]["name"]
        if name in {kind.full_name for kind in (CLUSTER_NETWORKS, VLAN_CONFIGS, VLAN_STATUSES)}:
            named = manifest["spec"]["names"] | {"categories": None}
            await admin.patch(CRDS, name, {"spec": manifest["spec"] | {"names": named}})
        else:
            await admin.create(CRDS, manifest)
    await admin.create(NAMESPACES, {"metadata": {"name": names.HARVESTER_NAMESPACE}})
    await install_account(admin)


async def install_account(admin: Client) -> None:
    """Its service account alone: it comes back, or comes where its definitions are already."""
    account = {"metadata": {"name": names.HARVESTER_ACCOUNT}}
    await admin.create(SERVICE_ACCOUNTS, account, names.HARVESTER_NAMESPACE)


async def uninstall(admin: Client) -> None:
    """Take its service account away; its definitions and objects stay."""
    await admin.delete(SERVICE_ACCOUNTS, names.HARVESTER_ACCOUNT, names.HARVESTER_NAMESPACE)


def webhook_refusal(config: VlanConfig, configs: Iterable[VlanConfig]) -> str:
    """What its webhook says to any update of a VlanConfig; empty if it lets it pass.

    Its controller's own updates are judged as well (Update and validateMTU of pkg/webhook/vlanconfig/validator.go,
    IsClusterNetworkLabelValid and AreEqualMTUs of pkg/utils, at 2e5cbea).
    """
    network = config.spec.cluster_network
    if config.metadata.is_deleting:
        return ""
    if config.metadata.labels.get(names.CLUSTER_NETWORK_LABEL, "") != network:
        return "cluster network label is invalid and must not be updated by user"
    mtus = {
        item.spec.uplink.linkAttributes.mtu or DEFAULT_MTU
        for item in (config, *configs)
        if item.metadata.labels.get(names.CLUSTER_NETWORK_LABEL) == network and not item.metadata.is_deleting
    }
    different = network != names.MGMT and len(mtus) > 1
    return "all vlanconfigs on one clusternetwork need to have same MTU" if different else ""


class Controller:
    """Its network controller: what that does for one cluster network, once."""

    def __init__(self, engine: Engine, hosts: dict[str, FakeHost]) -> None:
        self.client = LocalClient(engine, UserInfo(username=names.HARVESTER_CONTROLLER))
        self._hosts = hosts

    async def carry(self, cluster_network: str, config: str, nic: str) -> None:
        """Bond and bridge on every host, the reports, the nodes that match and the condition."""
        nodes = sorted(self._hosts)
        matched = {"metadata": {"annotations": {names.MATCHED_NODES: json.dumps(nodes)}}}
        await self.client.patch(VLAN_CONFIGS, config, matched)
        for node, host in sorted(self._hosts.items()):
            self._build(host, cluster_network, nic)
            await self.client.create(VLAN_STATUSES, _vlan_status(cluster_network, config, node))
        annotations = {names.UPLINK_MTU: "1500", names.MTU_SOURCE: config}
        ready = {"metadata": {"annotations": annotations}, "status": {"conditions": [_READY]}}
        await self.client.patch(CLUSTER_NETWORKS, cluster_network, ready)

    async def label(self, name: str, cluster_network: str, vid: int) -> None:
        """The labels of a NAD, and its VLAN id on the uplinks."""
        labels = {
            names.CLUSTER_NETWORK_LABEL: cluster_network,
            names.TYPE_LABEL: "L2VlanNetwork",
            names.VLAN_ID_LABEL: str(vid),
            names.READY_LABEL: "true",
        }
        await self.client.patch(NADS, name, {"metadata": {"labels": labels}}, "default")
        for host in self._hosts.values():
            host.add_vlan(names.bond_name(cluster_network), vid)

    def _build(self, host: FakeHost, cluster_network: str, nic: str) -> None:
        bridge, bond = names.bridge_name(cluster_network), names.bond_name(cluster_network)
        mac = host.kernel.links[nic].mac
        host.plant_link(
            Link(
                name=bond,
                index=0,
                kind="bond",
                mac=mac,
                up=True,
                tx_queue_length=1000,
                master=bridge,
                vlans=((1, 1),),
                bond_mode="active-backup",
                bond_miimon=100,
            )
        )
        host.plant_link(
            Link(
                name=bridge,
                index=0,
                kind="bridge",
                mac=mac,
                up=True,
                tx_queue_length=1000,
                vlan_filtering=True,
                self_vlans=((1, 1),),
            )
        )
        host.kernel.enslave_at_boot(nic, bond)
        host.kernel.change(nic, master=bond)


_READY = {"type": "ready", "status": "True", "lastUpdateTime": "2026-08-01T10:00:03Z"}


def _vlan_status(cluster_network: str, config: str, node: str) -> Raw:
    labels = {
        names.CLUSTER_NETWORK_LABEL: cluster_network,
        names.VLAN_CONFIG_LABEL: config,
        names.NODE_LABEL: node,
    }
    status = {
        "clusterNetwork": cluster_network,
        "vlanConfig": config,
        "linkMonitor": cluster_network,
        "node": node,
        "conditions": [_READY],
    }
    return {"metadata": {"name": vlan_status_name(cluster_network, node), "labels": labels}, "status": status}
