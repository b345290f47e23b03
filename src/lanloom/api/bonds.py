"""Bonds: their modes and options, with the kernel's names and numbers (Linux, Documentation/networking/bonding.rst).

JSON names and values are those of Harvester's proposed schema (harvester/network-controller-harvester, pull request
272); `primary` is Lanloom's. The parser serves the webhook, and again the agents, where the values reach the kernel.
"""

from collections.abc import Callable, Iterator, Sequence
from ipaddress import AddressValueError, IPv4Address
from typing import Annotated

from msgspec import Meta, Struct
from msgspec.structs import replace

from lanloom.api.l3 import AnnotationError
from lanloom.text import quote

BOND_MODES = (
    "balance-rr",
    "active-backup",
    "balance-xor",
    "broadcast",
    "802.3ad",
    "balance-tlb",
    "balance-alb",
)
"""The modes of a bond; their order is the kernel's numbering, as it is of the values below."""

XMIT_HASH_POLICIES = ("layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac")
LACP_RATES = ("slow", "fast")
AD_SELECTS = ("stable", "bandwidth", "count")
ARP_VALIDATIONS = ("none", "active", "backup", "all", "filter", "filter_active", "filter_backup")
ARP_ALL_TARGETS = ("any", "all")

INTERVAL_MAX = 60_000
"""Milliseconds between two checks of a bond's NICs, at most: a bond that checks less often is of no use."""

ARP_TARGETS_MAX = 16
"""Targets of a bond's ARP monitor, at most (BOND_MAX_ARP_TARGETS)."""

# For the schema alone: an object that breaks a rule is still read.
UNSET = {"default": -1, "minimum": -1}
_MODE = {"default": "active-backup", "enum": list(BOND_MODES)}

Value = str | int | tuple[str, ...]
"""The value of an option: a name, milliseconds, or IPv4 addresses."""


def _enum(values: Sequence[str]) -> dict[str, object]:
    return {"enum": list(values)}


class BondOptions(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Options of a bond as users write them; -1, 0 and empty leave the bond what it has.

    `miimon` and `arpInterval` are in milliseconds; a `miimon` of 0 or -1 means 100 unless there is an `arpInterval`.
    """

    mode: Annotated[str, Meta(extra_json_schema=_MODE)] = "active-backup"
    miimon: Annotated[int, Meta(extra_json_schema=UNSET)] = -1
    xmitHashPolicy: Annotated[str, Meta(extra_json_schema=_enum(XMIT_HASH_POLICIES))] = ""
    lacpRate: Annotated[str, Meta(extra_json_schema=_enum(LACP_RATES))] = ""
    adSelect: Annotated[str, Meta(extra_json_schema=_enum(AD_SELECTS))] = ""
    arpInterval: Annotated[int, Meta(extra_json_schema=UNSET)] = -1
    arpIpTargets: tuple[str, ...] = ()
    arpValidate: Annotated[str, Meta(extra_json_schema=_enum(ARP_VALIDATIONS))] = ""
    arpAllTargets: Annotated[str, Meta(extra_json_schema=_enum(ARP_ALL_TARGETS))] = ""
    primary: str = ""


class BondSettings(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Options of a bond besides its mode and miimon; empty and 0 for those that are left as they are.

    `arp_interval` in milliseconds. Of a bond of the host: what it has.
    """

    xmit_hash_policy: str = ""
    lacp_rate: str = ""
    ad_select: str = ""
    arp_interval: int = 0
    arp_ip_targets: tuple[str, ...] = ()
    arp_validate: str = ""
    arp_all_targets: str = ""
    primary: str = ""

    def asked(self) -> dict[str, Value]:
        """Return the options that are asked for, by name."""
        values = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name: value for name, value in values.items() if value}

    def differing(self, has: "BondSettings") -> dict[str, Value]:
        """Return those of them that a bond with `has` has not yet."""
        return {name: value for name, value in self.asked().items() if value != getattr(has, name)}


UNTUNED = BondSettings()


def render_value(value: Value) -> str:
    """Write the value of an option as `ip link` does."""
    return ",".join(value) if isinstance(value, tuple) else str(value)


_HASHING = ("balance-xor", "802.3ad", "balance-tlb")
_LACP = ("802.3ad",)
_ARP_MONITORED = ("balance-rr", "active-backup", "balance-xor", "broadcast")
_ONE_ACTIVE = ("active-backup", "balance-tlb", "balance-alb")

_Check = Callable[[BondOptions, Sequence[str]], str]
"""Return what is wrong with an option that is set, given the bond's NICs; empty for nothing."""


class _Option(Struct, frozen=True):
    """One option: its name in JSON and in BondSettings, the modes that have it, and what its value must be."""

    name: str
    setting: str
    modes: Sequence[str]
    check: _Check

    def value(self, options: BondOptions) -> Value:
        """Return what the user wrote; empty or 0 for nothing, which is also written as -1."""
        found: Value = getattr(options, self.name)
        return 0 if found == -1 else found


def _one_of(name: str, values: Sequence[str]) -> _Check:
    def check(options: BondOptions, nics: Sequence[str]) -> str:
        value = getattr(options, name)
        return "" if value in values else f"is {quote(value)}; it must be one of {', '.join(values)}"

    return check


def _monitoring(name: str, values: Sequence[str]) -> _Check:
    known = _one_of(name, values)
    return lambda options, nics: known(options, nics) or _without_monitor(options)


def _without_monitor(options: BondOptions) -> str:
    return "" if options.arpInterval > 0 else "has no effect without arpInterval; set that too, or remove it"


def _interval(options: BondOptions, nics: Sequence[str]) -> str:
    interval = options.arpInterval
    if not -1 <= interval <= INTERVAL_MAX:
        return f"is {interval}; it must be from -1 to {INTERVAL_MAX} milliseconds"
    if options.miimon > 0:
        return (
            f"is {interval} and miimon is {options.miimon}, but a bond monitors its NICs in one way only; remove "
            "arpInterval, or set miimon to 0"
        )
    return "" if options.arpIpTargets else "needs arpIpTargets; name an address that always answers"


def _targets(options: BondOptions, nics: Sequence[str]) -> str:
    targets = options.arpIpTargets
    wrong = next((item for item in targets if not _is_target(item)), None)
    if wrong is not None:
        return f"has {quote(wrong)}, which is not the IPv4 address of a host"
    if len(set(targets)) != len(targets):
        return "names an address twice"
    if len(targets) > ARP_TARGETS_MAX:
        return f"has {len(targets)} addresses; a bond takes at most {ARP_TARGETS_MAX}"
    return _without_monitor(options)


def _is_target(text: str) -> bool:
    try:
        address = IPv4Address(text)
    except AddressValueError:
        return False
    return not (address.is_multicast or address.is_unspecified or address.is_loopback or address.is_reserved)


def _primary(options: BondOptions, nics: Sequence[str]) -> str:
    return "" if options.primary in nics else f"is {quote(options.primary)}, which is not one of nics"


_OPTIONS = (
    _Option("xmitHashPolicy", "xmit_hash_policy", _HASHING, _one_of("xmitHashPolicy", XMIT_HASH_POLICIES)),
    _Option("lacpRate", "lacp_rate", _LACP, _one_of("lacpRate", LACP_RATES)),
    _Option("adSelect", "ad_select", _LACP, _one_of("adSelect", AD_SELECTS)),
    _Option("arpInterval", "arp_interval", _ARP_MONITORED, _interval),
    _Option("arpIpTargets", "arp_ip_targets", _ARP_MONITORED, _targets),
    _Option("arpValidate", "arp_validate", _ARP_MONITORED, _monitoring("arpValidate", ARP_VALIDATIONS)),
    _Option(
        "arpAllTargets", "arp_all_targets", _ARP_MONITORED, _monitoring("arpAllTargets", ARP_ALL_TARGETS)
    ),
    _Option("primary", "primary", _ONE_ACTIVE, _primary),
)


def parse_bond_settings(
    options: BondOptions, nics: Sequence[str]
) -> tuple[BondSettings, tuple[AnnotationError, ...]]:
    """Return the settings of a bond of these NICs, and what is wrong with the options that are left out of them.

    The ARP monitor's options are taken together or not at all: a part of them would leave the bond unmonitored.
    """
    errors = {option.setting: error for option, error in _complaints(options, nics)}
    spoilt = {"arp_"} if any(name.startswith("arp_") for name in errors) else set()
    taken = {
        option.setting: value
        for option in _OPTIONS
        if (value := option.value(options))
        and option.setting not in errors
        and option.setting[:4] not in spoilt
    }
    return replace(UNTUNED, **taken), tuple(errors.values())


def _complaints(options: BondOptions, nics: Sequence[str]) -> Iterator[tuple[_Option, AnnotationError]]:
    for option in _OPTIONS:
        if not option.value(options):
            continue
        text = option.check(options, nics)
        if options.mode in BOND_MODES and options.mode not in option.modes:
            text = (
                f"is set, but a bond in mode {options.mode} does not have it; remove it, or choose "
                f"{' or '.join(option.modes)}"
            )
        if text:
            yield option, AnnotationError(f"bondOptions.{option.name}", text)


def is_settings_of(settings: BondSettings, mode: str, nics: Sequence[str]) -> bool:
    """Return whether a bond of this mode and these NICs can have these settings."""
    asked = {option.name: getattr(settings, option.setting) for option in _OPTIONS}
    return parse_bond_settings(BondOptions(mode=mode, **asked), nics) == (settings, ())
