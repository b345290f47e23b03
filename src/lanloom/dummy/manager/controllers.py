"""The controllers of DummyClusterNetworks, and what wakes them."""

import random
from collections.abc import Callable

from lanloom.dummy.manager.informers import DummyInformers
from lanloom.dummy.rules.model import Settings
from lanloom.dummy.users import Users
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.events import Recorder
from lanloom.kube.ports import Client


class DummyManager:
    """The controllers. They run on the leader only; the informers run on every replica."""

    def __init__(
        self,
        client: Client,
        informers: DummyInformers,
        users: Users,
        recorder: Recorder,
        settings: Callable[[], Settings],
        *,
        now: Callable[[], float],
        rng: random.Random,
        observe: Observer[str] | None = None,
    ) -> None:
        raise NotImplementedError

    @property
    def controllers(self) -> tuple[Controller[str], ...]:
        """The queues and workers, to be looked at."""
        raise NotImplementedError

    def look_at_all(self) -> None:
        """Wants every network looked at: the settings changed."""
        raise NotImplementedError

    async def run(self) -> None:
        """Runs until cancelled; looks at everything once, because events of the time before are not known."""
        raise NotImplementedError
