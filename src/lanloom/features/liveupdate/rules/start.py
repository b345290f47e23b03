"""What is known of the template with which an instance was started, and whether the present one waits for a restart.

KubeVirt keeps that template in a ControllerRevision. Without one, a template that was not edited since the start is
remembered as a hash. If it was edited before Lanloom looked, the instance itself shows: it has every value of the
template from which it was made, and more that was set by default.

Which edits wait for a restart is decided as KubeVirt does. Compared are specs as they are on the wire, so that fields
that are unknown here count too. Null, false, zero, empty text and an empty list are what a field has that is not there:
Go does not write them. An empty object is something, such as the binding `bridge: {}`.
"""

import json
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from hashlib import sha256
from typing import Any

from msgspec import Struct

from lanloom.api.liveupdate import GROUP
from lanloom.features.liveupdate.rules.sync import Raw, named

STARTED_FROM = f"{GROUP}/started-from"
"""Annotation of an instance: the generation of its VirtualMachine at the start, and hashes of the template then."""

GENERATION = "kubevirt.io/vm-generation"
"""KubeVirt's annotation of an instance: the generation of its VirtualMachine whose template it has."""

UNKNOWN = "unknown"
"""The hash of a template that was edited before Lanloom looked at it."""

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

_DIGITS = 18
"""A generation has no more."""

RESTART_REQUIRED = "RestartRequired"
MESSAGE = "a non-live-updatable field was changed in the template spec"


class Start(Struct, frozen=True):
    """What is known of the template at an instance's start.

    `digest` is a hash of it without networks, or UNKNOWN. `networks` is a hash of those, empty if it is not known.
    """

    generation: int
    digest: str = UNKNOWN
    networks: str = ""

    @property
    def text(self) -> str:
        """The value of the annotation STARTED_FROM."""
        return ":".join(filter(None, (str(self.generation), self.digest, self.networks)))


def parse_start(text: str) -> Start | None:
    """Return what the annotation STARTED_FROM says; None where it does not."""
    generation, colon, rest = text.partition(":")
    digest, _, networks = rest.partition(":")
    if (
        not colon
        or not digest
        or not (generation.isascii() and generation.isdecimal())
        or len(generation) > _DIGITS
    ):
        return None
    return Start(int(generation), digest, networks)


def recorded_generation(annotations: Mapping[str, str]) -> int | None:
    """Return the generation whose template an instance has, by its annotations; None where they don't tell."""
    known = annotations.get(GENERATION, "")
    return int(known) if known.isascii() and known.isdecimal() and len(known) <= _DIGITS else None


def start_of(generation: int, template: Raw) -> Start:
    """Return what is to be remembered of a template that is known to be the one at the start."""
    return Start(generation, digest_of(template), _hash(_networks(template)))


def first_seen(generation: int, template: Raw, instance: Raw, recorded: int | None) -> Start:
    """Return what can be known of a start without a ControllerRevision. `instance` is the spec of the instance.

    `recorded` is the generation whose template the instance has, by its annotation; None where that is unknown.
    """
    if recorded == generation:
        return start_of(generation, template)
    if recorded is None and has_values_of(template, instance):
        return Start(generation, digest_of(template))
    return Start(recorded or 0)


def was_edited(start: Start, template: Raw, instance: Raw) -> bool:
    """Return whether a template is known to be another one than at the start, besides networks and live fields.

    The guest's memory may be added or changed in a running machine, but not taken out of the template.
    """
    if start.digest == UNKNOWN:
        return not has_values_of(template, instance)
    digest = digest_of(template)
    return start.digest not in (digest, digest.removesuffix(_WITH_MEMORY))


def networks_edited(start: Start, template: Raw, instance: Raw) -> bool:
    """Return whether the networks of a template can be others than at the start.

    KubeVirt gives an instance the pod network whose template has no networks at all.
    """
    if start.networks:
        return start.networks != _hash(_networks(template))
    bare = not named(template, "networks") and not named(template, "interfaces")
    own = named(instance, "networks").values()
    return not (bare and all("pod" in item for item in own))


def has_values_of(template: Raw, instance: Raw) -> bool:
    """Return whether a spec has all that a template asks for, besides networks and what changes alive."""
    left_out = (*_LIVE, *_NETWORK)
    return _covers(pruned(without(normal(template), left_out)), normal(instance))


def _covers(wanted: Any, found: Any) -> bool:
    if isinstance(wanted, Mapping):
        here = found if isinstance(found, Mapping) else {}
        return all(_covers(value, here.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list):
        return isinstance(found, list) and _list_covers(wanted, found)
    return _is_same(wanted, found)


def _list_covers(wanted: list[Any], found: list[Any]) -> bool:
    """Compare entries by their names, as others may come next to them; those without names by their places."""
    names = {item["name"]: item for item in found if isinstance(item, Mapping) and "name" in item}
    if all(isinstance(item, Mapping) and "name" in item for item in wanted):
        return all(_covers(item, names.get(item["name"])) for item in wanted)
    return len(wanted) == len(found) and all(map(_covers, wanted, found))


def _is_same(wanted: Any, found: Any) -> bool:
    """Return whether two values are one; KubeVirt writes a quantity of its own in its shortest form."""
    if type(wanted) is type(found) and wanted == found:
        return True
    quantity = _quantity(wanted)
    return quantity is not None and quantity == _quantity(found)


_QUANTITY = re.compile(r"([+-]?[0-9]{1,20}(?:\.[0-9]{1,20})?)([KMGTPE]i|[numkMGTPE]?)")
_DECIMAL, _BINARY = ("k", "M", "G", "T", "P", "E"), ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")
_FACTORS = {
    "": Fraction(1),
    **{unit: Fraction(1, 1000**power) for power, unit in enumerate(("m", "u", "n"), 1)},
    **{unit: Fraction(1000**power) for power, unit in enumerate(_DECIMAL, 1)},
    **{unit: Fraction(1024**power) for power, unit in enumerate(_BINARY, 1)},
}


def _quantity(value: Any) -> Fraction | None:
    """Return a quantity of Kubernetes as a number; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        return None
    match = _QUANTITY.fullmatch(str(value))
    return Fraction(match[1]) * _FACTORS[match[2]] if match else None


def digest_of(template: Raw) -> str:
    """Return a hash of the spec in a template, without networks and without what is changed in running machines.

    A template that has the guest's memory is marked as such.
    """
    whole = normal(template)
    rest = pruned(without(whole, (*_LIVE, *_NETWORK)))
    return _hash(rest) + (_WITH_MEMORY if _has_memory(whole) else "")


def _networks(template: Raw) -> Any:
    return [
        [normal(item) for _, item in sorted(named(template, field).items())]
        for field in ("networks", "interfaces")
    ]


def _hash(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return sha256(text.encode()).hexdigest()[:24]


def _has_memory(template: Any) -> bool:
    domain = template.get("domain") if isinstance(template, Mapping) else None
    memory = domain.get("memory") if isinstance(domain, Mapping) else None
    return isinstance(memory, Mapping) and "guest" in memory


def normal(value: Any) -> Any:
    """Return a value without what is the same as an absent field."""
    if isinstance(value, Mapping):
        fields = {key: normal(item) for key, item in value.items()}
        return {key: item for key, item in fields.items() if not _is_absent(item)}
    if isinstance(value, list):
        return [normal(item) for item in value]
    return value


def _is_absent(value: Any) -> bool:
    return value is None or value in ("", []) or (isinstance(value, int | float) and not value)


def without(value: Any, paths: tuple[tuple[str, ...], ...]) -> Any:
    """Return a value without the fields at these paths; objects on the way stay, even empty."""
    if not isinstance(value, Mapping):
        return value
    here = {path[0] for path in paths if len(path) == 1}
    below: dict[str, list[tuple[str, ...]]] = {}
    for path in paths:
        if len(path) > 1:
            below.setdefault(path[0], []).append(path[1:])
    return {
        key: without(item, tuple(below[key])) if key in below else item
        for key, item in value.items()
        if key not in here
    }


def pruned(value: Any) -> Any:
    """Return a template without the empty objects that stand for nothing."""
    if isinstance(value, Mapping):
        found = {key: pruned(item) for key, item in value.items()}
        return {key: item for key, item in found.items() if item != {} or key not in _EMPTY}
    return [pruned(item) for item in value] if isinstance(value, list) else value


_EMPTY = frozenset({"resources", "devices", "domain", "requests", "limits", "memory"})
"""Go writes these also where nothing was set; of memory there may have been nothing but what is live."""


def needs_restart(start: Start, template: Raw, instance: Raw, is_live: Callable[[str], bool]) -> bool:
    """Return whether a template can come into force by a restart only. All three are specs.

    `is_live` tells of a network, by name, whether its NAD may change in the running machine. Networks that are those
    of the start need none, whatever was added to the instance's by default.
    """
    if was_edited(start, template, instance):
        return True
    return networks_edited(start, template, instance) and networks_need_restart(template, instance, is_live)


def networks_need_restart(template: Raw, instance: Raw, is_live: Callable[[str], bool]) -> bool:
    """Return whether the networks of a template can come into force by a restart only.

    Both are specs. `is_live` tells of a network, by name, whether its NAD may change in the running machine.
    """
    return _interfaces_differ(
        named(template, "interfaces"), named(instance, "interfaces")
    ) or _networks_differ(named(template, "networks"), named(instance, "networks"), is_live)


def _interfaces_differ(wanted: Mapping[str, Raw], own: Mapping[str, Raw]) -> bool:
    return any(
        name not in wanted or without(normal(wanted[name]), _STATE) != without(normal(item), _STATE)
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
        if without(normal(wanted[name]), ignored) != without(normal(item), ignored):
            return True
    return False


_STATE: tuple[tuple[str, ...], ...] = (("state",),)
_NAD: tuple[tuple[str, ...], ...] = (("multus", "networkName"),)
