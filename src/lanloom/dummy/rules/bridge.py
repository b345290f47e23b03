"""What is to be done about one isolated bridge on a host, from the links that are there."""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from lanloom.node.errors import LinkError
from lanloom.node.guards import guard
from lanloom.node.isolated import unfinished_name
from lanloom.node.ports import Link
from lanloom.node.steps import DeleteLink, EnsureIsolatedBridge, LinkStep, RemoveIsolatedBridge

State = Literal["present", "absent"]

FOREIGN_SECONDS = 10.0
"""How long a link that is in the way, or a kernel that refuses, is borne: what is left of a network of the same name is
swept away meanwhile."""

PORTS_SECONDS = 60.0
"""How long ports are borne on a bridge that is to go: a pod that ends may take a while."""


class Assignment(Struct, frozen=True, kw_only=True):
    """The bridge `bridge` of `owner`, a uid: it is to be there, or nothing of that owner's is."""

    bridge: str
    owner: str
    state: State


class Verdict(Struct, frozen=True, kw_only=True):
    """What a look at the links says: all is as it should be, or what is due now, or what stands in the way.

    An obstacle is a whole message, and borne for `patience` seconds.
    """

    ready: bool = False
    steps: tuple[LinkStep, ...] = ()
    obstacle: str = ""
    patience: float = FOREIGN_SECONDS


def judge(task: Assignment, links: Mapping[str, Link]) -> Verdict:
    """The verdict on a host with these links."""
    return _present(task, links) if task.state == "present" else _absent(task, links)


def _present(task: Assignment, links: Mapping[str, Link]) -> Verdict:
    step = EnsureIsolatedBridge(name=task.bridge, owner=task.owner)
    if obstacle := _obstacle(step, links):
        return Verdict(obstacle=obstacle)
    link = links.get(task.bridge)
    return Verdict(ready=True) if link is not None and link.up else Verdict(steps=(step,))


def _absent(task: Assignment, links: Mapping[str, Link]) -> Verdict:
    """A link of that name that is not the owner's is none of its business; one that was renamed still is."""
    own = sorted(name for name, link in links.items() if link.isolated_owner == task.owner)
    removals = [RemoveIsolatedBridge(name=name, owner=task.owner) for name in own]
    obstacles = [text for step in removals if (text := _obstacle(step, links))]
    steps: list[LinkStep] = [step for step in removals if not _obstacle(step, links)]
    half = links.get(unfinished_name(task.owner))
    if half is not None and half.unfinished:
        steps.append(DeleteLink(name=half.name))
    return Verdict(
        ready=not (steps or obstacles),
        steps=tuple(steps),
        obstacle="; ".join(obstacles),
        patience=PORTS_SECONDS,
    )


def _obstacle(step: LinkStep, links: Mapping[str, Link]) -> str:
    try:
        guard(step, links)
    except LinkError as error:
        return str(error)
    return ""
