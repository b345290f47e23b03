"""Compare a Ganeti cluster's configuration with the objects that there are, without a plan to change anything."""

from lanloom.api.ipam import INSTANCE
from lanloom.features.ipam.ganeti.formats.config import Config
from lanloom.features.ipam.ganeti.plan import nics_meant, wanted_networks
from lanloom.features.ipam.ganeti.present import Present, network_changes, nic_changes
from lanloom.features.ipam.state import State, network_of


def compare(config: Config, state: State, namespace: str) -> tuple[str, ...]:
    """Return a line for each network and NIC that only one of the two has, or that differs. Raises Malformed."""
    wanted = wanted_networks(config, state)
    known = {one.item.metadata.name for one in wanted.values() if one.item is not None}
    others = {item.called: item for item in state.networks if item.metadata.name not in known}
    lines = []
    for uuid, one in wanted.items():
        if one.item is None and (other := others.pop(one.network.name, None)) is not None:
            theirs = other.spec.uuid or other.metadata.uid
            lines.append(
                f"~ network {one.network.name}: another one has the name, with UUID {theirs} instead of {uuid}; "
                "rename one of the two before an import"
            )
        elif one.item is None:
            lines.append(f"+ network {one.network.name}")
        elif changes := network_changes(network_of(one.item), one.network):
            lines.append(f"~ network {one.network.name}: {changes}")
    lines += [f"- network {name}" for name in others]
    there, met = Present(state, namespace), set[str]()
    for nic, spec in nics_meant(config, wanted):
        item = there.find(spec)
        if item is None:
            lines.append(f"+ {nic}")
            continue
        met.add(item.metadata.name)
        if changes := nic_changes(item.spec, spec):
            lines.append(f"~ {nic}: {changes}")
    lines += [
        f"- NIC {item.spec.index} of instance {item.spec.owner.name}"
        for item in state.nics
        if item.metadata.namespace == namespace
        and item.spec.owner.kind == INSTANCE
        and item.metadata.name not in met
    ]
    return tuple(lines)
