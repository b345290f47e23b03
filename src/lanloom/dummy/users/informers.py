"""What is watched of those who may use networks, and the index by which the users of a network are found.

Machines, instances and pods are followed for other features as well. What makes pods is followed as a whole, too: the
templates decide, and no selector finds those that matter. Of each as little is kept as tells its networks.
"""

import random
from typing import Any

from msgspec import Struct

from lanloom.api.core import PODS, Pod
from lanloom.api.kubevirt import (
    VIRTUAL_MACHINE_INSTANCES,
    VIRTUAL_MACHINES,
    VirtualMachine,
    VirtualMachineInstance,
)
from lanloom.api.meta import Key, Object
from lanloom.api.references import marks_of, references_of
from lanloom.api.resource import Resource
from lanloom.api.workloads import (
    CRON_JOBS,
    DAEMON_SET_TEMPLATES,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client

MAKERS: tuple[Resource[Any], ...] = (DEPLOYMENTS, STATEFUL_SETS, DAEMON_SET_TEMPLATES, CRON_JOBS)
"""What makes pods; a Deployment by ReplicaSets, a CronJob by Jobs."""

MADE: tuple[Resource[Any], ...] = (REPLICA_SETS, JOBS)
"""What makes pods and may be made by one of the `MAKERS` itself."""

WAVES: tuple[tuple[Resource[Any], ...], ...] = (
    (VIRTUAL_MACHINES, *MAKERS),
    (VIRTUAL_MACHINE_INSTANCES, *MADE),
    (PODS,),
)
"""Every kind that may use a network; whoever makes others is in an earlier wave than they."""

REFERENCES = "references"
"""The index of every store: `References.marks` as text."""


class UserInformers(Struct, frozen=True):
    """Every kind that may use a network; `makers` are those that nobody else follows, `MAKERS` and `MADE`."""

    machines: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    pods: Informer[Pod]
    makers: tuple[Informer[Any], ...]

    def all(self) -> tuple[Informer[Any], ...]:
        """Every informer; a view is whole when each is synced."""
        return (self.machines, self.instances, self.pods, *self.makers)


def user_informers(
    client: Client,
    rng: random.Random,
    *,
    machines: Informer[VirtualMachine],
    instances: Informer[VirtualMachineInstance],
    pods: Informer[Pod],
) -> UserInformers:
    """The informers, with the index by which users are found; those given, which follow all namespaces, get it, too."""
    indexes = {REFERENCES: index_values}
    makers = tuple(
        Informer(client, resource, rng=rng, indexes=indexes, optional=True) for resource in (*MAKERS, *MADE)
    )
    for store in (machines.store, instances.store, pods.store):
        store.add_index(REFERENCES, index_values)
    return UserInformers(machines, instances, pods, makers)


def index_values(item: Object) -> tuple[str, ...]:
    """The values of an object in the index."""
    return tuple(map(str, references_of(item).marks))


def values_of(nad: Key) -> tuple[str, ...]:
    """The values under which everybody is found who may use a NAD."""
    return tuple(map(str, marks_of(nad)))
