"""Tells what others changed on a host from what the agent still has to do, and paces repairs that do not last.

What is remembered here may be lost at any moment: a new agent calls nothing drift until it has seen a network in force.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lanloom.node.steps import AddVlans, EnsureBond, EnsureBridge, LinkStep, RemoveVlans, SetMaster
from lanloom.node.vlanids import render
from lanloom.vlan.rules.desired import Interface
from lanloom.vlan.rules.holding import Form
from lanloom.vlan.rules.names import parse_profile_file
from lanloom.vlan.rules.plan import Plan

FREE = 3
"""So many repairs of a network in a row are done at once."""

LONGEST = 30.0
"""Seconds between two repairs of a network with which somebody fights us, at the most."""

QUIET = 60.0
"""After so many seconds without a repair the next one is a first one again."""


class Drift(Struct, frozen=True):
    """What was found changed: its cluster network, of what kind it is, and in words."""

    cluster_network: str
    kind: str
    text: str


class _Effort(Struct, frozen=True):
    """How often the same form of a network was built in a row, and when last, in seconds of the loop."""

    digest: str
    count: int
    last: float

    def due(self) -> float:
        wait = min(LONGEST, 2.0 ** (self.count - FREE)) if self.count >= FREE else 0.0
        return self.last + wait


class Repairs:
    """One host's networks: those that were seen in force, and those that needed work lately."""

    def __init__(self) -> None:
        self._in_force: dict[str, str] = {}
        self._efforts: dict[str, _Effort] = {}

    def paced(self, step: Plan, forms: Iterable[Form], now: float) -> tuple[Plan, Mapping[str, float]]:
        """The plan without the networks whose turn is later, and in how many seconds each of those is due."""
        digests = {form.name: form.digest for form in forms}
        waits = {}
        for name in _busy(step) & digests.keys():
            effort = self._efforts.get(name)
            if effort is None or effort.digest != digests[name] or now - effort.last > QUIET:
                effort = _Effort(digests[name], 0, now)
            if effort.due() > now:
                waits[name] = effort.due() - now
            else:
                self._efforts[name] = _Effort(effort.digest, effort.count + 1, now)
        return (_without(step, waits) if waits else step), waits

    def drift(self, whole: Plan, step: Plan, forms: Iterable[Form]) -> tuple[Drift, ...]:
        """What of the `step` that is done now repairs networks that were in force.

        Those that need nothing of the `whole` plan are in force from now on.
        """
        busy = _busy(whole)
        found: list[Drift] = []
        seen = {}
        for form in forms:
            known = self._in_force.get(form.name) == form.digest
            if known:
                found += _found(form.name, step)
            if known or not (form.name in busy or form.name in whole.problems):
                seen[form.name] = form.digest
        self._in_force = seen
        return tuple(found)

    def restored(self, forms: Iterable[Form], interfaces: Collection[Interface]) -> list[Drift]:
        """Addresses that had to be asked for again."""
        return [
            Drift(form.name, "address", f"{item.name} had lost its address")
            for form in forms
            if self._in_force.get(form.name) == form.digest
            for item in form.network.interfaces
            if item in interfaces
        ]


def counted(drift: Iterable[Drift]) -> Mapping[str, int]:
    """How many of each kind."""
    return Counter(item.kind for item in drift)


def _busy(step: Plan) -> set[str]:
    files = {owner[0] for name, _ in step.write_files if (owner := parse_profile_file(name))}
    return files | {name for name, _ in step.steps if name}


def _without(step: Plan, names: Iterable[str]) -> Plan:
    left_out = set(names)
    return replace(
        step,
        steps=tuple(group for group in step.steps if group[0] not in left_out),
        write_files=tuple(
            file for file in step.write_files if (parse_profile_file(file[0]) or ("",))[0] not in left_out
        ),
    )


def _found(name: str, step: Plan) -> list[Drift]:
    steps = [item for group, items in step.steps if group == name for item in items]
    found = [Drift(name, *_described(item)) for item in steps]
    files = [file for file, _ in step.write_files if (parse_profile_file(file) or ("",))[0] == name]
    return found + [Drift(name, "profile", f"the profile {file} was changed or removed") for file in files]


def _described(step: LinkStep) -> tuple[str, str]:
    match step:
        case AddVlans():
            return "vlan-ids", f"VLAN ids {render(step.ids)} were missing on {step.link}"
        case RemoveVlans():
            return "vlan-ids", f"VLAN ids {render(step.ids)} were added to {step.link}"
        case EnsureBond() | EnsureBridge():
            return "link", f"{step.name} was removed or changed"
        case SetMaster():
            return "link", f"{step.link} was not part of {step.master or 'nothing'}"
        case _:
            return "link", f"{_target(step)} was changed"


def _target(step: LinkStep) -> str:
    return str(getattr(step, "link", None) or getattr(step, "name", ""))
