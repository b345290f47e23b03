"""Watches of many agents that begin at once, or come back at once, at a server that takes only so many requests.

`python -m bench.largereturn 5000` plays so many agents in virtual time, with one watch each. It shows how many requests
they make in the busiest second, how many are answered in one, how many each makes, and when the last of them watches:

* `start`: all begin at the same moment, and all are let in.
* `return`: a server that all of them watch is away for a minute.
* `crowd`: all begin at once, and the server lets 100 in each second; it answers 429 to all others.
"""

import asyncio
import json
import logging
import math
import sys
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from random import Random
from typing import Any

import structlog

from lanloom.api.lan import LAN_NODES
from lanloom.kube.errors import KubeError, TransportError, from_status
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Listing, WatchEvent
from tests.harness.virtual import START, run

AWAY_SECONDS = 60.0
LET_IN = 100
"""Requests that a crowded server takes in each second."""


class Door:
    """A server that lets requests in, or not; it has no objects."""

    def __init__(self, refuses: Callable[[int, float], KubeError | None]) -> None:
        self._refuses = refuses
        self.asked: Counter[int] = Counter()
        self.served: Counter[int] = Counter()
        self.last = 0.0
        self.falls = asyncio.Event()

    def _enter(self) -> None:
        now = asyncio.get_running_loop().time() - START
        second = math.floor(now)
        self.asked[second] += 1
        if (error := self._refuses(self.asked[second], now)) is not None:
            raise error
        self.served[second] += 1
        self.last = now

    async def get(self, *_words: Any, **_more: Any) -> Any:
        """Return no object: informers ask for none."""
        raise NotImplementedError

    async def list(self, *_words: Any, **_more: Any) -> Listing[Any]:
        """Return the empty list."""
        self._enter()
        return Listing((), "1")

    async def watch(self, *_words: Any, **_more: Any) -> AsyncGenerator[WatchEvent[Any], None]:
        """Bring nothing until the server falls."""
        self._enter()
        await self.falls.wait()
        raise TransportError("the connection was closed")
        yield


async def _play(agents: int, door: Door, falls: bool) -> dict[str, float]:
    tasks = [
        asyncio.create_task(Informer(door, LAN_NODES, rng=Random(number)).run()) for number in range(agents)
    ]
    if falls:
        await asyncio.sleep(1.5)
        door.asked.clear()
        door.served.clear()
        door.falls.set()
        await asyncio.sleep(0)
        door.falls = asyncio.Event()
    await asyncio.sleep(1000)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return {
        "requests in the busiest second": max(door.asked.values()),
        "answers in the busiest second": max(door.served.values()),
        "requests of an agent": door.asked.total() / agents,
        "until the last watches s": round(door.last, 1),
    }


def _crowded(number: int, _now: float) -> KubeError | None:
    return from_status(429, {"message": "too many requests"}) if number > LET_IN else None


def _away(_number: int, now: float) -> KubeError | None:
    return TransportError("connection refused") if 1.0 < now < AWAY_SECONDS else None


def main(agents: int) -> None:
    """Show the figures of all three."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    cases = {"start": (lambda *_: None, False), "return": (_away, True), "crowd": (_crowded, False)}

    async def case(refuses: Callable[[int, float], KubeError | None], falls: bool) -> dict[str, float]:
        return await _play(agents, Door(refuses), falls)

    print(json.dumps({name: run(case(*each)) for name, each in cases.items()}, indent=1))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 5000)
