"""Objects that are not there, told from kinds that a server does not serve."""

from typing import Any

import pytest

from lanloom.api.core import CRDS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.api.resource import Resource
from lanloom.kube.errors import ApiError, Forbidden, NotFound
from lanloom.kube.lookup import (
    cached_then_live,
    get_or_none,
    ignore_not_found,
    recheck,
)
from lanloom.refusals import Denied

KEY = Key("default", "vm")
UNSERVED = NotFound(404, "NotFound", "404 page not found")
FORBIDDEN = Forbidden(403, "Forbidden", "no")


def missing(name: str) -> NotFound:
    """What a server says that knows the kind."""
    return NotFound(404, "NotFound", f"{name} not found", {"details": {"name": name}})


class Server:
    """A server that answers with these errors where an object or a definition is asked for; None is an answer."""

    def __init__(self, machine: ApiError | None, definition: ApiError | None) -> None:
        self._errors = {VIRTUAL_MACHINES.kind: machine, CRDS.kind: definition}

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """As the port says."""
        error = self._errors[resource.kind]
        if error is not None:
            raise error
        return name


ABSENT = missing(VIRTUAL_MACHINES.full_name)
ANSWERS: dict[str, tuple[ApiError | None, ApiError | None, str | None]] = {
    "it is there": (None, None, "vm"),
    "there is none of that name": (missing("vm"), UNSERVED, None),
    "there is no such kind": (UNSERVED, ABSENT, None),
}


@pytest.mark.parametrize(("machine", "definition", "found"), ANSWERS.values(), ids=list(ANSWERS))
async def test_what_is_known(
    machine: ApiError | None, definition: ApiError | None, found: str | None
) -> None:
    """An object is there, or not because the server says so of it or has no definition of its kind."""
    assert await get_or_none(Server(machine, definition), VIRTUAL_MACHINES, KEY) == found  # type: ignore[arg-type, comparison-overlap]


UNKNOWN: dict[str, tuple[ApiError, ApiError | None, ApiError]] = {
    "its kind is defined and not served": (UNSERVED, None, UNSERVED),
    "definitions are not served either": (UNSERVED, UNSERVED, UNSERVED),
    "definitions are not for us to read": (UNSERVED, FORBIDDEN, FORBIDDEN),
    "it is not for us to read": (FORBIDDEN, None, FORBIDDEN),
}


@pytest.mark.parametrize(("machine", "definition", "error"), UNKNOWN.values(), ids=list(UNKNOWN))
async def test_what_can_not_be_known(machine: ApiError, definition: ApiError | None, error: ApiError) -> None:
    """A server that does not serve a kind yet says nothing of its objects."""
    with pytest.raises(type(error)) as caught:
        await get_or_none(Server(machine, definition), VIRTUAL_MACHINES, KEY)  # type: ignore[arg-type]
    assert caught.value is error


def test_gone_already() -> None:
    """Only who is said to be gone is let pass."""
    with ignore_not_found("vm"):
        raise missing("vm")
    for error in (missing("other"), UNSERVED, FORBIDDEN):
        with pytest.raises(type(error)), ignore_not_found("vm"):
            raise error


def _check(view: tuple[str, ...]) -> str:
    if "taken" in view:
        raise Denied(f"taken, says {view[0]}")
    return view[0]


async def test_what_a_cache_allows_is_allowed() -> None:
    """Nothing is read for what a cache allows."""

    async def read() -> tuple[str, ...]:
        raise AssertionError

    cached: tuple[str, ...] = ("cache",)
    assert await recheck(_check, cached_then_live(cached, read)) == "cache"


@pytest.mark.parametrize("live", [("live",), ("live", "taken")])
async def test_a_refusal_rests_on_what_was_read(live: tuple[str, ...]) -> None:
    """What a cache denies is allowed or denied by what is read then."""

    async def read() -> tuple[str, ...]:
        return live

    cached: tuple[str, ...] = ("cache", "taken")
    views = cached_then_live(cached, read)
    if "taken" in live:
        with pytest.raises(Denied, match="says live"):
            await recheck(_check, views)
    else:
        assert await recheck(_check, views) == "live"


@pytest.mark.parametrize(
    "key",
    [Key("default", ""), Key("", "vm"), Key("default", ".."), Key("default", "a/b"), Key("default", "a%2Fb")],
)
async def test_what_can_not_be(key: Key) -> None:
    """For a name that no object can have, the server is not asked: there is none."""
    assert await get_or_none(Server(UNSERVED, UNSERVED), VIRTUAL_MACHINES, key) is None  # type: ignore[arg-type]
