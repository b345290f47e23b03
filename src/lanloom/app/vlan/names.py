"""Which network a user means by a name, and which names there are."""

from lanloom.api.dummy import NAME_ANNOTATION, UID_LABEL
from lanloom.api.meta import Object
from lanloom.api.nadconfig import cluster_network_of
from lanloom.app.vlan.objects import VlanObjects
from lanloom.app.vlan.view import ClusterNetworkView, NetworkView, cluster_network_view, network_view


class UnknownNetwork(Exception):
    """There is no VLAN network of that name; the message says which there are, or what it is instead."""


def find(objects: VlanObjects, name: str, namespace: str) -> NetworkView | ClusterNetworkView:
    """The network of a name: a NAD's `namespace/name`, a cluster network's, or a NAD's in `namespace`.

    A name without a namespace that belongs to just one NAD means that one. Raises UnknownNetwork.
    """
    network = objects.network(name)
    if network is not None:
        if not objects.configs_of(name):
            _check_vlan(network)
        return cluster_network_view(objects, network)
    nads = {str(item.metadata.key): item for item in objects.nads}
    key = name if "/" in name else f"{namespace}/{name}"
    if key in nads:
        _check_vlan(nads[key])
        return network_view(objects, nads[key])
    alike = sorted(title for title in nads if title.partition("/")[2] == name)
    if len(alike) == 1:
        return network_view(objects, nads[alike[0]])
    if alike:
        raise UnknownNetwork(f"{name} is in several namespaces; name one of {', '.join(alike)}")
    known = completions(objects, "")
    there = f"there are {', '.join(known)}" if known else "there is none yet (see `lanloom vlan plan --help`)"
    raise UnknownNetwork(f"there is no network {name}; {there}")


def _check_vlan(item: Object) -> None:
    if UID_LABEL in item.metadata.labels:
        name = item.metadata.annotations.get(NAME_ANNOTATION, "")
        raise UnknownNetwork(
            f"{item.metadata.key} is of an isolated network; see `lanloom dummy show {name}`"
        )


def completions(objects: VlanObjects, beginning: str) -> list[str]:
    """The names that begin so: cluster networks first, then NADs by namespace and name."""
    networks = sorted(item.metadata.name for item in objects.networks)
    nads = sorted(str(item.metadata.key) for item in objects.nads if cluster_network_of(item))
    short = [title for title in nads if title.partition("/")[2].startswith(beginning)] if beginning else []
    return [name for name in (*networks, *nads) if name.startswith(beginning)] or short
