"""What is watched of those who may use networks. Virtual machines and pods are followed for other features as well."""

import random
from typing import Any

from msgspec import Struct

from lanloom.api.core import Pod
from lanloom.api.kubevirt import VirtualMachine, VirtualMachineInstance
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client


class UserInformers(Struct, frozen=True):
    """Every kind that may use a network; the first three are shared with others."""

    machines: Informer[VirtualMachine]
    instances: Informer[VirtualMachineInstance]
    pods: Informer[Pod]

    def own(self) -> tuple[Informer[Any], ...]:
        """The informers that nobody else runs."""
        return ()

    def all(self) -> tuple[Informer[Any], ...]:
        """Every informer; a view is whole when each is synced."""
        return (self.machines, self.instances, self.pods, *self.own())


def user_informers(
    client: Client,
    rng: random.Random,
    *,
    machines: Informer[VirtualMachine],
    instances: Informer[VirtualMachineInstance],
    pods: Informer[Pod],
) -> UserInformers:
    """The informers, with the index by which users are found; those given get it, too."""
    return UserInformers(machines, instances, pods)
