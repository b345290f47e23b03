"""What is watched of NICs' owners, and by which name NICs and pods are found."""

import random
from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from lanloom.api.core import PODS, Pod
from lanloom.api.ipam import POD, VIRTUAL_MACHINE
from lanloom.api.kubevirt import VIRTUAL_MACHINES, VirtualMachine, VirtualMachineInstance, instance_of
from lanloom.api.leanpod import lean
from lanloom.ipam.rules.model import Owner
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client

BY_INSTANCE = "instance"
"""The index of the store of pods: `namespace/name` of the machine that runs in each."""


class OwnerInformers(Struct, frozen=True):
    """What may own NICs and come to an end by itself."""

    pods: Informer[Pod]
    machines: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]

    def all(self) -> tuple[Informer[Any], ...]:
        """Every informer, to be run."""
        return (self.pods, self.machines, self.instances)


def owner_informers(
    client: Client, instances: Informer[VirtualMachineInstance], rng: random.Random
) -> OwnerInformers:
    """The informers, with their indexes; that of running machines is shared with other features."""
    return OwnerInformers(
        pods=Informer(client, PODS, rng=rng, indexes={BY_INSTANCE: _instances}, keep=lean),
        machines=Informer(client, VIRTUAL_MACHINES, rng=rng, optional=True),
        instances=instances,
    )


def owners_of_pod(pod: Pod) -> Iterator[Owner]:
    """The owners that a pod may be: itself, and the machine that runs in it."""
    namespace = pod.metadata.namespace
    yield Owner(kind=POD, namespace=namespace, name=pod.metadata.name)
    name, _ = instance_of(pod)
    if name:
        yield Owner(kind=VIRTUAL_MACHINE, namespace=namespace, name=name)


def _instances(pod: Pod) -> tuple[str, ...]:
    name, _ = instance_of(pod)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()
