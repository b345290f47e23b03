"""Golden cases: a folder with a cluster's objects, and for each node what it must then have in `/etc` and as links."""

import os
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.owned import NOTHING
from lanloom.features.vlan.rules.desired.plan import Plan, plan
from lanloom.features.vlan.rules.desired.reserved import management
from lanloom.node.ports import Link
from lanloom.node.vlanids import render, vlan_ids
from tests.fakes import FakeHost, FakeSwitch
from tests.features.vlan.cluster import Cluster, cluster_of

ROOT = Path(__file__).parents[3] / "golden" / "vlan"
PROFILES = "etc/NetworkManager/system-connections"

REWRITE = os.environ.get("LANLOOM_GOLDEN") == "rewrite"
"""LANLOOM_GOLDEN=rewrite: the expected files are written instead of compared; read the diff before you commit it."""

Tree = dict[str, str]
"""Path below the case's folder → content."""


class Case(Struct, frozen=True):
    """One folder. `nodes` are those that are looked at; `managed` says whether a manager has been at the objects.

    `management` is the management network of each node, as FakeHost.plant_management takes it, where there is one.
    """

    folder: Path
    title: str
    objects: list[dict[str, Any]]
    nodes: list[str]
    nics: list[str]
    managed: bool
    management: dict[str, Any] | None

    def actual(self) -> Tree:
        """What the rules make of the objects, on hosts that have nothing yet."""
        cluster = cluster_of(self.objects)
        if self.managed:
            cluster = cluster.managed()
        tree: Tree = {}
        for node in self.nodes:
            tree |= {f"{node}/{path}": text for path, text in self._on(node, cluster).items()}
        return tree

    def expected(self) -> Tree:
        """What the folder holds."""
        files = [path for path in self.folder.rglob("*") if path.is_file() and path.parent != self.folder]
        return {str(path.relative_to(self.folder)): path.read_text() for path in files}

    def rewrite(self, tree: Tree) -> None:
        """Makes the folder hold this tree."""
        for path in self.expected().keys() - tree.keys():
            (self.folder / path).unlink()
        for path, text in tree.items():
            (self.folder / path).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / path).write_text(text)

    def _on(self, node: str, cluster: Cluster) -> Tree:
        host = FakeHost(node, tuple(self.nics), switch=FakeSwitch(), now=lambda: 0.0)
        if self.management is not None:
            host.plant_management(**self.management)
        before = dict(host.kernel.links)
        wanted = cluster.on_node(node, management=management(host.kernel.state()))
        todo = plan(wanted, host.kernel.state(), {})
        for _, steps in todo.steps:
            for step in steps:
                host.kernel.apply(step)
        links = {name: _shown(link) for name, link in host.kernel.links.items() if link != before.get(name)}
        for network in wanted:
            bond = host.kernel.links.get(network.bond)
            if bond is not None and network.mac:
                links[network.bond]["mac"] = bond.mac
            if bond is not None and network.tx_queue_length is not None:
                links[network.bond]["queue"] = bond.tx_queue_length
        report: dict[str, Any] = {"links": links, "interfaces": _interfaces(wanted)}
        report |= {"problems": _problems(wanted, todo), "added": _added(todo)}
        report = {key: value for key, value in report.items() if value}
        tree = {f"{PROFILES}/{name}": content.decode() for name, content in todo.write_files}
        tree["links.yaml"] = yaml.safe_dump(report, sort_keys=True, width=100) if report else "{}\n"
        return tree


def cases() -> list[Case]:
    """Every case, ordered by name."""
    return [_read(folder) for folder in sorted(ROOT.iterdir()) if folder.is_dir()]


def _read(folder: Path) -> Case:
    text = yaml.load((folder / "input.yaml").read_text(), yaml.CSafeLoader)
    objects = text["objects"]
    named = [item["metadata"]["name"] for item in objects if item["kind"] == "Node"]
    return Case(
        folder,
        text["title"],
        objects,
        text.get("nodes", named),
        text.get("nics", ["eth0", "eth1"]),
        text.get("managed", True),
        text.get("management"),
    )


def _shown(link: Link) -> dict[str, Any]:
    fields = {
        "kind": link.kind,
        "master": link.master,
        "mode": link.bond_mode,
        "miimon": link.bond_miimon,
        "mtu": link.mtu if link.mtu != 1500 else 0,
        "vlans": render(link.vlans),
        "self vlans": render(link.self_vlans),
    }
    return {key: value for key, value in fields.items() if value}


def _interfaces(wanted: tuple[NodeNetwork, ...]) -> dict[str, str]:
    return {
        item.name: f"{item.network}: VLAN {item.vid}, {item.address or item.mode}"
        + (f", table {item.table}" if item.table else "")
        for network in wanted
        for item in network.interfaces
    }


def _added(todo: Plan) -> dict[str, str]:
    added = todo.added.get("mgmt", NOTHING)
    fields = {
        "bridge": render(added.bridge),
        "uplink": f"{added.port}: {render(added.uplink)}" if added.port else "",
        "interfaces": render(vlan_ids(added.links)),
    }
    return {key: value for key, value in fields.items() if value}


def _problems(wanted: tuple[NodeNetwork, ...], todo: Plan) -> list[str]:
    found = [
        (network.cluster_network, problem)
        for network in wanted
        for problem in (*network.problems, *todo.problems.get(network.cluster_network, ()))
    ]
    return [f"{name}: {problem.reason}: {problem.network}: {problem.message}" for name, problem in found]
