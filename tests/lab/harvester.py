"""Harvester's network controller for stories on a lab: the lab's stand-in, or its real binaries.

`HARVESTER_NETWORK_CONTROLLER` names a directory with `harvester-network-controller` and `harvester-network-webhook`.
Agents run on all nodes then, manager and webhook on the last one, which the API server reaches by the Service of
Harvester's chart. `tests/harness/test_harvester_real.py` compares both with the stand-in on a real kube-apiserver.
"""

import asyncio
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any, Protocol

import pytest

from lanloom.api import names
from lanloom.cli.cluster import connect
from lanloom_lab.assets import default_cache
from lanloom_lab.harvester.definitions import install, uninstall
from tests.lab.driver import Lab, eventually
from tests.lab.objects import Object

ENVIRONMENT = "HARVESTER_NETWORK_CONTROLLER"
CONTROLLER, WEBHOOK = "harvester-network-controller", "harvester-network-webhook"
WEBHOOK_PORT = 8443

API_SERVICES: Object = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "apiservices.apiregistration.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved"},
    },
    "spec": {
        "group": "apiregistration.k8s.io",
        "names": {"kind": "APIService", "plural": "apiservices"},
        "scope": "Cluster",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
                },
            }
        ],
    },
}
"""A kind that Harvester's webhook follows (dynamic.Controller of rancher/lasso): a lab has none of its objects."""

END = """
for file in /run/harvester-*.pid; do
    kill -s TERM -- -$(cat "$file"); rm "$file"
done
"""


class Side(Protocol):
    """Harvester, as far as tests need it."""

    def on(self) -> None:
        """Install it, or install it again."""
        ...

    def off(self) -> None:
        """Uninstall it; links, objects, finalizers and webhook configurations stay."""
        ...


class StandIn:
    """The lab's own."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab

    def on(self) -> None:
        """As the port says."""
        self._lab.run("harvester", "on")
        eventually(
            lambda: WEBHOOK in self._lab.kubectl("get", "validatingwebhookconfigurations", "-o", "name")
        )

    def off(self) -> None:
        """As the port says."""
        self._lab.run("harvester", "off")


class Binaries:
    """The real ones, as Harvester's own service account, on the nodes of the lab."""

    def __init__(self, lab: Lab, directory: Path) -> None:
        self._lab = lab
        self._directory = directory
        self._nodes = {node["name"]: node["address"] for node in lab.status()["nodes"]}
        self._last = max(self._nodes)

    def on(self) -> None:
        """As the port says."""
        asyncio.run(self._install())
        self._lab.apply(API_SERVICES, *service(self._nodes[self._last]))
        self._load_bridge_filter()
        for node in self._nodes:
            self._copy(node, CONTROLLER)
        self._copy(self._last, WEBHOOK)
        self._start(self._last, "webhook", f"{WEBHOOK} --https-port {WEBHOOK_PORT}")
        self._start(self._last, "manager", f"{CONTROLLER} manager --namespace {names.HARVESTER_NAMESPACE}")
        for node in self._nodes:
            self._start(node, "agent", f"{CONTROLLER} agent --node-name {node}")
        eventually(
            lambda: WEBHOOK in self._lab.kubectl("get", "validatingwebhookconfigurations", "-o", "name"),
            timeout=300,
        )

    def off(self) -> None:
        """As the port says."""
        for node in self._nodes:
            self._lab.on(node, END, status=None)
        asyncio.run(self._uninstall())
        self._lab.kubectl("delete", "crd", API_SERVICES["metadata"]["name"], "--ignore-not-found")

    async def _install(self) -> None:
        async with connect(str(self._lab.state / "kubeconfig")) as client:
            await install(client, replace=False, played="none")

    async def _uninstall(self) -> None:
        async with connect(str(self._lab.state / "kubeconfig")) as client:
            await uninstall(client)

    def _load_bridge_filter(self) -> None:
        """Load the module whose settings its agent turns off at the start, and without which it does not start."""
        version = self._lab.status()["version"]
        modules = "kernels/*/kernel/usr/lib/uml/modules"
        for path in default_cache().glob(f"{modules}/{version}/kernel/net/bridge/br_netfilter.ko"):
            shutil.copy2(path, self._lab.state / "nodes/node1/config/br_netfilter.ko")
        load = "insmod /etc/lanloom/br_netfilter.ko || modprobe br_netfilter"
        self._lab.on("node1", f"test -e /proc/sys/net/bridge || {load}")

    def _copy(self, node: str, program: str) -> None:
        """Put a program and a kubeconfig where the node sees them: its kept directory of configurations."""
        disk = self._lab.state / "nodes" / node / "config"
        shutil.copy2(self._directory / program, disk / program)
        config = json.loads((disk / "kubeconfig").read_text())
        administrator = self._lab.kubectl("config", "view", "--raw", "-o", "json")
        user = dict(json.loads(administrator)["users"][0]["user"])
        user |= {"as": names.HARVESTER_CONTROLLER, "as-groups": ["system:masters"]}
        config["users"][0]["user"] = user
        (disk / "harvester").write_text(json.dumps(config))

    def _start(self, node: str, part: str, command: str) -> None:
        """Keep a program running, as a kubelet does, until its process group is ended."""
        kept = f"echo $$ >/run/harvester-{part}.pid; while :; do /etc/lanloom/{command}; sleep 1; done"
        environment = "KUBECONFIG=/etc/lanloom/harvester"
        output = f">/run/harvester-{part}.log 2>&1 </dev/null"
        self._lab.on(node, f"{environment} setsid sh -c {quote(kept)} {output} &")


def service(address: str) -> tuple[Object, ...]:
    """The Service of the webhook, as Harvester's chart has it, and where it is reached."""
    metadata = {"name": WEBHOOK, "namespace": names.HARVESTER_NAMESPACE}
    ports = [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": WEBHOOK_PORT}]
    subset = {"addresses": [{"ip": address}], "ports": [{"name": "https", "port": WEBHOOK_PORT}]}
    return (
        {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": ports}},
        {"apiVersion": "v1", "kind": "Endpoints", "metadata": metadata, "subsets": [subset]},
    )


def sides() -> Iterator[Any]:
    """Both, as parameters; the real one is skipped where it is not there."""
    yield pytest.param("stand-in", id="stand-in")
    given = os.environ.get(ENVIRONMENT, "")
    why = f"set {ENVIRONMENT} to a directory with Harvester's {CONTROLLER} and {WEBHOOK}"
    missing = not (given and all((Path(given) / program).exists() for program in (CONTROLLER, WEBHOOK)))
    yield pytest.param("binaries", id="binaries", marks=pytest.mark.skipif(missing, reason=why))


def side(kind: str, lab: Lab) -> Side:
    """One of them for a lab."""
    return StandIn(lab) if kind == "stand-in" else Binaries(lab, Path(os.environ[ENVIRONMENT]))
