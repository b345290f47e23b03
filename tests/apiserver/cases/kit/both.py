"""The two servers at once: they share nothing, so a case runs on both at the same time."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from tests.apiserver.cases.kit.compare import Difference, differences
from tests.apiserver.cases.kit.normal import normalise
from tests.apiserver.cases.kit.wire import Json

Run = Callable[[], list[Json]]


def compared(real: Run, embedded: Run) -> list[Difference]:
    """Run a case on both servers, and compare the transcripts."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        other = pool.submit(embedded)
        return differences(normalise(real()), normalise(other.result()))
