"""What the manager's process gives to every feature that runs in it."""

import random
from collections.abc import Callable

from msgspec import Struct

from lanloom.kube.controller import Observer
from lanloom.kube.events import Recorder
from lanloom.kube.ports import Client


class Common(Struct, frozen=True, kw_only=True):
    """`identity` tells replicas apart: the name of the manager's own pod, where it runs in one.

    `now` gives seconds since the epoch; `observe` is told of each reconcile.
    """

    client: Client
    recorder: Recorder
    identity: str
    now: Callable[[], float]
    rng: random.Random
    observe: Observer[str]
