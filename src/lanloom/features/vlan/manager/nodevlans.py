"""The VLANs on which nodes have sub-interfaces, as an annotation of the ClusterNetwork, alongside Harvester's
controller.

That controller computes the VLAN ids of the uplinks whenever the ClusterNetwork changes, from the NADs and from the
VLAN links that it finds. The event of a NAD that goes comes while Lanloom's link is still there; so the id would stay.
The annotation changes once the last link of a VLAN has gone, and the controller computes again. It tells what is so,
and not that something happened: a manager that was away meanwhile writes it, too.
"""

import asyncio
from collections.abc import Collection, Iterable

from lanloom.api import names
from lanloom.api.clusternetworknode import ClusterNetworkNode
from lanloom.api.harvester import ClusterNetwork

SETTLE_SECONDS = 5.0
"""How long a VLAN must be gone: NetworkManager may remove a link a moment after the node reported."""


class NodeVlans:
    """The annotation of each ClusterNetwork."""

    def __init__(self) -> None:
        self._since: dict[str, float] = {}

    def forget(self, name: str) -> None:
        """Forget the ClusterNetwork of that name, which is gone."""
        self._since.pop(name, None)

    def patch(
        self, network: ClusterNetwork, reports: Iterable[ClusterNetworkNode], live: Collection[str]
    ) -> tuple[dict[str, str | None], float | None]:
        """Return the annotation to write, and in how many seconds it may be written, if not now.

        Nodes that are not `live` would hold back those that are.
        """
        name, present = network.metadata.name, network.metadata.annotations.get(names.NODE_VLANS)
        found = {
            item.vlan_id
            for report in reports
            if report.status.node in live
            for item in report.status.interfaces
            if item.name
        }
        wanted = ",".join(map(str, sorted(found))) or None
        if wanted == present:
            self.forget(name)
            return {}, None
        if present and set(present.split(",")) - set(map(str, found)):
            now = asyncio.get_running_loop().time()
            wait = self._since.setdefault(name, now) + SETTLE_SECONDS - now
            if wait > 0:
                return {}, wait
        self.forget(name)
        return {names.NODE_VLANS: wanted}, None
