"""The answers to admission requests."""

from collections.abc import Awaitable, Callable

from lanloom.api.admission import (
    AdmissionRequest,
    Unreadable,
    UserInfo,
    Verdict,
    new_of,
    old_of,
    refusal,
)
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.features.ipam.admission.addresses import CachedContext
from lanloom.features.ipam.admission.networks import check_network_change, network_defaults
from lanloom.features.ipam.admission.nics import check_nic_change, check_owner_is_there, nic_defaults
from lanloom.features.ipam.admission.permissions import (
    check_agent,
    check_network_status,
    check_nic_status,
    check_user,
)
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client
from lanloom.refusals import Denied, Malformed
from lanloom.runtime.identity import Managers
from lanloom.runtime.webhooktable import EVERY, WRITTEN, TableAdmission, Webhook

AgentOf = Callable[[UserInfo], str | None]
"""The node whose agent a user is: None for anybody else, empty for an agent of no known node."""

STATUS = "status"


class IpamAdmission(TableAdmission):
    """Answers admission requests about networks and NICs.

    `cached` is the manager's view of a network, `new_uuid` makes a UUID; `user` is the username that this manager
    authenticates as, empty if that is not known.
    """

    def __init__(
        self,
        client: Client,
        cached: CachedContext,
        agent_of: AgentOf,
        new_uuid: Callable[[], str],
        user: str = "",
    ) -> None:
        super().__init__(WEBHOOKS)
        self._client = client
        self._cached = cached
        self._agent_of = agent_of
        self._new_uuid = new_uuid
        self._managers = Managers(client, user)

    def default_network(self, request: AdmissionRequest) -> Verdict:
        """Fill in what a network leaves out."""
        try:
            new = new_of(NETWORKS, request)
            if request.sub_resource or new is None:
                return Verdict()
            return network_defaults(new, old_of(NETWORKS, request), self._new_uuid)
        except (Malformed, Unreadable):
            return Verdict()  # the validating webhook says what is wrong

    def default_nic(self, request: AdmissionRequest) -> Verdict:
        """Fill in what a NIC leaves out."""
        try:
            new = new_of(NICS, request)
            return Verdict() if request.sub_resource or new is None else nic_defaults(new)
        except (Malformed, Unreadable):
            return Verdict()  # the validating webhook says what is wrong

    async def validate_network(self, request: AdmissionRequest) -> Verdict:
        """Allow or refuse changes of a network."""
        return await _verdict(self._network(request))

    async def validate_nic(self, request: AdmissionRequest) -> Verdict:
        """Allow or refuse changes of a NIC."""
        return await _verdict(self._nic(request))

    async def _network(self, request: AdmissionRequest) -> tuple[str, ...]:
        new, old = new_of(NETWORKS, request), old_of(NETWORKS, request)
        if request.sub_resource == STATUS and new is not None:
            await check_user(self._managers, request.user_info, f"Network {new.metadata.name}")
            check_network_status(new, old)
            return ()
        return await check_network_change(self._client, new, old)

    async def _nic(self, request: AdmissionRequest) -> tuple[str, ...]:
        new, old = new_of(NICS, request), old_of(NICS, request)
        if request.sub_resource == STATUS and new is not None:
            await check_user(self._managers, request.user_info, f"Nic {new.metadata.key}")
            await check_nic_status(self._client, new, old)
            return ()
        node = self._agent_of(request.user_info)
        if node is not None:
            await check_agent(self._client, node, new, old)
        warnings = await check_nic_change(self._client, self._cached, new, old)
        if node is None and new is not None:
            await check_owner_is_there(self._client, new, old)
        return warnings


async def _verdict(check: Awaitable[tuple[str, ...]]) -> Verdict:
    """The verdict with the reason. What can't be checked is refused too."""
    try:
        return Verdict(warnings=await check)
    except (Malformed, Denied, Unreadable) as refused:
        return refusal(refused)
    except KubeError as error:
        return refusal(f"the request can't be validated now because {error}; try again")


WEBHOOKS = (
    Webhook("mutate", NETWORKS, WRITTEN, IpamAdmission.default_network),
    Webhook("mutate", NICS, ("CREATE",), IpamAdmission.default_nic),
    Webhook("validate", NETWORKS, EVERY, IpamAdmission.validate_network),
    Webhook("validate", NICS, EVERY, IpamAdmission.validate_nic),
)
"""The resources that the webhooks review, with the status subresources."""
