"""What the command line needs to say what it can do: people wait for it, and so does each completion."""

import subprocess
import sys
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median

from bench.cost import Cost, Stopwatch
from bench.report import Row

LANLOOM = Path(sys.executable).with_name("lanloom")
ROUNDS = 15
LIMIT = 8.0
"""Times what Python alone needs."""


def rows() -> list[Row]:
    """The CPU time of `lanloom --help`, against that of a Python that does nothing."""
    helps, bare = [], []
    for _ in range(ROUNDS):  # in turns, so that a busy machine is busy for both
        helps.append(_cost(str(LANLOOM), "--help"))
        bare.append(_cost(sys.executable, "-c", "pass"))
    ours, python = (median(cost.cpu * 1000 for cost in costs) for costs in (helps, bare))
    by_clock, python_by_clock = (median(cost.wall * 1000 for cost in costs) for costs in (helps, bare))
    return [
        Row(
            name="lanloom --help, against Python alone",
            measured=ours / python,
            limit=LIMIT,
            unit="×",
            note=f"{ours:.0f} ms of CPU against {python:.0f} ms, medians of {ROUNDS}; "
            f"by the clock {by_clock:.0f} ms against {python_by_clock:.0f} ms",
        )
    ]


def _cost(*words: str) -> Cost:
    watch = Stopwatch(_children)
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return watch.cost()


def _children() -> float:
    """Seconds of CPU of all programs that have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
