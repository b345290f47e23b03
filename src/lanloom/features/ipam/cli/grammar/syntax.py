"""The options of `network add` and `network modify` as the steps that they stand for.

An option that is malformed here is malformed for every network: the message quotes the option and says what to write.
Everything else is validated by the steps themselves.

Ganeti's options are from when a network had one subnet of each IP version. For `add`, `--network` is a subnet with a
pool over all of it and `--network6` one without a pool. For `modify`, `--gateway`, `--network6` and `--gateway6` are
about the first subnet of their version.
"""

from collections.abc import Iterator, Sequence

from msgspec import UNSET, Struct, UnsetType

from lanloom.features.ipam.cli.grammar.options import Option, parse_option, parse_parameters
from lanloom.features.ipam.rules.addresses import (
    Address,
    Cidr,
    IPRange,
    Version,
    parse_address,
    parse_cidr,
    parse_range,
    version_of,
)
from lanloom.features.ipam.rules.change import (
    PoolStep,
    ReservedStep,
    Step,
    SubnetStep,
    in_order,
)
from lanloom.features.ipam.rules.model import Network, Subnet
from lanloom.features.ipam.rules.names import (
    check_name,
    is_name,
    is_range,
    is_uuid,
)
from lanloom.features.ipam.rules.subnets import (
    AddPool,
    AddReserved,
    AddSubnet,
    ModifyPool,
    ModifySubnet,
    RemovePool,
    RemoveReserved,
    RemoveSubnet,
)
from lanloom.features.ipam.rules.validate import gateway_faults
from lanloom.refusals import Denied, Malformed
from lanloom.text import quote

SUBNET, POOL = "--subnet", "--pool"
ADD_RESERVED, REMOVE_RESERVED = "--add-reserved-ips", "--remove-reserved-ips"


def add_steps(
    subnets: Sequence[str] = (),
    pools: Sequence[str] = (),
    reserved: str | None = None,
    old: Sequence[AddSubnet] = (),
) -> tuple[Step, ...]:
    """Return the steps of `network add`'s options, in the order in which they take effect. Raises Malformed.

    `old` are the subnets of the deprecated options (`oldoptions`).
    """
    if old and subnets:
        raise Malformed(
            "--network and --network6 can't be used together with --subnet; write --subnet cidr=… for each subnet"
        )
    return in_order(
        [*old, *map(new_subnet, subnets), *map(new_pool, pools), *_reserved(reserved, adding=True)]
    )


def modify_steps(
    subnets: Sequence[str] = (),
    pools: Sequence[str] = (),
    add_reserved: str | None = None,
    remove_reserved: str | None = None,
) -> tuple[Step, ...]:
    """Return the steps of `network modify`'s options, in the order in which they take effect. Raises Malformed."""
    return in_order(
        [
            *map(subnet_step, subnets),
            *map(pool_step, pools),
            *_reserved(add_reserved, adding=True),
            *_reserved(remove_reserved, adding=False),
        ]
    )


def new_subnet(text: str) -> AddSubnet:
    """`cidr=…` with gateway, dhcp, name and pool: `--subnet` of `network add`. Raises Malformed."""
    return _add_subnet(parse_parameters(text, SUBNET))


def subnet_step(text: str) -> SubnetStep:
    """`add:cidr=…`, `IDENT:modify,…`, `IDENT:remove` or `remove:IDENT`. Raises Malformed."""
    option = parse_option(text, SUBNET)
    if option.action == "add" and not option.ident:
        return _add_subnet(option)
    if option.action not in ("remove", "modify"):
        raise option.malformed("write add:cidr=…, IDENT:modify,… or IDENT:remove")
    _check_subnet_ident(option)
    return RemoveSubnet(ident=option.ident) if option.action == "remove" else _modify_subnet(option)


def new_pool(text: str) -> AddPool:
    """`RANGE` or `subnet=…`, with name and disabled: `--pool` of `network add`. Raises Malformed."""
    return _add_pool(parse_parameters(text, POOL))


def pool_step(text: str) -> PoolStep:
    """`add:RANGE`, `add:subnet=…`, `IDENT:modify,…`, `IDENT:remove` or `remove:IDENT`. Raises Malformed."""
    option = parse_option(text, POOL)
    if option.action == "add" and not option.ident:
        return _add_pool(option)
    if option.action not in ("remove", "modify"):
        raise option.malformed("write add:RANGE, add:subnet=IDENT, IDENT:modify,… or IDENT:remove")
    ident = _pool_ident(option)
    return RemovePool(ident=ident) if option.action == "remove" else _modify_pool(option, ident)


def reserved_steps(text: str, adding: bool) -> tuple[ReservedStep, ...]:
    """Parse ranges with commas between them: `--add-reserved-ips` or `--remove-reserved-ips`. Raises Malformed."""
    option = Option(flag=ADD_RESERVED if adding else REMOVE_RESERVED, text=text)
    kind: type[ReservedStep] = AddReserved if adding else RemoveReserved
    if not text:
        raise option.malformed("name at least one address or range")
    return tuple(kind(range=option.read(parse_range, element)) for element in text.split(","))


def _add_subnet(option: Option) -> AddSubnet:
    _no_bare(option, "write cidr=… for the subnet's CIDR")
    option.only(("cidr", "gateway", "dhcp", "lease", "name", "pool"))
    text = option.string("cidr")
    if text is None:
        raise option.malformed("cidr is missing; write cidr=… with the subnet's CIDR")
    cidr, notes = read_cidr(option, text)
    gateway = _gateway(option)
    check_gateway(option, cidr, gateway)
    return AddSubnet(
        cidr=cidr,
        gateway=None if gateway is UNSET else gateway,
        dhcp=option.boolean("dhcp") or False,
        lease_seconds=_lease(option) or 0,
        name=_name(option, "a subnet") or "",
        pool=option.boolean("pool") or False,
        notes=notes,
    )


def _modify_subnet(option: Option) -> ModifySubnet:
    _no_bare(option, "write the change, such as cidr=…")
    option.only(("cidr", "gateway", "dhcp", "lease", "name"))
    if not option.params:
        raise option.malformed("it changes nothing; give cidr=…, gateway=…, dhcp=…, lease=… or name=…")
    text = option.string("cidr")
    cidr, notes = (None, ()) if text is None else read_cidr(option, text)
    gateway = _gateway(option)
    if cidr is not None:
        check_gateway(option, cidr, gateway)
    return ModifySubnet(
        ident=option.ident,
        cidr=cidr,
        gateway=gateway,
        dhcp=option.boolean("dhcp"),
        lease_seconds=_lease(option),
        name=_name(option, "a subnet"),
        notes=notes,
    )


def _lease(option: Option) -> int | None:
    """Parse the seconds of a lease, none for the default; return None where the option is not given."""
    if "lease" not in option.params:
        return None
    text = option.string("lease") or ""
    if text != "none" and not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise option.malformed("lease is a number of seconds, or none")
    return 0 if text == "none" else int(text)


def _add_pool(option: Option) -> AddPool:
    option.only(("subnet", "name", "disabled"))
    subnet = option.string("subnet")
    if bool(option.bare) == bool(subnet):
        raise option.malformed("write one of them: a range or subnet=…")
    if subnet:
        _check_subnet_ident(option, subnet)
    return AddPool(
        range=option.read(parse_range, option.bare) if option.bare else None,
        subnet=subnet or "",
        name=_name(option, "a pool") or "",
        disabled=option.boolean("disabled") or False,
    )


def _modify_pool(option: Option, ident: str | IPRange) -> ModifyPool:
    _no_bare(option, "write the change, such as name=…")
    option.only(("name", "disabled"))
    if not option.params:
        raise option.malformed("it changes nothing; give name=… or disabled=…")
    return ModifyPool(ident=ident, name=_name(option, "a pool"), disabled=option.boolean("disabled"))


def _reserved(text: str | None, *, adding: bool) -> tuple[ReservedStep, ...]:
    return () if text is None else reserved_steps(text, adding)


def _check_subnet_ident(option: Option, ident: str | None = None) -> None:
    text = option.ident if ident is None else ident
    if "/" in text:
        option.read(parse_range, text)
    elif not is_uuid(text) and not is_name(text):
        raise option.malformed(f"{quote(text)} is not a subnet; name one by its CIDR, name or UUID")


def _pool_ident(option: Option) -> str | IPRange:
    if is_range(option.ident):
        return option.read(parse_range, option.ident)
    if not is_name(option.ident):
        raise option.malformed(f"{quote(option.ident)} is not a pool; name one by its name or its range")
    return option.ident


def _no_bare(option: Option, remedy: str) -> None:
    if option.bare:
        raise option.malformed(f"{quote(option.bare)} is not a parameter; {remedy}")


def _gateway(option: Option) -> Address | UnsetType | None:
    """`gateway=none` and `-gateway` take it away."""
    if "gateway" not in option.params:
        return UNSET
    if option.params["gateway"] in (None, "none"):
        return None
    return option.read(parse_address, option.string("gateway") or "", "gateway")


def check_gateway(option: Option, cidr: Cidr, gateway: Address | UnsetType | None) -> None:
    """Check a gateway against the CIDR where options give both, before the network is read. Raises Malformed."""
    if gateway is UNSET:
        return
    for fault in gateway_faults(Subnet(uuid="", cidr=cidr, gateway=gateway)):
        raise option.malformed(f"{fault.field}: {fault.why}")


def _name(option: Option, what: str) -> str | None:
    """`-name` takes it away, which is an empty one."""
    if "name" in option.params and option.params["name"] is None:
        return ""
    text = option.string("name")
    if text == "none":
        raise option.malformed("to take the name away, write -name")
    return None if text is None else option.read(lambda name: check_name(name, what), text, "name")


def read_cidr(option: Option, text: str) -> tuple[Cidr, tuple[str, ...]]:
    """Return a CIDR of an option, and a note if host bits had to be cleared for it. Raises Malformed."""
    cidr, normalised = option.read(parse_cidr, text)
    return cidr, (f"{option.flag}: {text} has host bits; it means {cidr}",) if normalised else ()


Gateway = Address | None | UnsetType
"""None takes the gateway away."""


class OldOptions(Struct, frozen=True, kw_only=True):
    """Ganeti's options of `modify`. `notes` report how `--network6` was interpreted."""

    gateway: Gateway = UNSET
    network6: Cidr | None = None
    gateway6: Gateway = UNSET
    notes: tuple[str, ...] = ()

    def steps(self, network: Network) -> Iterator[SubnetStep]:
        """Return the steps for a network. Raises Denied where it has no subnet of that version."""
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
    """Return the options of `modify` as they were written; None where not given. Raises Malformed."""
    cidr, notes = (None, ()) if network6 is None else _cidr(6, network6)
    return OldOptions(
        gateway=_old_gateway("--gateway", gateway, 4),
        network6=cidr,
        gateway6=_old_gateway("--gateway6", gateway6, 6),
        notes=notes,
    )


def old_subnets(
    network: str | None = None,
    gateway: str | None = None,
    network6: str | None = None,
    gateway6: str | None = None,
) -> tuple[AddSubnet, ...]:
    """Return the subnets that the options of `add` stand for; None where not given. Raises Malformed."""
    return (*_new_subnet(4, network, gateway), *_new_subnet(6, network6, gateway6))


def _new_subnet(version: Version, text: str | None, gateway: str | None) -> Iterator[AddSubnet]:
    gateway_option = Option(flag=f"--gateway{_suffix(version)}", text=gateway or "")
    if text is None:
        if gateway is not None:
            raise gateway_option.malformed(f"it needs --network{_suffix(version)} as well; give its CIDR")
        return
    cidr, notes = _cidr(version, text)
    address = None if gateway is None else gateway_option.read(parse_address, gateway)
    check_gateway(gateway_option, cidr, address)
    yield AddSubnet(cidr=cidr, gateway=address, pool=version == 4, notes=notes)


def _cidr(version: Version, text: str) -> tuple[Cidr, tuple[str, ...]]:
    option = Option(flag=f"--network{_suffix(version)}", text=text)
    cidr, notes = read_cidr(option, text)
    if cidr.version != version:
        raise option.malformed(f"it is not an IPv{version} network; use --subnet for other networks")
    return cidr, notes


def _old_gateway(flag: str, text: str | None, version: Version) -> Gateway:
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
