"""Settings of the controller from flags, environment and ConfigMap: syntax, parsing and precedence.

All three have the same settings in the same words, and are read by the same functions.
"""

import re
from collections.abc import Callable, Mapping
from ipaddress import ip_network
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import asdict, replace

from lanloom.features.dummy.rules.daemonset import has_digest
from lanloom.features.dummy.rules.model import Settings
from lanloom.features.dummy.rules.spec import bridge_fault, label_fault
from lanloom.refusals import Malformed

LONGEST_TIMEOUT = 86_400.0

_NAME = re.compile(r"(?=.{1,253}\Z)[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_BOOLEANS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


class Flags(Struct, frozen=True, kw_only=True):
    """Settings of which any may be missing: None is not set. Fields are those of `Settings`."""

    default: bool | None = None
    name: str | None = None
    bridge: str | None = None
    nad: str | None = None
    nad_namespace: str | None = None
    image: str | None = None
    namespace: str | None = None
    node_timeout: float | None = None
    service_cidrs: tuple[str, ...] | None = None
    pod_cidrs: tuple[str, ...] | None = None

    def over(self, other: "Flags") -> "Flags":
        """Return these settings, completed by those of `other`."""
        return replace(other, **self.said())

    def said(self) -> dict[str, Any]:
        """Return the fields that are set."""
        return {field: value for field, value in asdict(self).items() if value is not None}


def settings(given: Flags, image: str = "") -> Settings:
    """Return the settings, with defaults for those not set. `image` is used if no other image was set."""
    return replace(Settings(image=image), **given.said())


KEYS = {
    "default": "default",
    "name": "name",
    "bridge": "bridge",
    "nad": "nad",
    "nadNamespace": "nad_namespace",
    "image": "image",
    "nodeTimeout": "node_timeout",
    "serviceCIDRs": "service_cidrs",
    "podCIDRs": "pod_cidrs",
}
"""Entries of the ConfigMap, with the fields that they say.

`namespace` is none of them: where the DaemonSets of existing networks live can't change while the manager runs.
"""


def read_entries(data: Mapping[str, str], last: Flags) -> tuple[Flags, tuple[str, ...]]:
    """Return the settings of a ConfigMap's entries, and the problems of some of them.

    An entry that can't be read keeps the value of `last`, the settings that were read from it before.
    """
    found: dict[str, Any] = {}
    faults = []
    for key, text in sorted(data.items()):
        field = KEYS.get(key)
        if field is None:
            faults.append(f"{key}: unknown setting; known settings are {', '.join(sorted(KEYS))}")
            continue
        try:
            found[field] = read(field, text)
        except Malformed as error:
            found[field] = getattr(last, field)
            faults.append(f"{key}: {error}")
    return msgspec.convert(found, Flags), tuple(faults)


def read(field: str, text: str) -> Any:
    """Return the value of a field of `Settings`, None for an empty text. Raises Malformed without the field's name."""
    text = text.strip()
    return _READERS[field](text) if text else None


def _boolean(text: str) -> bool:
    try:
        return _BOOLEANS[text.lower()]
    except KeyError:
        raise Malformed(f'"{text}" must be true or false') from None


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise Malformed(
            f'"{text}" can\'t be the name of a DummyClusterNetwork: use at most 253 lower-case letters, digits, - and '
            "dots, e.g. br-dummy-cluster"
        )
    return text


def _bridge(text: str) -> str:
    return _sound(text, bridge_fault(text))


def _label(what: str, example: str) -> Callable[[str], str]:
    return lambda text: _sound(text, label_fault(text, what, example))


def _sound(text: str, fault: str) -> str:
    if fault:
        raise Malformed(f"it {fault}")
    return text


def _image(text: str) -> str:
    if not has_digest(text):
        raise Malformed(
            f'"{text}" does not name an image by its digest: write NAME@sha256:<64 hexadecimal digits>'
        )
    return text


def _timeout(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1.0 <= seconds <= LONGEST_TIMEOUT:
        raise Malformed(f'"{text}" is not a number of seconds from 1 to {LONGEST_TIMEOUT:.0f}')
    return seconds


def _cidrs(text: str) -> tuple[str, ...]:
    return tuple(map(_cidr, text.replace(",", " ").split()))


def _cidr(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise Malformed(f'"{text}" is not a CIDR: write a list such as 10.42.0.0/16,fd00:42::/56') from None


_READERS: dict[str, Callable[[str], Any]] = {
    "default": _boolean,
    "name": _name,
    "bridge": _bridge,
    "nad": _label("a NAD", "dummy-bridge-net"),
    "nad_namespace": _label("a namespace", "harvester-system"),
    "image": _image,
    "namespace": _label("a namespace", "lanloom-bridges"),
    "node_timeout": _timeout,
    "service_cidrs": _cidrs,
    "pod_cidrs": _cidrs,
}
