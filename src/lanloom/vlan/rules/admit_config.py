"""What the webhooks allow of a NAD's `spec.config`, beyond what can be read.

A configuration from before these rules is still read. A new one must mean the same to each of its readers: CNI plugins,
Harvester, Kube-OVN and Lanloom.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from lanloom.api.l3 import AnnotationError, quote
from lanloom.api.meta import Key
from lanloom.api.nadconfig import (
    BRIDGE_PLUGIN,
    CONFIG_KEYS,
    OVERLAY_PLUGIN,
    TRUNK_KEYS,
    field_named,
    read_config,
    typed_config,
)

_CONFIG = "spec.config"
_TRUNK = f"{_CONFIG}.vlanTrunk"


def check_config(nad: Key, text: str) -> None:
    """Check a new `spec.config` of a NAD. Other plugins' configurations are not Lanloom's. Raises AnnotationError."""
    typed = typed_config(text)
    plugins = [value for key, value in typed.items() if field_named(key, ("type",))]
    if OVERLAY_PLUGIN in plugins or BRIDGE_PLUGIN in plugins:
        _check_spelling(typed)
    config = read_config(text)
    if config.get("type") == OVERLAY_PLUGIN:
        _check_provider(nad, config.get("provider"))
    if config.get("type") == BRIDGE_PLUGIN:
        _check_one_mode(config)


def _check_spelling(typed: Mapping[str, Any]) -> None:
    _check_keys(_CONFIG, typed, CONFIG_KEYS)
    trunk = typed.get("vlanTrunk")
    for index, item in enumerate(trunk if isinstance(trunk, list) else ()):
        if isinstance(item, dict):
            _check_keys(f"{_TRUNK}[{index}]", item, TRUNK_KEYS)


def _check_keys(place: str, keys: Iterable[str], fields: tuple[str, ...]) -> None:
    for key in keys:
        field = field_named(key, fields)
        if field not in ("", key):
            raise AnnotationError(
                place,
                f'has the key {quote(key)}, which CNI plugins take for "{field}" and other readers ignore; write '
                f'"{field}"',
            )


def _check_one_mode(config: Mapping[str, Any]) -> None:
    vlan = config.get("vlan", 0)
    if config.get("vlanTrunk") and (type(vlan) is not int or vlan != 0):
        raise AnnotationError(
            f"{_CONFIG}.vlan",
            f"is {quote(vlan)} beside vlanTrunk, which allows only 0; remove one of the two",
        )


def _check_provider(nad: Key, provider: object) -> None:
    """Kube-OVN finds the NAD by the parts of the provider, which it splits at each dot."""
    if "." in nad.name:
        raise AnnotationError(
            "metadata.name",
            f"is {quote(nad.name)}; a NAD of type {OVERLAY_PLUGIN} must have a name without dots, because its provider "
            "is split at dots; choose another name",
        )
    wanted = f"{nad.name}.{nad.namespace}.ovn"
    if provider != wanted:
        found = "is missing" if provider in (None, "") else f"is {quote(provider)}"
        raise AnnotationError(f"{_CONFIG}.provider", f"{found}; for this NAD it must be {quote(wanted)}")
