"""Which edits of a VirtualMachine wait for a restart, as KubeVirt decides it.

Compared are specs as they are on the wire, so that fields that are unknown here count too. Null, false, zero, empty
text and an empty list are what a field has that is not there: Go does not write them. An empty object is something,
such as the binding `bridge: {}`.
"""

from collections.abc import Callable, Mapping

from lanloom.features.liveupdate.rules.start import (
    Start,
    networks_edited,
    normal,
    was_edited,
    without,
)
from lanloom.features.liveupdate.rules.sync import Raw, named

RESTART_REQUIRED = "RestartRequired"
MESSAGE = "a non-live-updatable field was changed in the template spec"


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
