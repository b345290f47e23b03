"""Ganeti's options of `network add` and `network modify`, from when a network had one subnet of each IP version.

For `add`, `--network` is a subnet with a pool over all of it and `--network6` one without a pool. For `modify`,
`--gateway`, `--network6` and `--gateway6` are about the first subnet of their version.
"""

from collections.abc import Iterator

from msgspec import UNSET, Struct, UnsetType

from lanloom.features.ipam.cli.grammar.options import Option
from lanloom.features.ipam.cli.grammar.syntax import check_gateway, read_cidr
from lanloom.features.ipam.rules.addresses import (
    Address,
    Version,
    parse_address,
    version_of,
)
from lanloom.features.ipam.rules.change import SubnetStep
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.features.ipam.rules.ranges import Cidr
from lanloom.features.ipam.rules.subnets import AddSubnet, ModifySubnet
from lanloom.refusals import Denied

Gateway = Address | None | UnsetType
"""None takes the gateway away."""


class OldOptions(Struct, frozen=True, kw_only=True):
    """What `modify` was asked for. `notes` tell what `--network6` was taken for."""

    gateway: Gateway = UNSET
    network6: Cidr | None = None
    gateway6: Gateway = UNSET
    notes: tuple[str, ...] = ()

    def steps(self, network: Network) -> Iterator[SubnetStep]:
        """What that means for a network. Raises Denied where it has no subnet of that version."""
        if self.gateway is not UNSET:
            subnet = _first(network, 4, "--gateway")
            yield ModifySubnet(ident=_ident(subnet), gateway=self.gateway)
        if self.network6 is None:
            if self.gateway6 is not UNSET:
                yield ModifySubnet(ident=_ident(_first(network, 6, "--gateway6")), gateway=self.gateway6)
        elif (six := network.first_subnet(6)) is not None:
            yield ModifySubnet(ident=_ident(six), cidr=self.network6, gateway=self.gateway6, notes=self.notes)
        else:
            gateway = None if self.gateway6 is UNSET else self.gateway6
            yield AddSubnet(cidr=self.network6, gateway=gateway, notes=self.notes)


def old_options(gateway: str | None, network6: str | None, gateway6: str | None) -> OldOptions:
    """The options of `modify` as they were written; None where not given. Raises Malformed."""
    cidr, notes = (None, ()) if network6 is None else _cidr(6, network6)
    return OldOptions(
        gateway=_gateway("--gateway", gateway, 4),
        network6=cidr,
        gateway6=_gateway("--gateway6", gateway6, 6),
        notes=notes,
    )


def old_subnets(
    network: str | None = None,
    gateway: str | None = None,
    network6: str | None = None,
    gateway6: str | None = None,
) -> tuple[AddSubnet, ...]:
    """The subnets that the options of `add` stand for; None where not given. Raises Malformed."""
    return (*_new_subnet(4, network, gateway), *_new_subnet(6, network6, gateway6))


def _new_subnet(version: Version, text: str | None, gateway: str | None) -> Iterator[AddSubnet]:
    beside = Option(flag=f"--gateway{_suffix(version)}", text=gateway or "")
    if text is None:
        if gateway is not None:
            raise beside.malformed(f"it needs --network{_suffix(version)} as well; give its CIDR")
        return
    cidr, notes = _cidr(version, text)
    address = None if gateway is None else beside.read(parse_address, gateway)
    check_gateway(beside, cidr, address)
    yield AddSubnet(cidr=cidr, gateway=address, pool=version == 4, notes=notes)


def _cidr(version: Version, text: str) -> tuple[Cidr, tuple[str, ...]]:
    option = Option(flag=f"--network{_suffix(version)}", text=text)
    cidr, notes = read_cidr(option, text)
    if cidr.version != version:
        raise option.malformed(f"it is not an IPv{version} network; use --subnet for other ones")
    return cidr, notes


def _gateway(flag: str, text: str | None, version: Version) -> Gateway:
    if text is None:
        return UNSET
    if text == "none":
        return None
    option = Option(flag=flag, text=text)
    address = option.read(parse_address, text)
    if version_of(address) != version:
        raise option.malformed(f"it is not an IPv{version} address; give one, or none")
    return address


def _suffix(version: Version) -> str:
    return "6" if version == 6 else ""


def _first(network: Network, version: Version, flag: str) -> Subnet:
    subnet = network.first_subnet(version)
    if subnet is None:
        raise Denied(
            f"network {network.name} has no IPv{version} subnet for {flag}; add one with --subnet add:cidr=…"
        )
    return subnet


def _ident(subnet: Subnet) -> str:
    return subnet.uuid or str(subnet.cidr)
