"""Takes NADs away, one step at a time, as `rules.removal` decides; the API server is asked right before they go."""

from collections.abc import Callable, Collection, Sequence

import structlog

from lanloom.api.lan import LAN
from lanloom.api.meta import Key
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.features.lan.rules.nads import owner_of
from lanloom.features.lan.rules.removal import Retirement, retirement
from lanloom.kube.lookup import ignore_not_found
from lanloom.kube.ports import Client
from lanloom.nads.users import NadUsers

log = structlog.get_logger(__name__)

Nads = Sequence[NetworkAttachmentDefinition]


class NadRemover:
    """Remove NADs. `now` is in seconds since the epoch."""

    def __init__(self, client: Client, users: NadUsers, *, now: Callable[[], float]) -> None:
        self._client = client
        self._users = users
        self._now = now

    async def retire(
        self, uid: str, nads: Nads, lan: LAN | None = None, others: Collection[Key] = ()
    ) -> Retirement:
        """Take the next step for NADs of the LAN of that uid, all of one namespace. Raises KubeError.

        `lan` is None for one that is gone; `others` are NADs of others whose users keep the LAN, too.
        """
        step = retirement(nads, self._users, now=self._now(), live=False, others=others, lan=lan)
        if step.stage == "read":
            names = {nad.metadata.name for nad in nads}
            every = await self.read(uid, nads[0].metadata.namespace)
            fresh = [nad for nad in every if nad.metadata.name in names]
            live = await self._users.live()
            step = retirement(fresh, live, now=self._now(), live=True, others=others, lan=lan)
        for nad, annotations in step.marks:
            await self._mark(nad, annotations)
        for nad in step.delete:
            await self._delete(nad)
        return step

    async def read(self, uid: str, namespace: str) -> Nads:
        """Return the NADs of a LAN as the API server has them now, also those that lost their label.

        Raises KubeError.
        """
        listed = await self._client.list(NADS, namespace)
        return tuple(nad for nad in listed.items if owner_of(nad.metadata) == uid)

    async def delete_now(self, nads: Nads) -> None:
        """Delete NADs, even in use. Raises KubeError."""
        for nad in nads:
            key, meta = nad.metadata.key, nad.metadata
            if not meta.is_deleting:
                with ignore_not_found(key.name):
                    await self._client.delete(NADS, key.name, key.namespace, uid=meta.uid)
                log.warning("lan-nad-deleted-by-force", nad=str(key))

    async def _mark(self, nad: NetworkAttachmentDefinition, annotations: dict[str, str]) -> None:
        key = nad.metadata.key
        metadata = {"resourceVersion": nad.metadata.resource_version, "annotations": annotations}
        with ignore_not_found(key.name):
            await self._client.patch(NADS, key.name, {"metadata": metadata}, key.namespace)

    async def _delete(self, nad: NetworkAttachmentDefinition) -> None:
        key, meta = nad.metadata.key, nad.metadata
        with ignore_not_found(key.name):
            await self._client.delete(
                NADS, key.name, key.namespace, uid=meta.uid, resource_version=meta.resource_version
            )
            log.info("lan-nad-deleted", nad=str(key))
