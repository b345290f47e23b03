"""Takes away the Leases of uplinks that no LAN needs any more: its uplink was changed or removed, or the LAN is gone.

A Lease says who may join a LAN to a VLAN. So only one that has ended goes, in the version that was read: an agent that
takes it at that moment keeps it. The Lease of one VLAN may be needed by another LAN by now. An agent that learnt late
of a change may create one once more, which it releases at once, and nothing announces it: Leases are not watched,
because their holders renew them every two seconds. So they are listed again a while after the last change.
"""

import asyncio

import structlog

from lanloom.api.core import LEASES, Lease
from lanloom.api.lan import LAN, LANS, UPLINK_LEASE
from lanloom.api.names import BRIDGES_NAMESPACE
from lanloom.features.lan.reader import LanInformers
from lanloom.kube.election import LeaseAges
from lanloom.kube.errors import Conflict
from lanloom.kube.lookup import ignore_not_found, list_or_empty
from lanloom.kube.ports import Client

log = structlog.get_logger(__name__)

DURATION = 15.0
"""Seconds after which a Lease that names no duration has ended."""

CHECK_SECONDS = 20.0
"""How soon a Lease is looked at again that is not needed and that is held."""

LATE_SECONDS = 300.0
"""How long after a change agents may not know of it: their watches may be silent for a while, and begin again."""


class UplinkLeases:
    """The Leases of uplinks, all of them at once: those of a cluster are few."""

    def __init__(self, client: Client, informers: LanInformers) -> None:
        self._client = client
        self._informers = informers
        self._ages = LeaseAges()
        self._until = 0.0

    def changed(self) -> None:
        """Look at a LAN that has another uplink than before, or none, or is gone."""
        self._until = asyncio.get_running_loop().time() + LATE_SECONDS

    async def reconcile(self, _key: str) -> float | None:
        """Delete what has ended; return in how many seconds to look again, None for when something happens."""
        found = (await self._client.list(LEASES, BRIDGES_NAMESPACE)).items
        known = _needed(self._informers.lans.store.items())
        unneeded = [lease for lease in found if _is_uplinks(lease) and lease.metadata.name not in known]
        if unneeded:
            live = _needed(await list_or_empty(self._client, LANS))
            unneeded = [lease for lease in unneeded if lease.metadata.name not in live]
        self._ages.retain(unneeded)
        ended = [lease for lease in unneeded if self._ages.has_ended(lease, DURATION)]
        for lease in ended:
            await self._delete(lease)
        if len(ended) < len(unneeded):
            return CHECK_SECONDS
        left = self._until - asyncio.get_running_loop().time()
        return left if left > 0 else None

    async def _delete(self, lease: Lease) -> None:
        meta = lease.metadata
        try:
            with ignore_not_found(meta.name):
                await self._client.delete(
                    LEASES, meta.name, meta.namespace, uid=meta.uid, resource_version=meta.resource_version
                )
                log.info("lan-uplink-lease-deleted", lease=meta.name)
        except Conflict:
            log.info("lan-uplink-lease-taken", lease=meta.name)


def _is_uplinks(lease: Lease) -> bool:
    return lease.metadata.name.startswith(UPLINK_LEASE)


def _needed(lans: tuple[LAN, ...]) -> set[str]:
    return {lan.spec.uplink.lease for lan in lans if lan.spec.uplink is not None}
