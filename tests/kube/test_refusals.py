"""Which failures are refusals, and how often they are reported."""

import asyncio
from random import Random

import pytest

from lanloom.kube.controller import Controller
from lanloom.kube.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    Forbidden,
    Invalid,
    KubeError,
    NotFound,
    ServerError,
    TransportError,
    Unreachable,
)
from lanloom.kube.refusals import LASTING_SECONDS, OTHER_SECONDS, REPEAT_SECONDS
from tests.harness.virtual import run


class RecordedRefusals:
    """What was reported of a key, with the seconds since the start; the first `lost` reports are not written."""

    def __init__(self, lost: int = 0) -> None:
        self.refusals: list[float] = []
        self.accepted_at: list[float] = []
        self._lost = lost
        self._start = asyncio.get_running_loop().time()

    async def refused(self, key: str, error: ApiError) -> None:
        """As Refusals says."""
        if self._lost:
            self._lost -= 1
            raise Unreachable("connection refused")
        self.refusals.append(asyncio.get_running_loop().time() - self._start)

    async def accepted(self, key: str) -> None:
        """As Refusals says."""
        self.accepted_at.append(asyncio.get_running_loop().time() - self._start)


def told(errors: list[KubeError | None], *, seconds: float, lost: int = 0) -> RecordedRefusals:
    """What is reported of a reconcile that ends with these errors, the last of them again and again."""

    async def main() -> RecordedRefusals:
        found = RecordedRefusals(lost)
        left = list(errors)

        async def reconcile(_key: str) -> None:
            error = left.pop(0) if len(left) > 1 else left[0]
            if error is not None:
                raise error

        controller = Controller("test", reconcile, rng=Random(1), refusals=found)
        controller.enqueue("a")
        task = asyncio.create_task(controller.run())
        await asyncio.sleep(seconds)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        return found

    return run(main())


REFUSALS = [BadRequest(400, "", "x"), Forbidden(403, "", "x"), Invalid(422, "", "x"), ApiError(413, "", "x")]
AWAY = ServerError(500, "InternalError", "failed calling webhook")


@pytest.mark.parametrize("error", REFUSALS)
def test_a_refusal_is_told_at_once(error: ApiError) -> None:
    """What the server says about the request itself is reported at once, and again as long as it goes on."""
    found = told([error], seconds=10 * REPEAT_SECONDS)
    assert found.refusals[0] == 0
    assert 3 <= len(found.refusals) <= 11 and not found.accepted_at


def test_a_server_error_is_told_when_it_lasts() -> None:
    """An error of the server is reported after some seconds of nothing else."""
    found = told([AWAY], seconds=60)
    assert LASTING_SECONDS <= found.refusals[0] <= 3 * LASTING_SECONDS
    assert not told([AWAY, AWAY, AWAY, None], seconds=60).refusals


@pytest.mark.parametrize(
    "error",
    [Conflict(409, "", "x"), AlreadyExists(409, "", "x"), NotFound(404, "", "x"), TransportError("x")],
)
def test_what_is_no_refusal(error: KubeError) -> None:
    """Races, objects that are gone, and a server that does not answer are never told."""
    assert not told([error], seconds=600).refusals


def test_an_outage_between_two_errors() -> None:
    """A server that is away in between, as one that restarts, restarts the time."""
    errors = [AWAY, TransportError("x")] * 5
    assert not told([*errors, None], seconds=60).refusals


def test_another_reason() -> None:
    """A refusal with another text is reported soon, but not each of those whose text is never the same."""
    found = told([REFUSALS[0], *(Invalid(422, "", "y") for _ in range(50))], seconds=REPEAT_SECONDS)
    assert len(found.refusals) == 2 and found.refusals[1] >= OTHER_SECONDS
    errors: list[KubeError | None] = [Invalid(422, "", f"took {number} ms") for number in range(1000)]
    assert len(told(errors, seconds=600).refusals) <= 600 / OTHER_SECONDS + 1


def test_the_end_is_told() -> None:
    """That the writes go through again is reported; a report that is lost is repeated with the next failure."""
    found = told([REFUSALS[0], REFUSALS[0], None], seconds=1, lost=1)
    assert len(found.refusals) == 1 and len(found.accepted_at) == 1
