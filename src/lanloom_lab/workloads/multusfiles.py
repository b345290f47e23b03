"""Multus' configuration on the nodes of a lab, where Multus' daemon would write it."""

import json
from random import Random

from lanloom.api.multusconfig import NamespaceIsolation
from lanloom.kube.controller import Controller
from lanloom_lab.errors import LabError
from lanloom_lab.plan import CNI_CONFIGURATIONS
from lanloom_lab.workloads.hosts import Hosts, Machines

RETRY_SECONDS = 1.0

_WRITE = 'mkdir -p "$1" && cat >"$1/00-multus.conf.new" && mv "$1/00-multus.conf.new" "$1/00-multus.conf"'


class MultusFiles:
    """Writes the file on each node that starts: a node that was off has none."""

    def __init__(self, hosts: Hosts, machines: Machines, isolation: NamespaceIsolation, rng: Random) -> None:
        self._hosts = hosts
        self._machines = machines
        self._text = configuration(isolation)
        self._controller: Controller[str] = Controller("multus", self._write, rng=rng)
        machines.on_change(self._controller.enqueue)

    async def run(self) -> None:
        """Work until cancelled."""
        await self._controller.run()

    async def _write(self, node: str) -> float | None:
        if self._machines.boot(node) is None:
            return None
        try:
            done = await self._hosts.run(
                node, "sh", "-c", _WRITE, "multus", CNI_CONFIGURATIONS, given=self._text
            )
        except (LabError, OSError):
            return RETRY_SECONDS
        return None if done.status == 0 else RETRY_SECONDS


def configuration(isolation: NamespaceIsolation) -> str:
    """Return the configuration of a CNI runtime that calls Multus."""
    names = ",".join(sorted(isolation.global_namespaces))
    found = {"cniVersion": "0.3.1", "name": "multus-cni-network", "type": "multus-shim"}
    more = {"namespaceIsolation": True, "globalNamespaces": names} if isolation.enabled else {}
    return json.dumps(found | more)
