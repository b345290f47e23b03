"""Tells what others changed on a host from what the agent still has to do, and paces repairs that do not last.

What is remembered here may be lost at any moment: a new agent calls nothing drift until it has seen a network whole.
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lanloom.features.vlan.agent.rollback.revisions import NetworkRevision
from lanloom.features.vlan.rules.desired.activation import Action
from lanloom.features.vlan.rules.desired.names import network_of_profile
from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.plan import Drift, Plan, drift
from lanloom.kube.controller import doubling
from lanloom.node.ports import LinkState

FREE = 3
"""So many repairs of a network in a row are done at once."""

LONGEST = 30.0
"""Seconds between two repairs of a network that another program changes back, at the most."""

QUIET = 60.0
"""After so many seconds without a repair the next one is a first one again."""


class _Effort(Struct, frozen=True):
    """How often a revision of a network was built in a row, and the last time, in seconds of the loop."""

    network: NodeNetwork
    count: int
    last: float

    def due(self) -> float:
        wait = doubling(self.count - FREE, first=1.0, cap=LONGEST) if self.count >= FREE else 0.0
        return self.last + wait


class Repairs:
    """One host's networks: those that were seen whole, and those that needed work lately."""

    def __init__(self) -> None:
        self._whole: dict[str, NodeNetwork] = {}
        self._efforts: dict[str, _Effort] = {}

    def paced(
        self, todo: Plan, revisions: Iterable[NetworkRevision], now: float
    ) -> tuple[Plan, Mapping[str, float]]:
        """Return the plan without the networks whose turn is later, and in how many seconds each of those is due."""
        networks = {revision.name: revision.network for revision in revisions}
        self._efforts = {name: effort for name, effort in self._efforts.items() if name in networks}
        waits = {}
        for name in sorted(_busy(todo) & networks.keys()):
            effort = self._efforts.get(name)
            if effort is None or effort.network != networks[name] or now - effort.last > QUIET:
                effort = _Effort(networks[name], 0, now)
            if effort.due() > now:
                waits[name] = effort.due() - now
            else:
                self._efforts[name] = _Effort(effort.network, effort.count + 1, now)
        return (_without(todo, waits) if waits else todo), waits

    def drift(
        self,
        revisions: Iterable[NetworkRevision],
        todo: Plan,
        step: Plan,
        observed: LinkState,
        files: Iterable[str],
    ) -> tuple[Drift, ...]:
        """Return the drift that `step`, the part of the plan `todo` for now, repairs on networks that were whole.

        Networks of which nothing is to do are whole from now on. `observed` and `files` are what the plan is from.
        """
        busy = _busy(todo)
        known, whole = set(), {}
        for revision in revisions:
            if self._whole.get(revision.name) == revision.network:
                known.add(revision.name)
                whole[revision.name] = revision.network
            elif revision.name not in busy and revision.name not in todo.problems:
                whole[revision.name] = revision.network
        self._whole = whole
        return drift(known, step, observed, files)

    def requested(self, revisions: Iterable[NetworkRevision], actions: Iterable[Action]) -> list[Drift]:
        """Return the drift that NetworkManager was asked to repair on networks that were whole."""
        return [
            Drift(revision.name, action.kind, action.text)
            for revision in revisions
            if self._whole.get(revision.name) == revision.network
            for action in actions
            if action.kind and action.interface in revision.network.interfaces
        ]


def by_kind(found: Iterable[Drift]) -> Mapping[str, int]:
    """Count the drift by kind."""
    return Counter(item.kind for item in found)


def _busy(todo: Plan) -> set[str]:
    files = {network_of_profile(name) for name, _ in todo.write_files}
    return (files | {name for name, _ in todo.steps}) - {""}


def _without(todo: Plan, names: Container[str]) -> Plan:
    return replace(
        todo,
        steps=tuple(group for group in todo.steps if group[0] not in names),
        write_files=tuple(file for file in todo.write_files if network_of_profile(file[0]) not in names),
    )
