"""All of DHCP for pods and machines that runs in an agent's process."""

from msgspec.structs import replace

from lanloom.api.core import PODS, Pod
from lanloom.api.multus import MULTUS_NETWORKS, NETWORK_STATUS
from lanloom.features.ipam.dhcp.guests import Guests
from lanloom.features.ipam.dhcp.server import GuestDhcp, GuestPorts
from lanloom.runtime.context import AgentContext, AgentPart
from lanloom.runtime.ports import LAN_PLACES, Port

GUEST_PORTS: Port[GuestPorts] = Port("a node's kernel, as far as DHCP goes")
"""Provided before the part is built by those who play a node; otherwise the kernel is this machine's."""

_READ = (NETWORK_STATUS, MULTUS_NETWORKS)


def build(context: AgentContext) -> AgentPart:
    """Answer the requests of the node's pods and machines, in an agent with that option."""
    if not context.setting("dhcp", False):
        return AgentPart()
    pods = context.informers.get(PODS, fields=f"spec.nodeName={context.host.name}", transform=_needed)
    server = GuestDhcp(
        pods,
        Guests(context.client, pods.store),
        context.find(GUEST_PORTS) or _kernel(),
        lambda: context.find(LAN_PLACES),
        context.recorder,
        context.metrics["dhcp"],
    )
    return AgentPart(run=server.run)


def _kernel() -> GuestPorts:
    from lanloom.features.ipam.agent.links import NetlinkGuestPorts

    return NetlinkGuestPorts()


def _needed(pod: Pod) -> Pod:
    """Return the pod without annotations that are not read here."""
    meta = pod.metadata
    kept = {name: meta.annotations[name] for name in _READ if name in meta.annotations}
    return replace(pod, metadata=replace(meta, annotations=kept))
