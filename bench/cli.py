"""What the command line needs to say what it can do, and to list: people wait for it, and so does each completion."""

import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from statistics import median
from tempfile import TemporaryDirectory

from bench.cost import Cost, Stopwatch
from bench.report import Row

LANLOOM = Path(sys.executable).with_name("lanloom")
ROUNDS = 15
HELP_LIMIT, LIST_LIMIT = 4.0, 8.0
"""Times what Python alone needs. Where that takes 11 ms, a list takes 0.11 s at the most."""


def rows() -> list[Row]:
    """Return the CPU time of a help and of a list, each against that of a Python that does nothing."""
    with _cluster() as environment:
        return [
            _row("lanloom --help", HELP_LIMIT, {}, "--help"),
            _row("lanloom network list", LIST_LIMIT, environment, "network", "list"),
        ]


def _row(name: str, limit: float, environment: Mapping[str, str], *words: str) -> Row:
    command, bare = [], []
    _cost(environment, str(LANLOOM), *words)  # leaves byte code behind, as an installation does
    for _ in range(ROUNDS):  # in turns, so that a busy machine is busy for both
        command.append(_cost(environment, str(LANLOOM), *words))
        bare.append(_cost({}, sys.executable, "-c", "pass"))
    ours, python = (median(cost.cpu * 1000 for cost in costs) for costs in (command, bare))
    by_clock, python_by_clock = (median(cost.wall * 1000 for cost in costs) for costs in (command, bare))
    return Row(
        name=f"{name}, against Python alone",
        measured=ours / python,
        limit=limit,
        unit="×",
        note=f"{ours:.0f} ms of CPU against {python:.0f} ms, medians of {ROUNDS}; "
        f"by the clock {by_clock:.0f} ms against {python_by_clock:.0f} ms",
    )


@contextmanager
def _cluster() -> Iterator[Mapping[str, str]]:
    """Provide a server without networks, and the environment by which a command finds it."""
    with TemporaryDirectory() as directory:
        kubeconfig = str(Path(directory, "kubeconfig"))
        data = str(Path(directory, "data.db"))
        words = [str(LANLOOM), "serve", "--no-manager", "--data", data, "--kubeconfig", kubeconfig]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
            try:
                assert server.stdout is not None
                if "ready" not in server.stdout.readline():
                    raise RuntimeError("lanloom serve ended before it served anything")
                yield {"KUBECONFIG": kubeconfig}
            finally:
                server.terminate()


def _cost(environment: Mapping[str, str], *words: str) -> Cost:
    watch = Stopwatch(_children)
    inherited = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, env={**inherited, **environment})
    return watch.cost()


def _children() -> float:
    """Seconds of CPU of all programs that have ended."""
    used = getrusage(RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
