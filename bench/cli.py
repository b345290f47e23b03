"""How long the command line takes to say what it can do: people wait for it, and so does each completion."""

import subprocess
import sys
import time
from pathlib import Path

from bench.report import Row

LANLOOM = Path(sys.executable).with_name("lanloom")
ROUNDS = 15
LIMIT_MS = 150


def rows() -> list[Row]:
    """The time of `lanloom --help`."""
    help_ms, bare_ms = [], []
    for _ in range(ROUNDS):  # in turns, so that a busy machine is busy for both
        help_ms.append(_milliseconds(str(LANLOOM), "--help"))
        bare_ms.append(_milliseconds(sys.executable, "-c", "pass"))
    return [
        Row(
            name="lanloom --help",
            measured=_median(help_ms),
            limit=LIMIT_MS,
            unit="ms",
            note=f"median of {ROUNDS}, best {min(help_ms):.0f} ms; Python alone {_median(bare_ms):.0f} ms",
        )
    ]


def _milliseconds(*words: str) -> float:
    started = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return (time.perf_counter() - started) * 1000


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
