"""What the API server asks, answered."""

from collections.abc import Callable

from lanloom.api.admission import AdmissionRequest, Unreadable, UserInfo, Verdict, new_of, old_of, refusal
from lanloom.api.ipam import GROUP, NETWORKS, NICS
from lanloom.ipam.admission.agents import check_agent
from lanloom.ipam.admission.defaults import network_defaults, nic_defaults
from lanloom.ipam.admission.networks import judge_network
from lanloom.ipam.admission.nics import judge_nic
from lanloom.ipam.admission.owners import check_owner_is_there
from lanloom.ipam.admission.statuses import Managers, check_network_status, check_nic_status, check_user
from lanloom.ipam.rules.errors import Malformed, Refused
from lanloom.ipam.worlds import World
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client

MUTATED = ((NETWORKS, ("CREATE", "UPDATE")), (NICS, ("CREATE",)))
"""The resources and operations that `mutate` wants to see."""

VALIDATED = ((NETWORKS, ("CREATE", "UPDATE", "DELETE")), (NICS, ("CREATE", "UPDATE", "DELETE")))
"""The resources and operations that `validate` wants to see; with the status subresources."""

AgentOf = Callable[[UserInfo], str | None]
"""The node whose agent a user is: None for anybody else, empty for an agent of no known node."""

STATUS = "status"


class IpamAdmission:
    """Answers admission requests about networks and NICs.

    `new_uuid` makes a UUID; `user` is as whom this manager writes, empty if that is not known.
    """

    def __init__(
        self, client: Client, world: World, agent_of: AgentOf, new_uuid: Callable[[], str], user: str = ""
    ) -> None:
        self._client = client
        self._world = world
        self._agent_of = agent_of
        self._new_uuid = new_uuid
        self._managers = Managers(client, user)

    def mutate(self, request: AdmissionRequest) -> Verdict:
        """Fills in what was left out; anything else passes unchanged."""
        if request.resource.group != GROUP or request.sub_resource:
            return Verdict()
        try:
            return self._defaults(request)
        except (Malformed, Unreadable):
            return Verdict()  # the validating webhook says what is wrong

    async def validate(self, request: AdmissionRequest) -> Verdict:
        """Allows or refuses, with the reason. What can't be checked is refused too."""
        if request.resource.group != GROUP:
            return Verdict()
        try:
            return Verdict(warnings=await self._judge(request))
        except (Malformed, Refused, Unreadable) as refused:
            return refusal(refused)
        except KubeError as error:
            return refusal(f"this can't be checked now, because {error}; try again")

    def _defaults(self, request: AdmissionRequest) -> Verdict:
        match request.resource.resource:
            case NETWORKS.plural:
                network = new_of(NETWORKS, request)
                if network is not None:
                    return network_defaults(network, old_of(NETWORKS, request), self._new_uuid)
            case NICS.plural:
                nic = new_of(NICS, request)
                if nic is not None and request.operation == "CREATE":
                    return nic_defaults(nic)
        return Verdict()

    async def _judge(self, request: AdmissionRequest) -> tuple[str, ...]:
        match request.resource.resource:
            case NETWORKS.plural:
                return await self._network(request)
            case NICS.plural:
                return await self._nic(request)
        return ()

    async def _network(self, request: AdmissionRequest) -> tuple[str, ...]:
        new, old = new_of(NETWORKS, request), old_of(NETWORKS, request)
        if request.sub_resource == STATUS and new is not None:
            await check_user(self._managers, request.user_info, f"Network {new.metadata.name}")
            check_network_status(new, old)
            return ()
        return await judge_network(self._client, new, old)

    async def _nic(self, request: AdmissionRequest) -> tuple[str, ...]:
        new, old = new_of(NICS, request), old_of(NICS, request)
        if request.sub_resource == STATUS and new is not None:
            await check_user(self._managers, request.user_info, f"Nic {new.metadata.key}")
            await check_nic_status(self._client, new, old)
            return ()
        node = self._agent_of(request.user_info)
        if node is not None:
            await check_agent(self._client, node, new, old)
        warnings = await judge_nic(self._client, self._world, new, old)
        if node is None and new is not None:
            await check_owner_is_there(self._client, new, old)
        return warnings
