"""Who makes an object: only those who are there, by kind, namespace and uid."""

from typing import Any

import msgspec
import pytest

from lanloom.api.core import PODS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.api.workloads import (
    CRON_JOBS,
    DAEMON_SET_TEMPLATES,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from lanloom.kube.errors import NotFound, ServerError
from lanloom.nads.admission import controller_owners
from tests.harness.virtual import run

Kind = Resource[Any]
PLACE = "default"


class ResourceTable:
    """A server with some objects."""

    def __init__(self, *items: tuple[Kind, Object]) -> None:
        self._items = {(kind.full_name, item.metadata.key): item for kind, item in items}

    async def get(self, resource: Kind, name: str, namespace: str = "") -> Any:
        """As the port says."""
        for (kind, key), item in self._items.items():
            if (kind, *key) == (resource.full_name, namespace, name):
                return item
        raise NotFound(404, "NotFound", "not found", {"details": {"name": name}})


class Broken:
    """A server that does not answer."""

    async def get(self, resource: Kind, name: str, namespace: str = "") -> Any:
        """As the port says."""
        raise ServerError(500, "InternalError", "no")


def item(kind: Kind, name: str, owner: tuple[Kind, str] | None = None, /, **meta: Any) -> tuple[Kind, Object]:
    """An object that another one controls."""
    metadata = {"name": name, "namespace": PLACE, "uid": f"uid of {name}", **meta}
    if owner is not None:
        metadata["ownerReferences"] = [reference(*owner)]
    body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": metadata}
    return kind, msgspec.convert(body, kind.type)


def reference(kind: Kind, name: str, **more: Any) -> dict[str, Any]:
    """A reference to a controller."""
    found = {"apiVersion": kind.api_version, "kind": kind.kind, "name": name, "uid": f"uid of {name}"}
    return {**found, "controller": True, **more}


def owners_of(asked: tuple[Kind, Object], *there: tuple[Kind, Object]) -> list[str]:
    """The names of those who make an object."""
    found = run(controller_owners(ResourceTable(*there), asked[1]))  # type: ignore[arg-type]
    return [each.metadata.name for each in found]


@pytest.mark.parametrize(
    "chain",
    [
        (PODS, VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES),
        (PODS, REPLICA_SETS, DEPLOYMENTS),
        (PODS, STATEFUL_SETS),
        (PODS, DAEMON_SET_TEMPLATES),
        (PODS, JOBS, CRON_JOBS),
    ],
    ids=lambda chain: chain[-1].kind,
)
def test_everybody_who_makes_pods(chain: tuple[Kind, ...]) -> None:
    """Each is found, the nearest first; if one is not there, or goes, none is."""
    last = len(chain) - 1
    owners = [(kind, f"n{at}") for at, kind in enumerate(chain)][1:]
    made = [item(kind, f"n{at}", (*owners, None)[at]) for at, kind in enumerate(chain)]
    names = [f"n{at}" for at in range(1, last + 1)]
    assert owners_of(made[0], *made[1:]) == names
    assert owners_of(made[0], *made[1:last]) == []
    leaving = item(chain[last], f"n{last}", deletionTimestamp="2026-01-01T00:00:00Z")
    assert owners_of(made[0], *made[1:last], leaving) == []
    namesake = item(chain[last], f"n{last}", uid="another")
    assert owners_of(made[0], *made[1:last], namesake) == []


def test_an_unknown_controller_is_not_asked_for() -> None:
    """Of other groups and kinds it is unknown what they make; the last one that is known stands for them."""
    other = reference(STATEFUL_SETS, "a", apiVersion="apps.kruise.io/v1beta1")
    there = item(STATEFUL_SETS, "a")
    assert owners_of(item(PODS, "p", ownerReferences=[other]), there) == []
    rollout = reference(DEPLOYMENTS, "r") | {"apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout"}
    assert owners_of(
        item(PODS, "p", (REPLICA_SETS, "a")), item(REPLICA_SETS, "a", ownerReferences=[rollout])
    ) == ["a"]


def test_an_owner_that_does_not_control_makes_nothing() -> None:
    """Any object may own another; one alone controls it."""
    owner = reference(STATEFUL_SETS, "a", controller=False)
    assert owners_of(item(PODS, "p", ownerReferences=[owner]), item(STATEFUL_SETS, "a")) == []


def test_others_than_controllers_are_no_way_in() -> None:
    """A machine has no controller, nor is a pod made by another one."""
    assert owners_of(item(PODS, "p", (PODS, "q")), item(PODS, "q")) == []
    assert owners_of(item(VIRTUAL_MACHINES, "v", (VIRTUAL_MACHINES, "w")), item(VIRTUAL_MACHINES, "w")) == []


def test_a_server_that_does_not_answer_tells_nothing() -> None:
    """What can't be read is an error, so that the caller tries again."""
    _, asked = item(PODS, "p", (JOBS, "a"))
    with pytest.raises(ServerError):
        run(controller_owners(Broken(), asked))  # type: ignore[arg-type]
