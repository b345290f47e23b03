"""A server with two tenants, and requests to it in the name of each role."""

import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import suppress

from lanloom.api import names
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.lan import LANS
from lanloom.features.vlan.rules.desired.names import node_label, report_name
from lanloom.kube.config import ClusterConfig
from tests.security.cases import HARVESTER, Raw, lan, path

RBAC = "/apis/rbac.authorization.k8s.io/v1"
EVERY = ["get", "list", "watch", "create", "update", "patch", "delete"]
OWN_ROLES: dict[str, tuple[bool, str, list[str]]] = {
    "nads": (True, "k8s.cni.cncf.io", ["network-attachment-definitions"]),
    "machines": (True, "liveupdate.lanloom.io", ["networkswaps"]),
    "networks": (False, "ipam.lanloom.io", ["networks"]),
    "uplinks": (False, HARVESTER, ["clusternetworks", "vlanconfigs"]),
    "isolated": (False, "network.harvester.io", ["dummyclusternetworks"]),
}
"""Roles of writers of one kind: whether in the namespace only, the group, and the kinds."""

OF_TENANTS = {"viewer": ("view",), "editor": ("view", "edit"), "admin": ("view", "edit", "admin")}
"""Users of the namespace, and the roles that Kubernetes' role of each of them contains."""


class Server:
    """A server, and requests to it in a user's name."""

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._context = ssl.create_default_context(cadata=config.ca.decode())

    def ask(
        self, method: str, url: str, body: Raw | None = None, *, role: str = "", dry: bool = False
    ) -> Raw:
        """The answer, a Status for a refusal."""
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        headers = {"Authorization": f"Bearer {self._config.token}", "Content-Type": kind}
        address = f"{self._config.server}{url}" + ("?dryRun=All" if dry else "")
        data = json.dumps({**named(url), **body}).encode() if body is not None else None
        headers |= identity(role) if role else {}
        request = urllib.request.Request(address, data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=self._context, timeout=60) as answer:
                return dict(json.load(answer))
        except urllib.error.HTTPError as error:
            return dict(json.load(error))

    def make(self, url: str, name: str, /, **fields: object) -> None:
        """Create an object as an administrator."""
        answer = self.ask("POST", url, {"metadata": {"name": name}, **fields})
        assert answer.get("kind") != "Status", answer["message"]

    def until(self, url: str, holds: Callable[[Raw], object]) -> None:
        """Wait for what the manager does to an object."""
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            with suppress(LookupError):  # a field that is not there yet
                if holds(self.ask("GET", url)):
                    return
            time.sleep(0.05)
        raise AssertionError(url)


KINDS = {
    "clusternetworknodes": "ClusterNetworkNode",
    "clusternetworks": "ClusterNetwork",
    "clusterrolebindings": "ClusterRoleBinding",
    "clusterroles": "ClusterRole",
    "dummyclusternetworks": "DummyClusterNetwork",
    "lannodes": "LANNode",
    "lans": "LAN",
    "namespaces": "Namespace",
    "network-attachment-definitions": "NetworkAttachmentDefinition",
    "networks": "Network",
    "networkswaps": "NetworkSwap",
    "nics": "Nic",
    "nodes": "Node",
    "rolebindings": "RoleBinding",
    "vlanconfigs": "VlanConfig",
}


def named(url: str) -> Raw:
    """The version and kind of what is at a path."""
    words = url.strip("/").split("/")
    version, rest = ("v1", words[2:]) if words[0] == "api" else ("/".join(words[1:3]), words[3:])
    plural = rest[2] if len(rest) > 2 and rest[0] == "namespaces" else rest[0]
    return {"apiVersion": version, "kind": KINDS[plural]}


def identity(role: str) -> dict[str, str]:
    """The headers by which the administrator acts as a role."""
    user, group = {
        "agent": ("system:lanloom:node:node1", "system:lanloom:agents"),
        "cluster": ("root", "system:masters"),
    }.get(role, (role, "system:authenticated"))
    return {"Impersonate-User": user, "Impersonate-Group": group}


def prepare(server: Server) -> None:
    """Make the tenants, their roles, and what the actions meet."""
    for name in ("tenant-a", "tenant-b"):
        server.make("/api/v1/namespaces", name)
    for user, roles in OF_TENANTS.items():
        for name in roles:
            bind(server, user, f"lanloom-{name}", namespaced=True)
    for user, (namespaced, group, plurals) in OWN_ROLES.items():
        server.make(
            f"{RBAC}/clusterroles", user, rules=[{"apiGroups": [group], "resources": plurals, "verbs": EVERY}]
        )
        bind(server, user, user, namespaced=namespaced)
    _addresses(server)
    lists = {f"{HARVESTER}/{name}-namespaces": '["infra"]' for name in ("lan-uplink", "node-address")}
    server.make(path(CLUSTER_NETWORKS), "plain")
    server.make(path(CLUSTER_NETWORKS), "limited", metadata={"name": "limited", "annotations": lists})
    _carried(server, "plain", "limited")
    _lans(server)
    spec = {
        "bridgeName": "closed-br",
        "nadName": "closed",
        "nadNamespace": "tenant-b",
        "namespaces": ["tenant-b"],
    }
    server.make(path(DUMMY_CLUSTER_NETWORKS), "closed", spec=spec)


def _addresses(server: Server) -> None:
    """Networks for all, for one namespace, and with a quota that tenant-a has used up; and a NIC of tenant-b."""
    shares: dict[str, Raw] = {
        "open": {},
        "closed": {"namespaces": ["tenant-b"]},
        "small": {"quota": {"*": 1}},
    }
    for number, (name, more) in enumerate(shares.items(), 1):
        subnet = {"cidr": f"10.{number}.0.0/24", "pools": [{"range": f"10.{number}.0.10-10.{number}.0.99"}]}
        server.make(path(NETWORKS), name, spec={"subnets": [subnet], **more})
    for namespace, name, network, ip in (
        ("tenant-a", "mine", "small", "pool"),
        ("tenant-b", "secret", "open", "10.1.0.20"),
    ):
        owner = {"kind": "Instance", "name": name}
        server.make(path(NICS, namespace), name, spec={"owner": owner, "network": network, "ips": [ip]})
        server.until(path(NICS, namespace, name), lambda item: item.get("status", {}).get("ips"))


def _carried(server: Server, *cluster_networks: str) -> None:
    """A node that reports that it carries these cluster networks."""
    server.make("/api/v1/nodes", "node1", status={"conditions": [{"type": "Ready", "status": "True"}]})
    for index, name in enumerate(cluster_networks):
        nics_of_nodes = {"nics": [f"eth{index}"]}
        server.make(path(VLAN_CONFIGS), name, spec={"clusterNetwork": name, "uplink": nics_of_nodes})
        report, title = path(CLUSTER_NETWORK_NODES), report_name(name, "node1")
        labels = {names.CLUSTER_NETWORK_LABEL: name, names.NODE_LABEL: node_label("node1")}
        server.make(report, title, metadata={"name": title, "labels": labels})
        ready = {"type": "ready", "status": "True", "reason": "Ready", "message": ""}
        status = {"clusterNetwork": name, "node": "node1", "bridge": f"{name}-br", "conditions": [ready]}
        answer = server.ask("PATCH", f"{report}/{title}/status", {"status": status}, role="agent")
        assert answer.get("kind") != "Status", answer["message"]
    for name in cluster_networks:
        server.until(path(CLUSTER_NETWORKS, name=name), _is_ready)


def _is_ready(item: Raw) -> bool:
    conditions = item.get("status", {}).get("conditions", ())
    return any(one["type"] == "ready" and one["status"] == "True" for one in conditions)


def _lans(server: Server) -> None:
    """A LAN of each tenant, and one of tenant-a that is being deleted."""
    held = {"metadata": {"name": "leaving", "finalizers": ["example.org/slow"]}}
    for namespace, name, vni, more in (
        ("tenant-b", "blue", 777, {}),
        ("tenant-a", "green", 778, {}),
        ("tenant-a", "leaving", 779, held),
    ):
        server.make(path(LANS, namespace), name, **{**lan(name, vni=vni), **more})
        server.until(path(LANS, namespace, name), lambda item: item.get("status"))
    server.ask("DELETE", path(LANS, "tenant-a", "leaving"))


def bind(server: Server, user: str, role: str, *, namespaced: bool) -> None:
    """Bind a role to a user, in tenant-a or everywhere."""
    group = {"apiGroup": "rbac.authorization.k8s.io"}
    where = f"{RBAC}/namespaces/tenant-a/rolebindings" if namespaced else f"{RBAC}/clusterrolebindings"
    reference, subject = (
        {**group, "kind": "ClusterRole", "name": role},
        {**group, "kind": "User", "name": user},
    )
    server.make(where, f"{user}-{role}", roleRef=reference, subjects=[subject])
