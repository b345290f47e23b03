"""Ganeti's options of `network modify`, from when a network had one subnet of each IP version.

`--gateway`, `--network6` and `--gateway6` are about the first subnet of their version.
"""

from collections.abc import Iterator

from msgspec import UNSET, Struct, UnsetType

from lanloom.ipam.rules.addresses import Address, Version, parse_address, shown, version_of
from lanloom.ipam.rules.change import SubnetStep
from lanloom.ipam.rules.errors import Malformed, Refused
from lanloom.ipam.rules.model import Network, Subnet
from lanloom.ipam.rules.ranges import Cidr, parse_cidr
from lanloom.ipam.rules.subnets import AddSubnet, ModifySubnet

Gateway = Address | None | UnsetType
"""None takes the gateway away."""


class OldOptions(Struct, frozen=True, kw_only=True):
    """What was asked for. `note` tells what `--network6` was taken for."""

    gateway: Gateway = UNSET
    network6: Cidr | None = None
    gateway6: Gateway = UNSET
    note: str = ""

    def steps(self, network: Network) -> Iterator[SubnetStep]:
        """What that means for a network. Raises Refused where it has no subnet of that version."""
        if self.gateway is not UNSET:
            subnet = _first(network, 4, "--gateway")
            yield ModifySubnet(ident=_ident(subnet), gateway=self.gateway)
        notes = (self.note,) if self.note else ()
        if self.network6 is None:
            if self.gateway6 is not UNSET:
                yield ModifySubnet(ident=_ident(_first(network, 6, "--gateway6")), gateway=self.gateway6)
        elif (six := network.first_subnet(6)) is not None:
            yield ModifySubnet(ident=_ident(six), cidr=self.network6, gateway=self.gateway6, notes=notes)
        else:
            gateway = None if self.gateway6 is UNSET else self.gateway6
            yield AddSubnet(cidr=self.network6, gateway=gateway, notes=notes)


def old_options(gateway: str | None, network6: str | None, gateway6: str | None) -> OldOptions:
    """The options as they were written; None where not given. Raises Malformed."""
    cidr, note = None, ""
    if network6 is not None:
        cidr, normalised = parse_cidr(network6)
        if cidr.version != 6:
            raise Malformed(
                f"--network6 {shown(network6)} is not an IPv6 network; use --subnet for other ones"
            )
        note = f"--network6: {network6} has host bits; it means {cidr}" if normalised else ""
    return OldOptions(
        gateway=_gateway("--gateway", gateway, 4),
        network6=cidr,
        gateway6=_gateway("--gateway6", gateway6, 6),
        note=note,
    )


def _gateway(flag: str, text: str | None, version: Version) -> Gateway:
    if text is None:
        return UNSET
    if text == "none":
        return None
    address = parse_address(text)
    if version_of(address) != version:
        raise Malformed(f"{flag} {shown(text)} is not an IPv{version} address")
    return address


def _first(network: Network, version: Version, flag: str) -> Subnet:
    subnet = network.first_subnet(version)
    if subnet is None:
        raise Refused(
            f"network {network.name} has no IPv{version} subnet for {flag}; add one with --subnet add:cidr=…"
        )
    return subnet


def _ident(subnet: Subnet) -> str:
    return subnet.uuid or str(subnet.cidr)
