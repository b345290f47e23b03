"""Asks the API server why an object is not deleted, and what a deletion would meet."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

from lanloom.api.core import NAMESPACES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, UID_LABEL, DummyClusterNetwork
from lanloom.api.meta import Key, Object
from lanloom.api.resource import Resource
from lanloom.kube.errors import NotFound
from lanloom.kube.lookup import get_or_none
from lanloom.kube.ports import Client
from lanloom.processes.blockers.kinds import Target
from lanloom.processes.blockers.networks import maker_notes
from lanloom.processes.blockers.questions import QUESTIONS, Answer, owned_by
from lanloom.runtime.blockers.finalizers import OWN, foreign
from lanloom.runtime.blockers.model import Explanation, Obstacle

Trial = Callable[[Target], Awaitable[str]]
"""Asks for a deletion in a dry run: the server's refusal, empty if it would accept it. Raises KubeError."""

FOREGROUND = "foregroundDeletion"

_DENIED = re.compile(r'admission webhook "([^"]+)" denied the request: (.*)', re.DOTALL)


async def explain(client: Client, target: Target, trial: Trial) -> Explanation:
    """Everything that is in the way. Raises KubeError."""
    resource, key = target.resource, target.key
    try:
        item: Object = await client.get(resource, key.name, key.namespace)
    except NotFound as error:
        strange = f"The API server knows no {resource.plural} of {resource.api_version}."
        notes: tuple[str, ...] = () if error.is_of(key.name) else (strange,)
        return Explanation(
            kind=resource.kind, name=key.name, namespace=key.namespace, state="gone", notes=notes
        )
    question = QUESTIONS.get(resource.full_name)
    answer = await question(client, item) if question is not None else Answer()
    leaving = item.metadata.is_deleting
    obstacles = await (_keepers(client, item, resource) if leaving else _refusals(target, trial))
    notes = (*answer.notes, *await _notes(client, item, resource))
    return Explanation(
        kind=resource.kind,
        name=key.name,
        namespace=key.namespace,
        uid=item.metadata.uid,
        state="leaving" if leaving else "living",
        since=item.metadata.deletion_timestamp or "",
        obstacles=(*obstacles, *answer.obstacles),
        notes=notes,
    )


async def _refusals(target: Target, trial: Trial) -> tuple[Obstacle, ...]:
    text = await trial(target)
    return (refusal(text),) if text else ()


def refusal(message: str) -> Obstacle:
    """What it means that the server refuses a deletion."""
    denied = _DENIED.search(message)
    whose = f"the admission webhook {denied[1]}" if denied else "the API server"
    why = denied[2] if denied else message
    return Obstacle(what="a deletion would be refused", whose=whose, why=why)


async def _keepers(client: Client, item: Object, resource: Resource[Any]) -> tuple[Obstacle, ...]:
    """The finalizers of others; what ours wait for is told by their own modules."""
    found = []
    for name in item.metadata.finalizers:
        if name != OWN.get(resource.full_name):
            waits_for = await owned_by(client, item) if name == FOREGROUND else ()
            known = foreign(name)
            found.append(
                Obstacle(
                    what=known.what,
                    whose=known.whose,
                    why=known.why,
                    waits_for=waits_for,
                    remedy=known.remedy,
                )
            )
    return tuple(found)


async def _notes(client: Client, item: Object, resource: Resource[Any]) -> tuple[str, ...]:
    """Who makes it anew, whether its namespace goes anyhow, and what else a deletion would wait for."""
    meta = item.metadata
    networks = {}
    if UID_LABEL in meta.labels:
        found = await _all_networks(client)
        networks = {each.metadata.uid: each for each in found}
    notes = maker_notes(item, networks)
    if meta.is_deleting:
        return notes
    others = [foreign(name) for name in meta.finalizers if name != OWN.get(resource.full_name)]
    notes += tuple(f"A deletion would wait for {each.what} ({each.whose})." for each in others)
    space = await get_or_none(client, NAMESPACES, Key("", meta.namespace)) if meta.namespace else None
    if space is not None and space.metadata.is_deleting:
        notes += (
            f"Its namespace is being deleted (since {space.metadata.deletion_timestamp}), and it is to go with that.",
        )
    return notes


async def _all_networks(client: Client) -> tuple[DummyClusterNetwork, ...]:
    try:
        return (await client.list(DUMMY_CLUSTER_NETWORKS)).items
    except NotFound:
        return ()
