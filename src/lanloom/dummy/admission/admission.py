"""What the API server asks about isolated networks, answered."""

from collections.abc import Awaitable, Callable
from typing import Any

from lanloom.api.admission import AdmissionRequest, UserInfo, Verdict
from lanloom.api.core import PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.dummy.admission.world import World
from lanloom.kube.ports import Client

Watched = tuple[tuple[Resource[Any], tuple[str, ...]], ...]

MUTATED: Watched = ()
"""The resources and operations that `mutate` wants to see."""

VALIDATED: Watched = (
    (DUMMY_CLUSTER_NETWORKS, ("CREATE", "UPDATE", "DELETE")),
    (NADS, ("CREATE", "UPDATE", "DELETE")),
    (VLAN_CONFIGS, ("CREATE", "UPDATE")),
)
"""The resources and operations that `validate` wants to see; statuses include their subresource."""

REFERENCES: Watched = (
    (VIRTUAL_MACHINES, ("CREATE", "UPDATE")),
    (VIRTUAL_MACHINE_INSTANCES, ("CREATE",)),
    (PODS, ("CREATE",)),
)
"""The resources and operations that `refer` wants to see, without subresources."""

IsManager = Callable[[UserInfo], Awaitable[bool]]
"""Whether a manager asks."""


class DummyAdmission:
    """Answers admission requests about isolated networks, their NADs, and who refers to these.

    `now` is in seconds since the epoch.
    """

    def __init__(
        self, client: Client, world: World, is_manager: IsManager, *, now: Callable[[], float]
    ) -> None:
        self._client = client
        self._world = world
        self._is_manager = is_manager
        self._now = now

    def mutate(self, _request: AdmissionRequest) -> Verdict:
        """Nothing is filled in: what is left out has its default in the schema."""
        return Verdict()

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """Allows or refuses, with the reason. What can't be checked is refused too."""
        return Verdict()

    async def refer(self, request: AdmissionRequest) -> Verdict:
        """Whether a machine or a pod may refer to the networks that it names."""
        return Verdict()
