"""The steps for isolated bridges on a host, from the links that are there: one that is kept, and the orphans."""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from lanloom.api.dummy import DummyClusterNetwork
from lanloom.features.dummy.rules.linksteps import (
    EnsureIsolatedBridge,
    Port,
    RemoveIsolatedBridge,
    standing_on,
)
from lanloom.node.errors import LinkError
from lanloom.node.marks import unfinished_name
from lanloom.node.ports import Link, LinkStep
from lanloom.node.steps import DeleteLink

State = Literal["present", "absent"]

FOREIGN_SECONDS = 10.0
"""How long a link that is in the way, or a kernel that refuses, is borne: what is left of a network of the same name is
swept away meanwhile."""

PORTS_SECONDS = 60.0
"""How long ports are borne on a bridge that is to go: a pod that ends may take a while."""


class Assignment(Struct, frozen=True, kw_only=True):
    """The bridge `bridge` of `owner`, a uid: it is to be there, or nothing of that owner's is.

    `gateway` is the address (a CIDR) that the network's pods have CNI's plugin give the bridge, if any. `known` is the
    index of the bridge that had the owner's mark when it was last looked at, 0 for none; `ports` are those it had.
    """

    bridge: str
    owner: str
    state: State
    gateway: str = ""
    known: int = 0
    ports: tuple[Port, ...] = ()

    @property
    def making(self) -> EnsureIsolatedBridge:
        """The step that makes the bridge, or takes it over."""
        return EnsureIsolatedBridge(
            name=self.bridge, owner=self.owner, gateway=self.gateway, known=self.known, ports=self.ports
        )


class Verdict(Struct, frozen=True, kw_only=True):
    """What a look at the links says: all is as it should be, or what is due now, or what stands in the way.

    An obstacle is a whole message, and borne for `patience` seconds.
    """

    ready: bool = False
    steps: tuple[LinkStep, ...] = ()
    obstacle: str = ""
    patience: float = FOREIGN_SECONDS


def remembering(task: Assignment, links: Mapping[str, Link]) -> Assignment:
    """The assignment for whoever looks again: the bridge that is the owner's now is so whatever becomes of its mark.

    Only who has seen the mark on a bridge knows that; for anybody else one without it is somebody else's. And only he
    knows the ports that it had when it is gone.
    """
    link = links.get(task.bridge)
    if link is None:
        return replace(task, known=0)
    if link.owner_uid != task.owner:
        return task
    ports = tuple(Port(port.name, port.index) for port in links.values() if port.master == task.bridge)
    return replace(task, known=link.index, ports=ports)


def evaluate(task: Assignment, links: Mapping[str, Link]) -> Verdict:
    """The verdict on a host with these links."""
    return _present(task, links) if task.state == "present" else _absent(task, links)


def _present(task: Assignment, links: Mapping[str, Link]) -> Verdict:
    if obstacle := _obstacle(task.making, links):
        return Verdict(obstacle=obstacle)
    link = links.get(task.bridge)
    done = link is not None and link.owner_uid == task.owner and link.up and _is_apart(task, link)
    return Verdict(ready=True) if done else Verdict(steps=(task.making,))


def _is_apart(task: Assignment, link: Link) -> bool:
    """Whether the host takes no more part in the network than it should."""
    return link.secluded and link.forwarding == bool(task.gateway)


def _absent(task: Assignment, links: Mapping[str, Link]) -> Verdict:
    """A link of that name that is not the owner's is none of its business; one that was renamed still is.

    What would be taken over if it were to stay is, and goes then: no reconciler may have seen it before.
    """
    if _is_adoptable(task, links):
        free = () if standing_on(task.bridge, links) else (_removal(task, task.bridge),)
        return Verdict(steps=(task.making, *free))
    own = sorted(name for name, link in links.items() if link.owner_uid == task.owner)
    removals = [_removal(task, name) for name in own]
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


def _is_adoptable(task: Assignment, links: Mapping[str, Link]) -> bool:
    link = links.get(task.bridge)
    return link is not None and not link.alias and not _obstacle(task.making, links)


def _removal(task: Assignment, name: str) -> RemoveIsolatedBridge:
    return RemoveIsolatedBridge(name=name, owner=task.owner)


def _obstacle(step: LinkStep, links: Mapping[str, Link]) -> str:
    try:
        step.guard(links)
    except LinkError as error:
        return str(error)
    return ""


def orphaned_bridges(
    networks: Iterable[DummyClusterNetwork], links: Mapping[str, Link]
) -> tuple[LinkStep, ...]:
    """The steps that rid a host of the bridges that none of the networks has, and that nobody uses.

    Only what has the mark, or the name of what is half-made, is looked at. A network that is being deleted still has
    its bridge; one that says no bridge's name may have any.
    """
    bridges = {item.metadata.uid: item.spec.bridge_name for item in networks}
    half_made = {unfinished_name(uid) for uid in bridges}
    steps: list[LinkStep] = []
    for name, link in sorted(links.items()):
        owner = link.owner_uid
        if owner and bridges.get(owner, "-") not in (name, "") and not standing_on(name, links):
            steps.append(RemoveIsolatedBridge(name=name, owner=owner))
        elif link.unfinished and name not in half_made:
            steps.append(DeleteLink(name=name))
    return tuple(steps)
