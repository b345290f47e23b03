"""What a node reports of each of its networks: what it carries, and why that is not the present form, if so."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct

from lanloom.api.harvester import VlStatus
from lanloom.api.meta import Condition
from lanloom.node.ports import Connection, LinkState
from lanloom.vlan.agent.carrier import Problems
from lanloom.vlan.rules.forms import Choice, explanation
from lanloom.vlan.rules.network import Problem
from lanloom.vlan.rules.status import RESYNC_SECONDS, leftover_status, look_again, node_status


class Sight(Struct, frozen=True):
    """What was seen of the host. `connections` is None where NetworkManager can't be reached. `now` is the epoch's."""

    observed: LinkState
    connections: Mapping[str, Connection] | None
    now: float


class Description(Struct, frozen=True):
    """The reports by cluster network, and in how many seconds the host is to be looked at again because of them."""

    statuses: dict[str, VlStatus]
    look_again: float

    @property
    def in_force(self) -> bool:
        """Whether every sub-interface is ready: one that failed may yet come up, and change how packets go."""
        interfaces = (item for status in self.statuses.values() for item in status.interfaces)
        return all(item.state == "Ready" for item in interfaces if item.name)


Previous = Callable[[str], tuple[Condition, ...]]
"""The conditions that were reported last of a cluster network."""


def describe(
    node: str, choices: Iterable[Choice], problems: Problems, sight: Sight, previous: Previous
) -> Description:
    """The reports of what was chosen, and of networks that are to go but can't be let go of yet."""
    statuses: dict[str, VlStatus] = {}
    wait = RESYNC_SECONDS
    for choice in choices:
        name = choice.present.name
        status = _status(node, choice, problems.get(name, ()), sight, previous(name))
        wait = min(wait, RESYNC_SECONDS if _merely_withheld(status, choice) else look_again(status))
        statuses[name] = status
    for name, obstacles in problems.items():
        if name and name not in statuses:
            status = statuses[name] = leftover_status(node, name, obstacles, previous(name), sight.now)
            wait = min(wait, look_again(status))
    return Description(statuses, wait)


def _status(
    node: str, choice: Choice, obstacles: tuple[Problem, ...], sight: Sight, previous: tuple[Condition, ...]
) -> VlStatus:
    withheld = None
    if choice.reason:
        withheld = Problem(vid=0, network="", reason=choice.reason, message=explanation(choice))
    if choice.carried is None:
        reasons = (*obstacles, *((withheld,) if withheld else ()))
        return leftover_status(node, choice.present.name, reasons, previous, sight.now)
    return node_status(
        node,
        choice.carried.network,
        obstacles,
        sight.observed,
        sight.connections,
        previous,
        sight.now,
        revision=choice.carried.revision,
        withheld=withheld,
    )


def _merely_withheld(status: VlStatus, choice: Choice) -> bool:
    """Whether nothing is wrong but that the present form is not carried: looking more often would not help."""
    return {item.reason for item in status.conditions if item.status != "True"} == {choice.reason}
