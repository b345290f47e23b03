"""What the API server asks about isolated networks, answered."""

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
from lanloom.api.core import PODS
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS
from lanloom.api.harvester import VLAN_CONFIGS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.multus import NADS
from lanloom.features.dummy.admission.objects import ObjectValidator
from lanloom.features.dummy.admission.reader import StoreReader
from lanloom.features.dummy.admission.references import References
from lanloom.features.dummy.rules.admit import concerns
from lanloom.kube.errors import KubeError
from lanloom.kube.ports import Client
from lanloom.refusals import Denied, Refusal
from lanloom.runtime.webhooktable import (
    EVERY,
    WRITTEN,
    TableAdmission,
    Webhook,
)

IsManager = Callable[[UserInfo], Awaitable[bool]]
"""Whether a manager asks."""


class DummyAdmission(TableAdmission):
    """Answers admission requests about isolated networks, their NADs, and who refers to these.

    `now` is in seconds since the epoch.
    """

    def __init__(
        self, client: Client, reader: StoreReader, is_manager: IsManager, *, now: Callable[[], float]
    ) -> None:
        super().__init__(WEBHOOKS)
        self._is_manager = is_manager
        self._objects = ObjectValidator(client, reader, now=now)
        self._references = References(client, reader, now=now)

    async def validate_network(self, request: AdmissionRequest) -> Verdict:
        """Allows or refuses what is written of a DummyClusterNetwork."""
        return await _verdict(self._network(request))

    async def validate_nad(self, request: AdmissionRequest) -> Verdict:
        """Allows or refuses what is written of a NAD."""
        return await _verdict(self._nad(request))

    async def validate_config(self, request: AdmissionRequest) -> Verdict:
        """Allows or refuses what is written of a VlanConfig."""
        return await _verdict(self._config(request))

    async def validate_reference(self, request: AdmissionRequest) -> Verdict:
        """Whether a machine or a pod may refer to the networks that it names."""
        return await self._references.validate(request)

    async def _network(self, request: AdmissionRequest) -> tuple[str, ...]:
        new, old = new_of(DUMMY_CLUSTER_NETWORKS, request), old_of(DUMMY_CLUSTER_NETWORKS, request)
        if request.sub_resource and new is not None:
            if not await self._is_manager(request.user_info):
                raise Denied(
                    f"DummyClusterNetwork {new.metadata.name}: status is written by Lanloom's manager only; "
                    "change the spec instead"
                )
            return ()
        return await self._objects.network(new, old)

    async def _nad(self, request: AdmissionRequest) -> tuple[str, ...]:
        try:
            new, old = new_of(NADS, request), old_of(NADS, request)
        except Unreadable:
            return ()  # somebody else's, for all we know; the webhook of VLANs says what is wrong
        by_manager = concerns(new, old) and await self._is_manager(request.user_info)
        await self._objects.nad(new, old, by_manager=by_manager)
        return ()

    async def _config(self, request: AdmissionRequest) -> tuple[str, ...]:
        try:
            new, old = new_of(VLAN_CONFIGS, request), old_of(VLAN_CONFIGS, request)
        except Unreadable:
            return ()  # the webhook of VLANs says what is wrong
        await self._objects.config(new, old)
        return ()


async def _verdict(validation: Awaitable[tuple[str, ...]]) -> Verdict:
    """The verdict with the reason. What can't be checked is refused too."""
    try:
        return Verdict(warnings=await validation)
    except (Refusal, Unreadable) as refused:
        return refusal(refused)
    except KubeError as error:
        return refusal(f"this can't be checked now, because {error}; try again")


WEBHOOKS = (
    Webhook("validate", DUMMY_CLUSTER_NETWORKS, EVERY, DummyAdmission.validate_network),
    Webhook("validate", NADS, EVERY, DummyAdmission.validate_nad),
    Webhook("validate", VLAN_CONFIGS, WRITTEN, DummyAdmission.validate_config),
    Webhook("refer", VIRTUAL_MACHINES, WRITTEN, DummyAdmission.validate_reference),
    Webhook("refer", VIRTUAL_MACHINE_INSTANCES, ("CREATE",), DummyAdmission.validate_reference),
    Webhook("refer", PODS, ("CREATE",), DummyAdmission.validate_reference),
)
"""What the API server asks about. Nothing is filled in: what is left out has its default in the schema."""
