"""The controllers of a manager: they begin together, once its informers have read the cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from random import Random
from typing import Any, TypeVar

from lanloom.kube.controller import Controller, Observer
from lanloom.kube.informer import Informer, all_synced
from lanloom.kube.refusals import Refusals

K = TypeVar("K")


class ControllerSet:
    """Controllers with the same informers and random numbers. `observe` receives each reconcile."""

    def __init__(
        self,
        informers: Callable[[], Iterable[Informer[Any]]],
        *,
        rng: Random,
        observe: Observer[Any] | None = None,
    ) -> None:
        self.all: tuple[Controller[Any], ...] = ()
        self._informers = informers
        self._rng = rng
        self._observe = observe

    def add(
        self,
        name: str,
        reconcile: Callable[[K], Awaitable[float | None]],
        *,
        workers: int = 1,
        spacing: float = 0.0,
        in_hand: int = 0,
        refusals: Refusals[K] | None = None,
    ) -> Controller[K]:
        """Return a new controller of the set, which `run` will run."""
        controller: Controller[K] = Controller(
            name,
            reconcile,
            rng=self._rng,
            workers=workers,
            spacing=spacing,
            in_hand=in_hand,
            observe=self._observe,
            refusals=refusals,
        )
        self.all += (controller,)
        return controller

    async def run(self, enqueue_all: Callable[[], None]) -> None:
        """Run until cancelled; look at everything once, because events of the time before are not known."""
        await all_synced(self._informers())
        enqueue_all()
        async with asyncio.TaskGroup() as group:
            for controller in self.all:
                group.create_task(controller.run())
