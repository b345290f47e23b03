"""Keeps the label `ready` of the NADs: whether their cluster network is ready, as Harvester's UI shows it.

A cluster network of 200 NADs that flaps would cost 200 writes each time, every one of which reaches every agent. So a
label follows only a condition that has settled; one that is missing is written at once. NADs of isolated networks have
theirs from the beginning: they have no uplink that could be ready or not. Beside Harvester's controller, which writes
the label, it is left alone.
"""

from collections.abc import Callable
from typing import NamedTuple

from lanloom.api import names
from lanloom.api.dummy import UID_LABEL
from lanloom.api.meta import Condition, Key, parse_rfc3339
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.nadconfig import cluster_network_of
from lanloom.features.vlan.informers import VlanInformers
from lanloom.features.vlan.mode import Neighbour
from lanloom.features.vlan.rules.status import READY
from lanloom.kube.conditions import find
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.ports import Client

SETTLE_SECONDS = 10.0
"""Seconds for which a cluster network has been ready, or not, before the label of its NADs follows."""


class _Readiness(NamedTuple):
    """The value that a label should have, and since when (seconds since the epoch)."""

    value: str
    since: float


class Labels:
    """The label of each NAD. `now` gives seconds since the epoch."""

    def __init__(
        self, client: Client, informers: VlanInformers, neighbour: Neighbour, now: Callable[[], float]
    ) -> None:
        self._client = client
        self._neighbour = neighbour
        self._informers = informers
        self._now = now

    def is_due(self, nad: NetworkAttachmentDefinition) -> bool:
        """Return whether the label of a NAD is not as its cluster network is."""
        wanted = self._wanted(nad)
        return wanted is not None and nad.metadata.labels.get(names.READY_LABEL) != wanted.value

    async def reconcile(self, title: str) -> float | None:
        """Write the label of the NAD `namespace/name`; or returns in how many seconds it may be written."""
        namespace, _, name = title.partition("/")
        key = Key(namespace, name)
        nad = self._informers.nads.store.get(key)
        wanted = self._wanted(nad) if nad is not None else None
        if nad is None or wanted is None or nad.metadata.labels.get(names.READY_LABEL) == wanted.value:
            return None
        wait = wanted.since + SETTLE_SECONDS - self._now()
        if wait > 0 and names.READY_LABEL in nad.metadata.labels:
            return wait
        patch = {"metadata": {"labels": {names.READY_LABEL: wanted.value}}}
        with ignore_not_found(key.name):
            await self._client.patch(NADS, key.name, patch, key.namespace)
        return None

    def _wanted(self, nad: NetworkAttachmentDefinition) -> _Readiness | None:
        """None for a NAD of no cluster network, or an isolated one, and where nothing is known of that yet."""
        name = cluster_network_of(nad)
        if (
            self._neighbour.is_beside()
            or not name
            or nad.metadata.is_deleting
            or UID_LABEL in nad.metadata.labels
        ):
            return None
        network = self._informers.cluster_networks.store.get(Key("", name))
        if network is None:
            return _Readiness("false", 0.0)
        condition = find(network.status.conditions, READY)
        return _readiness(condition) if condition is not None else None


def _readiness(condition: Condition) -> _Readiness:
    try:
        since = parse_rfc3339(condition.last_transition_time)
    except ValueError:  # somebody else wrote it
        since = 0.0
    return _Readiness("true" if condition.status == "True" else "false", since)
