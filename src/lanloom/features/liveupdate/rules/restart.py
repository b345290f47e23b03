"""Which edits of a VirtualMachine wait for a restart, as KubeVirt decides it.

Compared are specs as they are on the wire, so that fields that are unknown here count too. Null, false, zero, empty
text and an empty list are what a field has that is not there: Go does not write them. An empty object is something,
such as the binding `bridge: {}`.
"""

import json
from collections.abc import Callable, Mapping
from hashlib import sha256
from typing import Any

from msgspec import Struct

from lanloom.api.liveupdate import GROUP
from lanloom.features.liveupdate.rules.sync import Raw, named

RESTART_REQUIRED = "RestartRequired"
MESSAGE = "a non-live-updatable field was changed in the template spec"

STARTED_FROM = f"{GROUP}/started-from"
"""Annotation of an instance: the generation of its VirtualMachine at the start, and a hash of the template then."""

GENERATION = "kubevirt.io/vm-generation"
"""KubeVirt's annotation of an instance: the generation of its VirtualMachine whose template it has."""

_LIVE: tuple[tuple[str, ...], ...] = (
    ("domain", "cpu", "sockets"),
    ("domain", "memory", "guest"),
    ("nodeSelector",),
    ("affinity",),
    ("tolerations",),
)
"""Fields that KubeVirt changes in running machines, with the rollout strategy LiveUpdate."""

_NETWORK: tuple[tuple[str, ...], ...] = (("networks",), ("domain", "devices", "interfaces"))


_WITH_MEMORY = "-memory"

UNKNOWN = "unknown"
"""The hash of a template that was edited before anybody could look at it."""


class Start(Struct, frozen=True):
    """What is known of the template at an instance's start: `digest` is a hash of it, or UNKNOWN."""

    generation: int
    digest: str

    @property
    def text(self) -> str:
        """The value of the annotation STARTED_FROM."""
        return f"{self.generation}:{self.digest}"


def parse_start(text: str) -> Start | None:
    """Return what the annotation STARTED_FROM says; None where it does not."""
    generation, colon, digest = text.partition(":")
    if (
        not colon
        or not digest
        or not (generation.isascii() and generation.isdecimal())
        or len(generation) > 18
    ):
        return None
    return Start(int(generation), digest)


def was_edited(start: Start, template: Raw) -> bool:
    """Return whether a template is known to be another one than at the start, besides networks and live fields.

    The guest's memory may be added or changed in a running machine, but not taken out of the template.
    """
    digest = digest_of(template)
    return start.digest not in (UNKNOWN, digest, digest.removesuffix(_WITH_MEMORY))


def digest_of(template: Raw) -> str:
    """Return a hash of the spec in a template, without networks and without what is changed in running machines.

    A template that has the guest's memory is marked as such.
    """
    whole = _normal(template)
    text = json.dumps(_pruned(_without(whole, (*_LIVE, *_NETWORK))), sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:24] + (_WITH_MEMORY if _has_memory(whole) else "")


def _has_memory(template: Any) -> bool:
    domain = template.get("domain") if isinstance(template, Mapping) else None
    memory = domain.get("memory") if isinstance(domain, Mapping) else None
    return isinstance(memory, Mapping) and "guest" in memory


def networks_need_restart(template: Raw, instance: Raw, is_live: Callable[[str], bool]) -> bool:
    """Return whether the networks of a template can come into force by a restart only.

    Both are specs. `is_live` tells of a network, by name, whether its NAD may change in the running machine.
    """
    return _interfaces_differ(
        named(template, "interfaces"), named(instance, "interfaces")
    ) or _networks_differ(named(template, "networks"), named(instance, "networks"), is_live)


def _interfaces_differ(wanted: Mapping[str, Raw], own: Mapping[str, Raw]) -> bool:
    return any(
        name not in wanted or _without(_normal(wanted[name]), _STATE) != _without(_normal(item), _STATE)
        for name, item in own.items()
    )


def _networks_differ(
    wanted: Mapping[str, Raw], own: Mapping[str, Raw], is_live: Callable[[str], bool]
) -> bool:
    if any("pod" in item for item in wanted.values()) and not any("pod" in item for item in own.values()):
        return True
    for name, item in own.items():
        if name not in wanted:
            return True
        ignored = _NAD if is_live(name) else ()
        if _without(_normal(wanted[name]), ignored) != _without(_normal(item), ignored):
            return True
    return False


_STATE: tuple[tuple[str, ...], ...] = (("state",),)
_NAD: tuple[tuple[str, ...], ...] = (("multus", "networkName"),)


def _normal(value: Any) -> Any:
    """Return a value without what is the same as an absent field."""
    if isinstance(value, Mapping):
        normal = {key: _normal(item) for key, item in value.items()}
        return {key: item for key, item in normal.items() if not _is_absent(item)}
    if isinstance(value, list):
        return [_normal(item) for item in value]
    return value


def _is_absent(value: Any) -> bool:
    return value is None or value in ("", []) or (isinstance(value, int | float) and not value)


def _without(value: Any, paths: tuple[tuple[str, ...], ...]) -> Any:
    """Return a value without the fields at these paths; objects on the way stay, even empty."""
    if not isinstance(value, Mapping):
        return value
    here = {path[0] for path in paths if len(path) == 1}
    below: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        if len(path) > 1:
            below.setdefault(path[0], []).append(path[1:])
    return {
        key: _without(item, tuple(below[key])) if key in below else item
        for key, item in value.items()
        if key not in here
    }


def _pruned(value: Any) -> Any:
    """Return a template without the empty objects that stand for nothing."""
    if isinstance(value, Mapping):
        found = {key: _pruned(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item != {} or key not in _EMPTY}
    return [_pruned(item) for item in value] if isinstance(value, list) else value


_EMPTY = frozenset({"resources", "devices", "domain", "requests", "limits", "memory"})
"""Go writes these also where nothing was set; of memory there may have been nothing but what is live."""
