"""The node's side of address management: answers the CNI program `lanloom-ipam`.

`service` is the CNI commands, by way of `nics`. `cnitypes` and `pods` are rules over input of runtimes, users and
KubeVirt.
"""

from random import Random
from typing import TYPE_CHECKING

from lanloom.api.ipam import NETWORKS
from lanloom.kube.events import Recorder
from lanloom.kube.ports import Client
from lanloom.runtime.cni.calls import VERSIONS, Call, Raw, shaped
from lanloom.runtime.cni.server import CniService
from lanloom.runtime.context import AgentContext, AgentPart
from lanloom.runtime.ports import IPAM_PROGRAMS

if TYPE_CHECKING:
    from lanloom.features.ipam.agent.service import IpamService

PROGRAM = "lanloom-ipam"
"""The name of the program, which configurations give as the `type` of their `ipam` section."""


def build(context: AgentContext) -> AgentPart:
    """Answer the program, and other features that name it; unless the agent is configured to answer none."""
    if context.cni is None:
        return AgentPart()
    service = LateService(context.client, context.host.name, context.recorder, context.rng)
    cni = CniService(answer=service.answer, called=context.metrics["ipam"].called, unversioned=VERSIONS[0])
    context.provide(IPAM_PROGRAMS, {PROGRAM: cni})
    return AgentPart(cni=cni, attaching=(NETWORKS,))


class LateService:
    """The service, loaded at the first call: until then, on most nodes for good, it would only take memory."""

    def __init__(self, client: Client, node: str, recorder: Recorder, rng: Random) -> None:
        self._made = (client, node, recorder, rng)
        self._service: IpamService | None = None

    async def answer(self, call: Call) -> Raw:
        """Answer as IpamService does, with a result in the form of the call's version of CNI."""
        if self._service is None:
            from lanloom.features.ipam.agent.service import IpamService

            client, node, recorder, rng = self._made
            self._service = IpamService(client, node, recorder, rng=rng)
        result = await self._service.answer(call)
        return shaped(result, call.version) if call.command == "ADD" else result
