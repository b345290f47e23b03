"""Where a NAD puts a port: on a bridge of the node, with VLAN ids and flags, or on a LAN.

A NAD's configuration is read as its CNI plugin reads it. What the plugin would do beyond a port (another chained
plugin) can't be moved with the port, so such a NAD has no place here and says why. The rules of `macspoofchk` name the
port, which keeps its name on each bridge of the node: they stay with it between two NADs that both want them.
"""

from typing import Any

from msgspec import Struct

from lanloom.api.l3 import VID_MAX, AnnotationError
from lanloom.api.multus import NetworkAttachmentDefinition
from lanloom.api.nadconfig import (
    BRIDGE_PLUGIN,
    BRIDGE_PLUGINS,
    DEFAULT_BRIDGE,
    parse_config,
    read_config,
)
from lanloom.api.names import LINK_NAME_MAX
from lanloom.text import quote

LAN_PLUGIN, TAP_PLUGIN = "k8slanveth", "macvtap"
IPAM_PLUGIN = "lanloom-ipam"

BRIDGED = frozenset({*BRIDGE_PLUGINS, LAN_PLUGIN})
"""CNI plugins whose interfaces KubeVirt's bridge binding takes alike: one end of a veth pair in the pod."""

MTU_MIN, MTU_MAX = 68, 65_535

_HARMLESS = ("tuning",)
"""Chained plugins that concern the pod's side of a port only."""

Config = dict[str, Any]


class UnmovableNad(Exception):
    """No port can be moved to or from a NAD; the message says which field is the reason, and what to do."""


class BridgeTarget(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of a bridge of the node.

    `pvid` is the VLAN id of untagged frames, 0 for the bridge's default. `vids` are inclusive ranges of tagged ids.
    Without `default_vid` the port does not carry the bridge's default id besides. `mtu` in bytes, 0 for any. With
    `macspoofchk`, rules of the node let frames of one hardware address in by the port.
    """

    bridge: str
    pvid: int = 0
    vids: tuple[tuple[int, int], ...] = ()
    default_vid: bool = True
    hairpin: bool = False
    isolated: bool = False
    mtu: int = 0
    macspoofchk: bool = False

    @property
    def title(self) -> str:
        """The place, for messages."""
        vlan = f" in VLAN {self.pvid}" if self.pvid else ""
        return f"the bridge {self.bridge}{vlan}"


class LanSpoke(Struct, frozen=True, kw_only=True):
    """A spoke of a LAN, in the form of a veth pair."""

    spoke: str

    @property
    def title(self) -> str:
        """The place, for messages."""
        return f"the spoke {self.spoke} of a LAN"


NadTarget = BridgeTarget | LanSpoke


def target_of(nad: NetworkAttachmentDefinition) -> NadTarget:
    """Return where a NAD puts a port. Raises UnmovableNad."""
    title = f"NetworkAttachmentDefinition {nad.metadata.key}"
    try:
        return _place(main_config(nad))
    except AnnotationError as error:
        raise UnmovableNad(f"{title}: {error}") from None
    except UnmovableNad as error:
        raise UnmovableNad(f"{title}: {error}") from None


def against_pair(source: NadTarget, target: NadTarget) -> str:
    """Return why no port can move from one place to another; empty if one can."""
    checks = [isinstance(item, BridgeTarget) and item.macspoofchk for item in (source, target)]
    if checks[0] == checks[1]:
        return ""
    return (
        "spec.config.macspoofchk is set in one of them only, and its rules can't be made or removed for a port in use; "
        "set it alike, or move the machine by migration"
    )


def plugin_of(nad: NetworkAttachmentDefinition) -> str:
    """Return the CNI plugin of a NAD, by which KubeVirt compares two. Raises AnnotationError."""
    config = read_config(nad.spec.config)
    plugins = config.get("plugins")
    first = plugins[0] if isinstance(plugins, list) and plugins else config
    found = first.get("type") if isinstance(first, dict) else None
    return found if isinstance(found, str) else ""


def main_config(nad: NetworkAttachmentDefinition) -> Config:
    """Return the configuration of the plugin that makes the interface. Raises AnnotationError and UnmovableNad."""
    config = read_config(nad.spec.config)
    if "plugins" not in config:
        return config
    plugins = config["plugins"]
    if not isinstance(plugins, list) or not plugins or not all(isinstance(item, dict) for item in plugins):
        raise UnmovableNad("spec.config.plugins must be a list of objects")
    for item in plugins[1:]:
        if item.get("type") not in _HARMLESS:
            raise UnmovableNad(
                f"spec.config.plugins has {quote(item.get('type'))}, which can't be moved with a port; move the "
                "machine by migration"
            )
    first: Config = plugins[0]
    return first


def ipam_section(nad: NetworkAttachmentDefinition) -> Config:
    """Return the section `ipam` of the plugin that makes the interface; empty for none."""
    try:
        config = read_config(nad.spec.config)
    except AnnotationError:
        return {}
    plugins = config.get("plugins")
    first = plugins[0] if isinstance(plugins, list) and plugins else config
    section = first.get("ipam") if isinstance(first, dict) else None
    return section if isinstance(section, dict) else {}


def _place(config: Config) -> NadTarget:
    plugin = config.get("type")
    if plugin == LAN_PLUGIN:
        spoke = config.get("veth")
        if not isinstance(spoke, str) or not spoke:
            raise UnmovableNad(f"spec.config.veth is {quote(spoke)}; it must be the name of a spoke")
        return LanSpoke(spoke=spoke)
    if plugin == TAP_PLUGIN:
        raise UnmovableNad(
            "spec.config.type is macvtap, whose device the guest holds; use the LAN's NAD for veth, or move the "
            "machine by migration"
        )
    if plugin not in BRIDGE_PLUGINS:
        raise UnmovableNad(
            f"spec.config.type is {quote(plugin)}; a port can be moved between {BRIDGE_PLUGIN} and {LAN_PLUGIN}"
        )
    return _bridge(config)


def _bridge(config: Config) -> BridgeTarget:
    if config.get("disableContainerInterface"):
        raise UnmovableNad("spec.config.disableContainerInterface is set, which can't be moved with a port")
    bridge = config.get("bridge") or DEFAULT_BRIDGE
    if not isinstance(bridge, str) or not 0 < len(bridge) <= LINK_NAME_MAX or "/" in bridge or " " in bridge:
        raise UnmovableNad(f"spec.config.bridge is {quote(bridge)}; it must be the name of a link")
    pvid = _number(config, "vlan", 0, VID_MAX)
    return BridgeTarget(
        bridge=bridge,
        pvid=pvid,
        vids=_trunk(config),
        # The plugin leaves the default id unless configured otherwise; it looks at that only where there is another.
        default_vid=config.get("preserveDefaultVlan", True) is not False
        or not (pvid or config.get("vlanTrunk")),
        hairpin=config.get("hairpinMode") is True,
        isolated=config.get("portIsolation") is True,
        macspoofchk=config.get("macspoofchk") is True,
        mtu=0 if not config.get("mtu") else _number(config, "mtu", MTU_MIN, MTU_MAX),
    )


def _trunk(config: Config) -> tuple[tuple[int, int], ...]:
    trunk = config.get("vlanTrunk")
    if not trunk:
        return ()
    import json

    # One reader of trunks; it reads those of cluster networks, so the bridge is given such a name.
    found = parse_config(json.dumps({"type": BRIDGE_PLUGIN, "bridge": "any-br", "vlanTrunk": trunk}))
    return found.trunk if found is not None else ()


def _number(config: Config, field: str, first: int, last: int) -> int:
    value = config.get(field, 0)
    if type(value) is not int or not first <= value <= last:
        raise UnmovableNad(
            f"spec.config.{field} is {quote(value)}; it must be a number from {first} to {last}"
        )
    return value
