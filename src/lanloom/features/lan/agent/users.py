"""The users of spokes on other nodes: a spoke that another pod has there is not given to a second one.

Only what other nodes report is asked for, so an attachment costs no request where no other pod has the spoke, but for
the LAN; the first one of a node waits for these reports. A user is one pod, or one machine, whose two pods have the
spoke on two nodes while it migrates.
"""

import asyncio
from collections.abc import Iterable, Iterator

from lanloom.api.core import PODS, Pod
from lanloom.api.lan import LAN, LANS, LANNode
from lanloom.api.meta import Key
from lanloom.features.lan.agent.ports import Attachment, SpokeError
from lanloom.features.lan.agent.view import ClusterView
from lanloom.features.lan.rules.record import pod_beside
from lanloom.kube.errors import KubeError
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.refusals import title_for

KNOWN_SECONDS = 10.0
"""How long an attachment waits for what other nodes report. Only the first ones of a node or of an agent wait."""


class RemoteUsers:
    """What the other nodes of the cluster have attached; `node` is this one."""

    def __init__(self, client: Client, view: ClusterView, node: str) -> None:
        self._client = client
        self._view = view
        self._node = node

    async def check(self, attachment: Attachment) -> None:
        """Raise SpokeError where another user has the spoke on another node.

        A pod that is gone or has ended uses nothing, whatever its node reports. A pod that no report names, as those of
        older agents, is not known and does not count.
        """
        spoke = attachment.device.spoke
        await self._know_nodes(spoke)
        for node, pod in _pods_elsewhere(self._view.users_of(spoke), spoke, self._node):
            if not pod or pod == attachment.pod:
                continue
            if await self._uses(pod, attachment.pod):
                raise SpokeError(
                    f"the spoke {spoke} is used by {pod_beside(pod, attachment.pod)} on node {node}; a spoke takes "
                    "one pod or one machine, so delete that one, or take another spoke",
                    again=True,
                )

    async def _know_nodes(self, spoke: str) -> None:
        """Wait until it is known what other nodes report. Raise SpokeError where that takes too long.

        An agent whose API server is away since its start attaches without: it knows of no LAN but those of its records.
        """
        self._view.follow_nodes()
        if not self._view.is_synced:
            return
        try:
            async with asyncio.timeout(KNOWN_SECONDS):
                await self._view.nodes_known()
        except TimeoutError:
            raise SpokeError(
                f"it is not known yet whether another node uses the spoke {spoke}: the API server does not answer in "
                "time with the LANNodes",
                again=True,
            ) from None

    async def confirm(
        self, lan: Key, uid: str, attachment: Attachment, *, carried: bool, is_reported: bool
    ) -> LAN | None:
        """Return the LAN as it is now. Raise SpokeError where it is gone: its spokes may be another LAN's.

        Where that can't be asked, a LAN that is `carried` here already is taken as there: None. `is_reported` says that
        the node knows already that it is gone, so no other attempt finds it.
        """
        reader = attachment.pod.partition("/")[0] or lan.namespace
        title = title_for(reader, LANS.kind, lan.namespace, lan.name)
        try:
            found = await self._view.live(lan, uid)
        except KubeError as error:
            if carried:
                return None
            raise SpokeError(
                f"{title} is not on this node yet, and the API server can't be asked about it: {error}",
                again=True,
            ) from error
        if found is None and is_reported:
            spoke = attachment.device.spoke
            raise SpokeError(
                f"no LAN has the spoke {spoke}, as far as this node knows: {title} is gone; add it to "
                "spec.spokes of one",
                again=True,
            )
        if found is None:
            raise SpokeError(
                f"{title} is gone, which this node does not know yet; try again in a moment",
                again=True,
            )
        return found

    async def _uses(self, other: str, mine: str) -> bool:
        """Return whether another pod has a spoke that is not that of the same machine. Raises SpokeError."""
        try:
            theirs = await self._pod(other)
            if theirs is None or theirs.has_ended:
                return False
            ours = await self._pod(mine)
        except KubeError as error:
            raise SpokeError(
                f"another node reports the spoke as used by {pod_beside(other, mine)}, and the API server can't be "
                f"asked about it: {error}",
                again=True,
            ) from error
        return ours is None or not _is_same_user(ours, theirs)

    async def _pod(self, title: str) -> Pod | None:
        namespace, _, name = title.partition("/")
        return await get_or_none(self._client, PODS, Key(namespace, name)) if name else None


def _pods_elsewhere(reports: Iterable[LANNode], spoke: str, node: str) -> Iterator[tuple[str, str]]:
    """Yield the other nodes that report a spoke as attached, each with the pod (`namespace/name`), if known.

    The name of a spoke is unique in the cluster. The LAN does not matter: one that is created again has another uid,
    which nodes learn at different times.
    """
    for report in reports:
        if report.metadata.name == node:
            continue
        for entry in report.status.lans:
            yield from ((report.metadata.name, item.pod) for item in entry.spokes if item.name == spoke)


def _is_same_user(pod: Pod, other: Pod) -> bool:
    """Return whether two pods are one user of a spoke: the same pod, or those of one machine that migrates."""
    if pod.metadata.uid and pod.metadata.uid == other.metadata.uid:
        return True
    return not _machines_of(pod).isdisjoint(_machines_of(other))


def _machines_of(pod: Pod) -> frozenset[str]:
    """Return the uid of the machine that a pod runs: a VirtualMachineInstance controls its pods on both nodes."""
    return frozenset(
        owner.uid
        for owner in pod.metadata.owner_references
        if owner.controller
        and owner.kind == "VirtualMachineInstance"
        and owner.api_version.startswith("kubevirt.io/")
    )
