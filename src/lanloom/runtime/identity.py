"""The identity of a writer: the agent of a node, a manager, or another user."""

from collections.abc import Callable

import structlog

from lanloom.api import names
from lanloom.api.admission import UserInfo
from lanloom.api.core import SELF_REVIEWS, Pod
from lanloom.api.meta import Key
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.kube.errors import ApiError, KubeError, ServerError
from lanloom.kube.ports import Client
from lanloom.kube.store import Store

log = structlog.get_logger(__name__)

NodeOfPod = Callable[[str], str]
"""The node of a pod in Lanloom's namespace, empty for one that isn't known."""

MANAGERS = (f"system:serviceaccount:{LANLOOM_NAMESPACE}:lanloom-manager", "system:lanloom:apiserver")
"""The manager's account on Kubernetes, and the embedded server itself, in which a manager runs."""

MANAGER_LEASE = "lanloom-manager"
"""The Lease of the leading manager, in Lanloom's namespace."""

AGENTS = f"system:serviceaccount:{LANLOOM_NAMESPACE}:lanloom-agent"
"""The account that the agents of all nodes share on Kubernetes."""


class Managers:
    """The users that managers authenticate as: the usual ones, and the one of this manager.

    A manager that was started with a user's kubeconfig and not given its own name asks the API server for it
    (Kubernetes 1.28 and newer), the first time that this matters.
    """

    def __init__(self, client: Client, own: str = "") -> None:
        self._client = client
        self._own = own or None

    async def include(self, user: UserInfo) -> bool:
        """Return whether a manager asks."""
        if user.username in MANAGERS:
            return True
        if self._own is None:
            self._own = await self._query_name()
        return bool(self._own) and user.username == self._own

    async def _query_name(self) -> str | None:
        """Return our own name; empty where the server does not tell it, None where it may another time."""
        try:
            return (await self._client.create(SELF_REVIEWS, {})).status.user_info.username
        except KubeError as error:
            log.info("own-name-not-known", error=str(error))
            final = isinstance(error, ApiError) and not isinstance(error, ServerError)
            return "" if final else None


def is_agent(user: UserInfo) -> bool:
    """Return whether a user is the agent of a node, known or not."""
    return user.username == AGENTS or user.username.startswith(names.NODE_USER_PREFIX)


def agent_node(user: UserInfo, node_of_pod: NodeOfPod) -> str | None:
    """Return the node whose agent a user is, or None for any other user.

    On the embedded server agents have a user each; on Kubernetes all share a service account, whose tokens name the
    pod (and, since 1.30, the node) that they were issued for. A token of that account that names neither belongs to no
    agent: it gets a name that fits no node.
    """
    if user.username.startswith(names.NODE_USER_PREFIX):
        return user.username.removeprefix(names.NODE_USER_PREFIX)
    if user.username == AGENTS:
        node = next(iter(user.extra.get("authentication.kubernetes.io/node-name", ())), "")
        pod = next(iter(user.extra.get("authentication.kubernetes.io/pod-name", ())), "")
        return node or (pod and node_of_pod(pod)) or ""
    return None


def pod_node(pods: Store[Pod], name: str) -> str:
    """Return the node of a pod in Lanloom's namespace, empty for one that isn't known."""
    pod = pods.get(Key(LANLOOM_NAMESPACE, name))
    return pod.spec.node_name if pod is not None else ""
