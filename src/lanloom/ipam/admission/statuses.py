"""Who may write statuses: they say who owns which address, and the allocator goes by nothing else."""

import structlog

from lanloom.api.admission import UserInfo
from lanloom.api.core import SELF_REVIEWS
from lanloom.api.ipam import NETWORKS, Network, Nic
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.ipam.rules.errors import Refused
from lanloom.kube.errors import ApiError, KubeError, NotFound, ServerError
from lanloom.kube.ports import Client

MANAGERS = (f"system:serviceaccount:{LANLOOM_NAMESPACE}:lanloom-manager", "system:lanloom:apiserver")
"""The manager's account on Kubernetes, and the embedded server itself, in which a manager runs."""

log = structlog.get_logger(__name__)


class Managers:
    """The users as whom managers write: the usual ones, and whoever this one is.

    A manager that was started with somebody's kubeconfig and not told its own name asks the API server for it
    (Kubernetes 1.28 and newer), the first time that this matters.
    """

    def __init__(self, client: Client, own: str = "") -> None:
        self._client = client
        self._own = own or None

    async def include(self, user: UserInfo) -> bool:
        """Whether a manager asks."""
        if user.username in MANAGERS:
            return True
        if self._own is None:
            self._own = await self._ask()
        return bool(self._own) and user.username == self._own

    async def _ask(self) -> str | None:
        """Our own name; empty where the server does not tell, None where it may another time."""
        try:
            return (await self._client.create(SELF_REVIEWS, {})).status.user_info.username
        except KubeError as error:
            log.info("own-name-not-known", error=str(error))
            final = isinstance(error, ApiError) and not isinstance(error, ServerError)
            return "" if final else None


def check_network_status(new: Network, old: Network | None) -> None:
    """A network's epoch never goes back. Raises Refused."""
    before = old.status.allocator.epoch if old is not None else 0
    if new.status.allocator.epoch < before:
        raise Refused(
            f"Network {new.metadata.name}: status.allocator.epoch is {before} already and never goes back; "
            "read the object again"
        )


async def check_nic_status(client: Client, new: Nic, old: Nic | None) -> None:
    """An allocator that was deposed writes no more addresses. Raises Refused, KubeError."""
    name = new.status.network
    if not name or (old is not None and old.status == new.status):
        return
    try:
        present = (await client.get(NETWORKS, name)).status.allocator
    except NotFound:
        return  # gone, and nobody gives addresses of it away
    if new.status.epoch < present.epoch:
        raise Refused(
            f"Nic {new.metadata.key}: status.epoch is {new.status.epoch}, but {present.holder or 'another manager'} "
            f"gives the addresses of Network {name} away by now, with epoch {present.epoch}"
        )


async def check_user(managers: Managers, user: UserInfo, title: str) -> None:
    """Raises Refused for somebody who is no manager."""
    if not await managers.include(user):
        raise Refused(f"{title}: status is written by Lanloom's manager only; change the spec instead")
