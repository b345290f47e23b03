"""What the API server asks about isolated networks, answered."""

from collections.abc import Awaitable, Callable
from typing import Any

from lanloom.api.admission import AdmissionRequest, Unreadable, UserInfo, Verdict, new_of, old_of, refusal
from lanloom.api.core import PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.dummy.admission.nads import judge_nad
from lanloom.dummy.admission.networks import judge_config, judge_network
from lanloom.dummy.admission.references import References
from lanloom.dummy.admission.world import World
from lanloom.dummy.rules.admit_nads import concerns
from lanloom.dummy.rules.errors import InvalidSpec, Refused
from lanloom.dummy.users import SharedLooks
from lanloom.kube.errors import KubeError
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
        self._looks = SharedLooks(client)
        self._references = References(client, world, now=now)

    def mutate(self, _request: AdmissionRequest) -> Verdict:
        """Nothing is filled in: what is left out has its default in the schema."""
        return Verdict()

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """Allows or refuses, with the reason. What can't be checked is refused too."""
        try:
            return Verdict(warnings=await self._judge(request))
        except (InvalidSpec, Refused, Unreadable) as refused:
            return refusal(refused)
        except KubeError as error:
            return refusal(f"this can't be checked now, because {error}; try again")

    async def refer(self, request: AdmissionRequest) -> Verdict:
        """Whether a machine or a pod may refer to the networks that it names."""
        return await self._references.judge(request)

    async def _judge(self, request: AdmissionRequest) -> tuple[str, ...]:
        match (request.resource.group, request.resource.resource):
            case (DUMMY_CLUSTER_NETWORKS.group, DUMMY_CLUSTER_NETWORKS.plural):
                return await self._network(request)
            case (NADS.group, NADS.plural):
                await self._nad(request)
            case (VLAN_CONFIGS.group, VLAN_CONFIGS.plural):
                await self._config(request)
        return ()

    async def _network(self, request: AdmissionRequest) -> tuple[str, ...]:
        new, old = new_of(DUMMY_CLUSTER_NETWORKS, request), old_of(DUMMY_CLUSTER_NETWORKS, request)
        if request.sub_resource and new is not None:
            if not await self._is_manager(request.user_info):
                raise Refused(
                    f"DummyClusterNetwork {new.metadata.name}: status is written by Lanloom's manager only; "
                    "change the spec instead"
                )
            return ()
        return await judge_network(self._client, self._world, new, old, self._looks)

    async def _nad(self, request: AdmissionRequest) -> None:
        try:
            new, old = new_of(NADS, request), old_of(NADS, request)
        except Unreadable:
            return  # somebody else's, for all we know; the webhook of VLANs says what is wrong
        by_manager = concerns(new, old) and await self._is_manager(request.user_info)
        await judge_nad(
            self._client, self._world, new, old, now=self._now(), by_manager=by_manager, looks=self._looks
        )

    async def _config(self, request: AdmissionRequest) -> None:
        try:
            new, old = new_of(VLAN_CONFIGS, request), old_of(VLAN_CONFIGS, request)
        except Unreadable:
            return  # the webhook of VLANs says what is wrong
        await judge_config(self._client, self._world, new, old)
