"""One course of events, from a seed to its end: what the simulations of all features have in common."""

import asyncio
import re
import warnings
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol

import pytest

from tests.sim.processes import Process


class Harm(AssertionError):
    """What the protections of a feature prevent has happened."""


class Ending(Protocol):
    """A part of a cluster that may end by itself, which none should."""

    crashes: list[BaseException]


class Course(Protocol):
    """A cluster to which something happens."""

    journal: list[str]
    processes: dict[str, Process]

    async def misfortunes(self) -> None:
        """Let one thing after the other happen until cancelled."""
        ...

    async def heal(self) -> None:
        """End all faults; whatever is down comes up."""
        ...

    async def close(self) -> None:
        """End everything."""
        ...


@asynccontextmanager
async def ending(cluster: Course) -> AsyncIterator[None]:
    """Close a cluster at the end; an error tells what happened before it."""
    try:
        yield
    except BaseException as error:
        error.add_note("\n".join(cluster.journal[-300:]))
        raise
    finally:
        await cluster.close()


async def disturb(cluster: Course, act: Awaitable[None], *others: Coroutine[Any, Any, None]) -> None:
    """Let misfortunes, and `others`, happen while users act. All faults end after that."""
    chaos = [asyncio.create_task(each) for each in (cluster.misfortunes(), *others)]
    await act
    for task in chaos:
        task.cancel()
    await asyncio.gather(*chaos, return_exceptions=True)
    await cluster.heal()


async def rest(
    complaints: Callable[[], Awaitable[Sequence[str]]], harm: Sequence[str], waits: Iterable[float]
) -> None:
    """Wait until nothing is wrong. Raises Harm, and AssertionError with what is still wrong after the last wait."""
    found: Sequence[str] = ()
    for seconds in waits:
        check(harm)
        await asyncio.sleep(seconds)
        found = await complaints()
        if not found:
            return
    raise AssertionError("\n".join(found))


def check(harm: Sequence[str]) -> None:
    """Raise Harm if there was any."""
    if harm:
        raise Harm(harm[0])


def check_processes(processes: Iterable[Ending]) -> None:
    """Raise AssertionError if a process ended by itself."""
    crashes = [error for process in processes for error in process.crashes]
    assert not crashes, crashes


def find_harm(play: Callable[[int], object], *, first: int, schedules: int, finding: str = "") -> None:
    """Play schedules without a protection until they do the harm that it prevents. Fails if none does.

    The search begins where the last one ended, at `first`: a change of the product may need another schedule. A warning
    names that, because a search through many takes minutes.
    """
    for seed in (*range(first, schedules), *range(first)):
        try:
            play(seed)
        except Harm as harm:
            if re.search(finding, str(harm)):
                if seed != first:
                    warnings.warn(
                        f"the harm is in schedule {seed}: begin there, not at {first}", stacklevel=2
                    )
                return
        except AssertionError:
            continue  # what else goes wrong is reported by the other tests
    pytest.fail("no harm was found")
