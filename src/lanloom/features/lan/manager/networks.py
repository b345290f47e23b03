"""The Networks of LANs with subnets of their own: created before the NADs that name them, deleted after them."""

import structlog

from lanloom.api.ipam import NETWORKS, Network
from lanloom.api.lan import LAN, UID_LABEL
from lanloom.api.meta import Key
from lanloom.features.lan.reader import BY_UID, LanInformers
from lanloom.features.lan.rules.subnets import network_of
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.ports import Client

log = structlog.get_logger(__name__)


class LanNetworks:
    """The Networks, by the uid of the LAN that they were made for."""

    def __init__(self, client: Client, informers: LanInformers) -> None:
        self._client = client
        self._informers = informers

    async def ensure(self, lan: LAN) -> str:
        """Create or repair the Network of a LAN with subnets; what it waits for, if anything. Raises KubeError."""
        if not lan.spec.subnets:
            return ""
        wanted = network_of(lan)
        found = self._informers.networks.store.get(Key("", wanted.name))
        if found is None:
            await self._client.create(NETWORKS, wanted.body())
            log.info("lan-network-created", lan=str(lan.metadata.key), network=wanted.name)
            return ""
        if found.metadata.is_deleting:
            return f"the Network {wanted.name} is being deleted{_held(found)}; it is created again afterwards"
        if patch := wanted.repair(found):
            await self._client.patch(NETWORKS, wanted.name, patch)
            log.info("lan-network-repaired", lan=str(lan.metadata.key), network=wanted.name)
        return ""

    async def remove(self, uid: str) -> str:
        """Delete the Networks of a LAN that has no subnets any more, or goes; what it waits for. Raises KubeError.

        The API server is asked: a watch may not have brought a Network that an earlier leader created.
        """
        left = (await self._client.list(NETWORKS, labels=f"{UID_LABEL}={uid}")).items
        for item in left:
            if not item.metadata.is_deleting:
                with ignore_not_found(item.metadata.name):
                    await self._client.delete(NETWORKS, item.metadata.name, uid=item.metadata.uid)
                log.info("lan-network-deleted", lan=uid, network=item.metadata.name)
        held = [f"{item.metadata.name}{_held(item)}" for item in left if item.metadata.finalizers]
        return f"waits until all addresses of the Network {', '.join(held)} are released" if held else ""

    def are_there(self, lan: LAN) -> bool:
        """Return whether something may have been made for a LAN."""
        return bool(lan.spec.subnets or lan.status.network or self.of(lan.metadata.uid))

    def of(self, uid: str) -> tuple[Network, ...]:
        """Return the Networks of a LAN that the watch has brought."""
        return self._informers.networks.store.by(BY_UID, uid)


def _held(network: Network) -> str:
    finalizers = network.metadata.finalizers
    return f" (it waits for its finalizers {', '.join(finalizers)})" if finalizers else ""
