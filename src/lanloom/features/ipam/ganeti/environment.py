"""The environment of scripts and hooks, from a cluster or a file: Ganeti's variables, and further ones.

A NIC with one address in a network that has no more than Ganeti's networks have gets exactly Ganeti's variables. Others
get `IP:i`, `NETWORK_SUBNET:i`, `NETWORK_GATEWAY:i` and `NETWORK_DHCP:i` besides, i counting addresses and subnets. A
POSIX shell drops variables with a colon in their names, so each of them is there with an underscore as well.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from msgspec import Struct

from lanloom.features.ipam.commands.instances import the_instance
from lanloom.features.ipam.ganeti.files import read_file
from lanloom.features.ipam.ganeti.formats.config import Config, network_meant, nic_meant
from lanloom.features.ipam.ganeti.formats.verify import read_config as config_in
from lanloom.features.ipam.rules.addresses import Version, format_address
from lanloom.features.ipam.rules.general import effective
from lanloom.features.ipam.rules.model import (
    Connection,
    Network,
    Nic,
    Subnet,
)
from lanloom.features.ipam.state import State, network_of, nic_of
from lanloom.refusals import Denied, Malformed
from lanloom.text import quote


class InstanceNics(Struct, frozen=True):
    """An instance's NICs in order, each with its network."""

    name: str
    nics: tuple[tuple[Nic, Network | None], ...]


def instance_of_state(state: State, namespace: str, name: str) -> InstanceNics:
    """Return an instance of a cluster. Raises Denied, Malformed."""
    found = the_instance(state, namespace, name)
    nics = [nic_of(item) for item in found.nics]
    named = {nic.network for nic in nics}
    networks = {
        item.metadata.name: network_of(item) for item in state.networks if item.metadata.name in named
    }
    return InstanceNics(found.name, tuple((nic, networks.get(nic.network)) for nic in nics))


def network_of_state(state: State, ident: str) -> Network:
    """Return a network of a cluster, by UUID or name. Raises Denied, Malformed."""
    return network_of(state.find(ident))


def read_config(path: Path) -> Config:
    """Read a config.data. Raises Malformed."""
    try:
        return config_in(read_file(path).text)
    except Malformed as error:
        raise Malformed(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None


def instance_of_config(config: Config, name: str) -> InstanceNics:
    """Return an instance of a config.data, by name or UUID. Raises Denied."""
    found = config.instances.get(name, name)
    if found not in config.instances.values():
        raise Denied(f"instance {quote(name)} does not exist in the file")
    networks = {uuid: network_meant(network, config) for uuid, network in config.networks.items()}
    nics = [nic_meant(nic) for nic in config.nics if nic.instance == found]
    return InstanceNics(found, tuple((nic, networks.get(nic.network)) for nic in nics))


def network_of_config(config: Config, ident: str) -> Network:
    """Return a network of a config.data, by UUID or name. Raises Denied."""
    for network in config.networks.values():
        if ident in (network.uuid, network.name):
            return network_meant(network, config)
    raise Denied(f"network {quote(ident)} does not exist in the file")


Environment = dict[str, str]

BRIDGED = ("bridged", "openvswitch")
"""Modes in which the link is a bridge."""

_ASSIGNABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def hook_environment(instance: str, nics: Sequence[tuple[Nic, Network | None]]) -> Environment:
    """Return the variables of hooks for an instance's NICs: names begin with `INSTANCE_NICn_`, n counting them."""
    env = {"INSTANCE_NAME": instance, "INSTANCE_NIC_COUNT": str(len(nics))}
    for index, (nic, network) in enumerate(nics):
        names = {"NAME": nic.name} if nic.name else {}
        env |= _prefixed(f"INSTANCE_NIC{index}_", {**names, "UUID": nic.uuid, **_nic(nic, network)})
    return env


def script_environment(instance: str, index: int, nic: Nic, network: Network | None) -> Environment:
    """Return the variables of the script that configures an interface: names without a prefix.

    Unlike hooks, it gets no empty address or link, and a bridge in mode bridged only.
    """
    names = {"INTERFACE_NAME": nic.name} if nic.name else {}
    known = {"INSTANCE": instance, "INTERFACE_INDEX": str(index), "INTERFACE_UUID": nic.uuid}
    env = {**known, **names, **_nic(nic, network)}
    left_out = {name for name in ("IP", "LINK") if not env[name]}
    if env["MODE"] != "bridged":
        left_out.add("BRIDGE")
    return {name: value for name, value in env.items() if name not in left_out}


def network_environment(network: Network) -> Environment:
    """Return the variables of hooks for a network."""
    return {**_network(network), **({} if has_old_shape(network) else _subnets(network))}


def has_old_shape(network: Network) -> bool:
    """Return whether a network is no more than Ganeti's: one IPv4 subnet, perhaps an IPv6 one; no name, no DHCP."""
    versions = [subnet.cidr.version for subnet in network.subnets]
    return versions in ([4], [4, 6]) and not any(subnet.dhcp or subnet.name for subnet in network.subnets)


def as_lines(env: Mapping[str, str]) -> Iterator[str]:
    """`NAME=value` lines, ordered. Raises Malformed for a value that would break a line."""
    for name, value in sorted(env.items()):
        if "\n" in value:
            raise Malformed(f"{name} contains a line break; use the output json or shell")
        yield f"{name}={_whole(name, value)}"


def as_shell(env: Mapping[str, str]) -> Iterator[str]:
    """Return lines for a shell's `eval`, without names that no shell can assign, for which there are others.

    Raises Malformed for a value that no variable can hold.
    """
    for name, value in sorted(env.items()):
        if _ASSIGNABLE.fullmatch(name):
            yield f"export {name}={shlex.quote(_whole(name, value))}"


def _whole(name: str, value: str) -> str:
    """Return a value that a variable can hold: text without NUL. Raises Malformed."""
    if "\0" in value or any("\ud800" <= char <= "\udfff" for char in value):
        raise Malformed(f"{name} contains characters that are not allowed in a variable; use the output json")
    return value


def _nic(nic: Nic, network: Network | None) -> Environment:
    own = Connection(group="", mode=nic.mode, link=nic.link, vlan=nic.vlan)
    l2 = effective(own, network.connections if network is not None else ())
    env = {"IP": nic.ip, "MAC": nic.mac, "MODE": l2.mode, "LINK": l2.link, "VLAN": l2.vlan}
    if l2.mode in BRIDGED:
        env["BRIDGE"] = l2.link
    if network is not None:
        env |= _network(network)
    elif nic.network:
        env["NETWORK_NAME"] = nic.network
    if len(nic.ips) > 1 or (network is not None and not has_old_shape(network)):
        for index, address in enumerate(nic.ips):
            env |= _twins("IP", index, format_address(address))
        env |= {} if network is None else _subnets(network)
    return env


def _network(network: Network) -> Environment:
    """Ganeti's variables of a network: of its first subnet of each IP version."""
    env = {"NETWORK_NAME": network.name, "NETWORK_UUID": network.uuid, "NETWORK_TAGS": " ".join(network.tags)}
    versions: tuple[tuple[Version, str], ...] = ((4, ""), (6, "6"))
    for version, suffix in versions:
        first = network.first_subnet(version)
        if first is not None:
            env |= {f"{name}{suffix}": value for name, value in _l3(first).items()}
    return env | ({"NETWORK_MAC_PREFIX": network.mac_prefix} if network.mac_prefix else {})


def _subnets(network: Network) -> Environment:
    env: Environment = {}
    for index, subnet in enumerate(network.subnets):
        for name, value in (*_l3(subnet).items(), ("NETWORK_DHCP", "true" if subnet.dhcp else "false")):
            env |= _twins(name, index, value)
    return env


def _l3(subnet: Subnet) -> Environment:
    gateway = {} if subnet.gateway is None else {"NETWORK_GATEWAY": format_address(subnet.gateway)}
    return {"NETWORK_SUBNET": str(subnet.cidr), **gateway}


def _twins(name: str, index: int, value: str) -> Environment:
    return {f"{name}:{index}": value, f"{name}_{index}": value}


def _prefixed(prefix: str, env: Environment) -> Environment:
    return {f"{prefix}{name}": value for name, value in env.items()}
