"""What CNI configurations say: the `ipam` section of a NAD, and the runtime's list for garbage collection.

Whoever may write a NAD wrote it, so nothing of it is believed unread.
"""

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from lanloom.api.cni import CONTAINER, LINK
from lanloom.api.ipam import Nic
from lanloom.features.ipam.agent.protocol import BAD_CONFIG, CniError
from lanloom.features.ipam.rules.addresses import find_address, parse_address, version_of
from lanloom.features.ipam.rules.ranges import parse_cidr
from lanloom.features.ipam.rules.requests import format_request, parse_requests
from lanloom.refusals import Malformed

AUTOMATIC = "pool"
"""What is asked for by default."""

MOST = 64
"""Entries of a list."""

Text = Annotated[str, Meta(max_length=253)]
Texts = Annotated[tuple[Text, ...], Meta(max_length=MOST)]


class Route(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A route of the pod: `dst` is a CIDR, `gw` empty for the address's own gateway."""

    dst: Text
    gw: Text = ""


class Dns(Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What is handed on for the pod's resolver."""

    nameservers: Texts = ()
    domain: Text = ""
    search: Texts = ()
    options: Texts = ()


class IpamConfig(
    Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True, rename="camel"
):
    """What the section says.

    `network` is a network's UUID, name or object name. `ips` are what the pod gets if it does not ask for others: as in
    a NIC's `spec.ips`; `pools` says the same with names of pools only. With `defaultRoute` the pod's default routes go
    through the gateways of its addresses' subnets.
    """

    type: str
    network: Annotated[str, Meta(min_length=1, max_length=253)]
    ips: Texts = ()
    pools: Texts = ()
    routes: Annotated[tuple[Route, ...], Meta(max_length=MOST)] = ()
    default_route: bool = False
    dns: Dns = Dns()

    @property
    def wanted(self) -> tuple[str, ...]:
        """The requests for addresses."""
        return self.ips or self.pools or (AUTOMATIC,)


def parse_ipam(config: dict[str, Any]) -> IpamConfig:
    """The section of a CNI configuration. Raises CniError, which names the field."""
    section = config.get("ipam")
    if not isinstance(section, dict):
        raise CniError(
            BAD_CONFIG, 'ipam: must be an object such as {"type": "lanloom-ipam", "network": "net1"}'
        )
    try:
        found = msgspec.convert(section, IpamConfig)
    except msgspec.ValidationError as error:
        raise CniError(BAD_CONFIG, f"ipam: {_where(str(error))}") from None
    if found.ips and found.pools:
        raise CniError(BAD_CONFIG, "ipam: ips and pools can't both be given; ips may name pools too")
    for text in found.pools:
        if find_address(text) is not None:
            raise CniError(BAD_CONFIG, f"ipam.pools: {text} is an address; those belong into ipam.ips")
    parse_wanted("ipam.pools" if found.pools else "ipam.ips", found.wanted)
    for index, route in enumerate(found.routes):
        _check_route(f"ipam.routes[{index}]", route)
    for server in found.dns.nameservers:
        if find_address(server) is None:
            raise CniError(BAD_CONFIG, f"ipam.dns.nameservers: {server} is not an address")
    return found


def parse_wanted(field: str, wanted: Sequence[str]) -> tuple[str, ...]:
    """Requests for addresses in their usual form. Raises CniError, which names the field."""
    try:
        return tuple(map(format_request, parse_requests(wanted)))
    except Malformed as error:
        raise CniError(BAD_CONFIG, f"{field}: {error}") from None


def _check_route(field: str, route: Route) -> None:
    try:
        cidr, _ = parse_cidr(route.dst)
        gateway = parse_address(route.gw) if route.gw else None
    except Malformed as error:
        raise CniError(BAD_CONFIG, f"{field}: {error}") from None
    if gateway is not None and version_of(gateway) != cidr.version:
        raise CniError(
            BAD_CONFIG, f"{field}: {route.gw} can't be the gateway to {cidr}, of another IP version"
        )


def _where(message: str) -> str:
    """msgspec's message with the place as people write it."""
    return message.replace("`$.", "`ipam.").replace(" - at `$`", "")


_KEYS = ("cni.dev/valid-attachments", "cni.dev/attachments")
"""The key, and a misspelling of it that runtimes send beside it."""

_Short = Annotated[str, Meta(max_length=255)]


class _Valid(Struct, frozen=True, rename={"container": "containerID"}):
    container: _Short
    ifname: _Short


def valid_attachments(config: dict[str, Any]) -> frozenset[tuple[str, str]]:
    """Container and interface of each. Raises CniError also where there is no list: nothing is garbage by default."""
    listed = next((config[key] for key in _KEYS if key in config), None)
    if listed is None:
        raise CniError(BAD_CONFIG, f"{_KEYS[0]}: GC needs the list of attachments that are in use")
    try:
        return frozenset((item.container, item.ifname) for item in msgspec.convert(listed, list[_Valid]))
    except msgspec.ValidationError as error:
        raise CniError(BAD_CONFIG, f"{_KEYS[0]}: {error}") from None


def stale_marks(nic: Nic, valid: frozenset[tuple[str, str]]) -> bool:
    """Whether a pod's NIC was made for an attachment that is not among the valid ones."""
    marks = nic.metadata.annotations
    return (marks.get(CONTAINER, ""), marks.get(LINK, "")) not in valid
