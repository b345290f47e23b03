"""NADs whose addresses Lanloom gives, and the machine behind a pod as it would be attached to one of them."""

from contextlib import suppress

from msgspec.structs import replace

from lanloom.api.core import Pod
from lanloom.api.kubevirt import MultusNetwork, VirtualMachineInstance
from lanloom.api.l3 import AnnotationError
from lanloom.api.meta import Key
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import read_config
from lanloom.features.ipam.agent.pods import Holder, hashed_interface, machine_holder
from lanloom.runtime.cni.calls import Call

PLUGIN = "lanloom-ipam"


def config_of(nad: NetworkAttachmentDefinition) -> dict[str, object] | None:
    """Return the configuration of a NAD whose addresses Lanloom gives; None for any other."""
    with suppress(AnnotationError):
        config = read_config(nad.spec.config)
        plugins = config.get("plugins")
        first = plugins[0] if isinstance(plugins, list) and plugins else config
        section = first.get("ipam") if isinstance(first, dict) else None
        if isinstance(section, dict) and section.get("type") == PLUGIN:
            return {"name": config.get("name", nad.metadata.name), **first}
    return None


def moved_holder(
    instance: VirtualMachineInstance, pod: Pod, network: str, nad: Key, config: dict[str, object]
) -> tuple[Holder, Call]:
    """Return the machine as it would be with that NAD for the network, and the call of the plugin that would come."""
    nics = tuple(
        replace(item, multus=replace(item.multus or MultusNetwork(), network_name=str(nad)))
        if item.name == network
        else item
        for item in instance.spec.networks
    )
    moved = replace(instance, spec=replace(instance.spec, networks=nics))
    call = Call(
        program=PLUGIN,
        command="ADD",
        config={"name": nad.name, **config},
        interface=hashed_interface(network),
    )
    return machine_holder(pod, moved, call), call
