"""Two transcripts side by side: where they differ, field by field.

The two servers share nothing, so a case runs on both at the same time.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from msgspec import Struct

from tests.embedded.cases.kit.normal import normalise
from tests.embedded.cases.kit.wire import Json

ABSENT = "(absent)"


class Difference(Struct, frozen=True):
    """One field with two values. `where` is a path as `2/body/metadata/name`; the number is the transcript's entry."""

    where: str
    step: str
    real: Any
    embedded: Any

    def __str__(self) -> str:
        return f"{self.where}  ({self.step})\n    real:     {self.real!r}\n    embedded: {self.embedded!r}"


def differences(real: list[Json], embedded: list[Json]) -> list[Difference]:
    """All differing fields of two normalised transcripts."""
    found: list[Difference] = []
    for index in range(max(len(real), len(embedded))):
        one: Json = real[index] if index < len(real) else ABSENT
        other: Json = embedded[index] if index < len(embedded) else ABSENT
        step = (one if one is not ABSENT else other)["step"]
        found += [Difference(where, step, *values) for where, *values in _walk(str(index), one, other)]
    return found


def _walk(where: str, real: Json, embedded: Json) -> Iterator[tuple[str, Json, Json]]:
    if isinstance(real, dict) and isinstance(embedded, dict):
        for name in sorted(real.keys() | embedded.keys()):
            yield from _walk(f"{where}/{name}", real.get(name, ABSENT), embedded.get(name, ABSENT))
    elif isinstance(real, list) and isinstance(embedded, list) and len(real) == len(embedded):
        for index, (one, other) in enumerate(zip(real, embedded, strict=True)):
            yield from _walk(f"{where}/{index}", one, other)
    elif real != embedded or type(real) is not type(embedded):
        yield where, real, embedded


Run = Callable[[], list[Json]]


def compared(real: Run, embedded: Run) -> list[Difference]:
    """Run a case on both servers, and compare the transcripts."""
    with ThreadPoolExecutor(max_workers=1) as pool:
        other = pool.submit(embedded)
        return differences(normalise(real()), normalise(other.result()))
