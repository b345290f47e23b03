"""What reaches an IPAM program of a NAD's configuration: the listed fields of that program, each of its type.

Tenants who may write a NAD write the configuration, and the program runs on the node. So nothing is passed on that was
not read: the program gets a configuration that is built from what is valid. No value is a path. The webhook says the
same of a NAD that the agent refuses when a pod starts.

The fields are those that the programs of containernetworking/plugins and whereabouts read. Those of a program that only
an operator knows can't be listed: all are passed on in which no text is a path.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from lanloom.api.lannads import attaching
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.features.lan.rules.fieldparsers import (
    Faults,
    Parser,
    address,
    address_or_cidr,
    address_range,
    anything,
    boolean,
    cidr,
    list_of,
    matching,
    number,
    object_of,
    one_of,
    refused,
    text,
)
from lanloom.hostbits import host_bits
from lanloom.nads.faults import ALL_ROUTED, NO_PODS, NadFault
from lanloom.text import one_line

Raw = dict[str, Any]

RELEASES = ("DEL", "GC")
"""Commands that give addresses back: what can't be passed on is left out, so that a pod from before is released."""

RESOLV_CONF = "/etc/resolv.conf"
"""The one file that a NAD may name; every program sees it at most."""

_NAME = matching(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}", "blue-web")
_TYPE = matching(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", "lanloom-ipam")
_AT_THE_NODE = "set it in whereabouts.conf on the nodes"

_ROUTES = list_of(
    object_of(
        {"dst": cidr, "gw": address} | dict.fromkeys(("mtu", "advmss", "priority", "table", "scope"), number)
    )
)
_TEXTS = list_of(text)
_DNS = object_of({"nameservers": list_of(address), "domain": text, "search": _TEXTS, "options": _TEXTS})
_ADDRESSES = list_of(object_of({"address": cidr, "gateway": address, "version": one_of("4", "6")}))
_RANGE = {"subnet": cidr, "rangeStart": address, "rangeEnd": address, "gateway": address}
_RANGES = list_of(list_of(object_of(_RANGE)))
_WHERE_RANGE = {
    "range": address_range,
    "range_start": address,
    "range_end": address,
    "exclude": list_of(address_or_cidr),
}

_LISTED: dict[str, dict[str, Parser]] = {
    "lanloom-ipam": {
        "network": text,
        "ips": _TEXTS,
        "pools": _TEXTS,
        "routes": _ROUTES,
        "defaultRoute": boolean,
        "dns": _DNS,
    },
    "host-local": _RANGE
    | {
        "ranges": _RANGES,
        "routes": _ROUTES,
        "resolvConf": one_of(RESOLV_CONF, ""),
        "dataDir": refused("the agent keeps the addresses of each network in a directory of its own"),
    },
    "static": {"addresses": _ADDRESSES, "routes": _ROUTES, "dns": _DNS},
    "dhcp": {
        "provide": list_of(object_of({"option": text, "value": text, "fromArg": text})),
        "request": list_of(object_of({"option": text, "skipDefault": boolean})),
        "priority": number,
        "daemonSocketPath": refused("the daemon listens on /run/cni/dhcp.sock"),
    },
    "whereabouts": _WHERE_RANGE
    | {
        "ipRanges": list_of(object_of(_WHERE_RANGE)),
        "gateway": address,
        "routes": _ROUTES,
        "addresses": _ADDRESSES,
        "dns": _DNS,
        "node_slice_size": matching(r"/?[0-9]{1,3}", "/22"),
        "network_name": text,
        "datastore": one_of("kubernetes"),
        "enable_overlapping_ranges": boolean,
        "log_level": one_of("debug", "verbose", "error", "panic"),
        "sleep_for_race": number,
        "reconciler_cron_expression": matching(r"[0-9*,/ -]{9,100}", "30 4 * * *"),
        "log_file": refused(_AT_THE_NODE),
        "configuration_path": refused("the program reads whereabouts.conf on the nodes"),
        "kubernetes": refused(_AT_THE_NODE),
    }
    | dict.fromkeys(("leader_lease_duration", "leader_renew_deadline", "leader_retry_period"), number),
}

OWN = "lanloom-ipam"
"""Lanloom's own program; its routes are validated with its networks."""

PROGRAMS = tuple(_LISTED)
"""The programs whose fields are known; an agent runs no others unless an operator names them."""

_SECTIONS = {name: object_of({"type": one_of(name)} | parsers) for name, parsers in _LISTED.items()}

_WISHED = {"ips": _TEXTS, "mac": text}
_BESIDE: dict[str, Parser] = {
    "cniVersion": text,
    "name": _NAME,
    "type": _TYPE,
    "runtimeConfig": object_of(_WISHED | {"ipRanges": _RANGES}, ignores=True),
    "args": object_of({"cni": object_of(_WISHED, ignores=True)}, ignores=True),
}
_LINK = object_of(
    {"name": text, "mac": text, "mtu": number, "sandbox": matching(r"/[!-~]{1,4000}", "/run/netns/x")},
    ignores=True,
)
_GIVEN = object_of({"address": cidr, "gateway": address, "interface": number, "version": text}, ignores=True)
_PREVIOUS = object_of(
    {
        "cniVersion": text,
        "interfaces": list_of(_LINK),
        "ips": list_of(_GIVEN),
        "routes": _ROUTES,
        "dns": _DNS,
    },
    ignores=True,
)
_ATTACHMENTS = list_of(object_of({"containerID": text, "ifname": text}, ignores=True))
_OF_COMMAND: dict[str, dict[str, Parser]] = {
    "CHECK": {"prevResult": _PREVIOUS},
    "GC": {"cni.dev/valid-attachments": _ATTACHMENTS, "cni.dev/attachments": _ATTACHMENTS},
}


class ProgramConfig(NamedTuple):
    """A configuration for a program, and what of the NAD is not in it; each fault names its field."""

    config: Raw
    faults: tuple[str, ...]


def program_config(config: Raw, command: str) -> ProgramConfig:
    """Return the configuration that the IPAM program of `config` gets for a command of CNI.

    Fields next to `ipam` that mean nothing to such a program are left out without a fault.
    """
    faults: Faults = []
    parsers = _BESIDE | _OF_COMMAND.get(command, {}) | {"ipam": _section}
    found = object_of(parsers, ignores=True)(config, "config", faults) or {}
    return ProgramConfig(found, tuple(fault.removeprefix("config.") for fault in faults))


def arguments(given: str) -> str:
    """CNI_ARGS without the pairs whose value is a path."""
    pairs = (pair.partition("=") for pair in given.split(";") if pair)
    return ";".join(f"{name}={value}" for name, _, value in pairs if text(value, name, []) is not None)


def _section(value: object, field: str, faults: Faults) -> Raw | None:
    name = value.get("type") if isinstance(value, dict) else None
    known = _SECTIONS.get(name, anything) if isinstance(name, str) else anything
    found: Raw | None = known(value, field, faults)
    return found


class _Ipam(NamedTuple):
    program: str
    faults: tuple[str, ...]
    widened: tuple[str, ...]


def ipam_faults(nad: NetworkAttachmentDefinition) -> Iterator[NadFault]:
    """Yield the faults of the IPAM programs of a NAD, and its routes with host bits, which programs drop."""
    found = tuple(_sections(nad))
    for fault in sorted({f"spec.config.{fault}" for item in found for fault in item.faults}):
        yield NadFault(fault, NO_PODS, fault)
    for fault in sorted({f"spec.config.{fault}" for item in found for fault in item.widened}):
        yield NadFault(fault, ALL_ROUTED, fault)


def unknown_programs(nad: NetworkAttachmentDefinition) -> tuple[str, ...]:
    """Return warnings about IPAM programs that agents run only with an option."""
    title = f"NetworkAttachmentDefinition {nad.metadata.key}"
    unknown = sorted({item.program for item in _sections(nad)} - {*PROGRAMS, ""})
    return tuple(
        f"{title}: spec.config.ipam.type is {one_line(name)}, which agents run only if they are started with "
        f"--ipam-program={one_line(name)}"
        for name in unknown
    )


def _widened_routes(section: Raw) -> Iterator[str]:
    routes = section.get("routes")
    for index, route in enumerate(routes if isinstance(routes, list) else ()):
        if isinstance(route, dict) and (fault := host_bits(str(route.get("dst", "")))):
            yield f"ipam.routes[{index}].dst: {fault}"


def _sections(nad: NetworkAttachmentDefinition) -> Iterator[_Ipam]:
    for config in attaching(nad):
        if section := config.get("ipam"):
            found = program_config(config, "ADD")
            name = section.get("type") if isinstance(section, dict) else ""
            widened = () if name == OWN else tuple(_widened_routes(found.config.get("ipam") or {}))
            yield _Ipam(name[:64] if isinstance(name, str) else "", found.faults, widened)
