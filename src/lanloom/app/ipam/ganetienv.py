"""Instances and networks for hook environments, from the API or from a file of Ganeti's."""

from pathlib import Path

from msgspec import Struct

from lanloom.app.ipam.ganetifiles import read_file
from lanloom.app.ipam.instances import the_instance
from lanloom.ipam.rules.addresses import shown
from lanloom.ipam.rules.errors import Malformed, Refused
from lanloom.ipam.rules.ganeti.config import Config
from lanloom.ipam.rules.ganeti.meaning import network_meant, nic_meant
from lanloom.ipam.rules.ganeti.verify import read_config as config_in
from lanloom.ipam.rules.model import Network, Nic
from lanloom.ipam.state import State
from lanloom.ipam.wire import network_of, nic_of


class InstanceNics(Struct, frozen=True):
    """An instance's NICs in order, each with its network."""

    name: str
    nics: tuple[tuple[Nic, Network | None], ...]


def instance_of_state(state: State, namespace: str, name: str) -> InstanceNics:
    """An instance of a cluster. Raises Refused, Malformed."""
    found = the_instance(state, namespace, name)
    networks = {item.metadata.name: network_of(item) for item in state.networks}
    nics = [nic_of(item) for item in found.nics]
    return InstanceNics(found.name, tuple((nic, networks.get(nic.network)) for nic in nics))


def network_of_state(state: State, ident: str) -> Network:
    """A network of a cluster, by UUID or name. Raises Refused, Malformed."""
    return network_of(state.find(ident))


def read_config(path: Path) -> Config:
    """What a config.data says. Raises Malformed."""
    try:
        return config_in(read_file(path).text)
    except Malformed as error:
        raise Malformed(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None


def instance_of_config(config: Config, name: str) -> InstanceNics:
    """An instance of a config.data, by name or UUID. Raises Refused."""
    found = config.instances.get(name, name)
    if found not in config.instances.values():
        raise Refused(f"there is no instance {shown(name)} in the file")
    networks = {uuid: network_meant(network, config) for uuid, network in config.networks.items()}
    nics = [nic_meant(nic) for nic in config.nics if nic.instance == found]
    return InstanceNics(found, tuple((nic, networks.get(nic.network)) for nic in nics))


def network_of_config(config: Config, ident: str) -> Network:
    """A network of a config.data, by UUID or name. Raises Refused."""
    for network in config.networks.values():
        if ident in (network.uuid, network.name):
            return network_meant(network, config)
    raise Refused(f"there is no network {shown(ident)} in the file")
