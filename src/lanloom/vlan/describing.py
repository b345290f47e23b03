"""What a node reports of each of its networks: what it carries, and why that is not the present form, if so."""

from collections.abc import Callable, Iterable, Mapping

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.harvester import VlStatus
from lanloom.api.meta import Condition
from lanloom.node.ports import Connection, LinkState
from lanloom.vlan.carrying import Problems
from lanloom.vlan.rules.desired import Problem
from lanloom.vlan.rules.holding import Choice, explanation
from lanloom.vlan.rules.management import management
from lanloom.vlan.rules.status import (
    READY,
    Finding,
    leftover_status,
    look_again,
    node_status,
    with_finding,
)

CURRENT = "Current"
"""The type of the condition that says why a node does not carry the present form; only there when it does not."""


class Sight(Struct, frozen=True):
    """What was seen of the host. `connections` is None where NetworkManager can't be reached. `now` is the epoch's."""

    observed: LinkState
    files: Mapping[str, bytes]
    connections: Mapping[str, Connection] | None
    now: float


class Description(Struct, frozen=True):
    """The reports by cluster network, and in how many seconds the host is to be looked at again because of them."""

    statuses: dict[str, VlStatus]
    look_again: float


def describe(
    node: str,
    choices: Iterable[Choice],
    problems: Problems,
    sight: Sight,
    previous: Callable[[str], tuple[Condition, ...]],
    longest: float,
) -> Description:
    """The reports. `previous` gives the conditions that were reported last of a network."""
    statuses: dict[str, VlStatus] = {}
    wait = longest
    for choice in choices:
        name = choice.present.name
        known = previous(name)
        bare = tuple(item for item in known if item.type != CURRENT)
        if choice.carried is None:
            obstacles = problems.get(name) or (_obstacle(choice),)
            status = leftover_status(node, name, obstacles, bare, sight.now)
        else:
            status = _carried(node, choice, problems.get(name, ()), sight, bare)
        wait = min(wait, look_again(status) if not choice.reason else longest)
        statuses[name] = _marked(status, choice, known, sight.now) if choice.reason else status
    for name, obstacles in problems.items():
        if name and name not in statuses:
            status = statuses[name] = leftover_status(node, name, obstacles, previous(name), sight.now)
            wait = min(wait, look_again(status))
    return Description(statuses, wait)


def _carried(
    node: str, choice: Choice, obstacles: tuple[Problem, ...], sight: Sight, previous: tuple[Condition, ...]
) -> VlStatus:
    form = choice.carried
    assert form is not None
    status = node_status(
        node, form.network, obstacles, sight.observed, sight.connections, previous, sight.now
    )
    own = management(sight.observed, sight.files) if form.network.foreign else None
    return replace(status, revision=form.revision, management=own)


def _obstacle(choice: Choice) -> Problem:
    return Problem(vid=0, network="", reason=choice.reason, message=explanation(choice))


def _marked(status: VlStatus, choice: Choice, known: tuple[Condition, ...], now: float) -> VlStatus:
    """Adds why the present form is not carried. A form that was rolled back is a failure of the network too."""
    finding = Finding("False", choice.reason, explanation(choice))
    conditions = {item.type: item for item in status.conditions}
    types = [CURRENT]
    if choice.reason == "RolledBack" and conditions[READY].status == "True":
        types.append(READY)
    for type in types:  # from what was reported: else the time of the transition would be a new one each time
        before = tuple(item for item in known if item.type == type)
        conditions[type] = with_finding(before, type, finding, now)[-1]
    return replace(status, conditions=tuple(conditions.values()))
