"""What programs in Python show by names that dashboards know: the process, its Python, its garbage collector."""

import gc
import os
import platform
import resource
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from lanloom.runtime.exposition import Metric, Sample


class ProgramMetrics:
    """A collector of them. `proc` is where /proc is, `process` the folder of the process there."""

    def __init__(self, proc: Path = Path("/proc"), process: str = "self") -> None:
        self._proc, self._process = proc, proc / process
        self._boot = 0.0
        with suppress(OSError):
            lines = (proc / "stat").read_text().splitlines()
            self._boot = next((float(line.split()[1]) for line in lines if line.startswith("btime ")), 0.0)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as of now; without /proc, those of Python alone."""
        if self._boot:
            with suppress(OSError):
                yield from self._usage()
            with suppress(OSError):
                yield from self._files()
        yield _python()
        yield from _garbage()

    def _usage(self) -> Iterator[Metric]:
        fields = (self._process / "stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        yield _single("process_virtual_memory_bytes", "Virtual memory size in bytes.", float(fields[20]))
        yield _single(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            float(fields[21]) * resource.getpagesize(),
        )
        yield _single(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            float(fields[19]) / ticks + self._boot,
        )
        yield _single(
            "process_cpu_seconds",
            "Total user and system CPU time spent in seconds.",
            float(fields[11]) / ticks + float(fields[12]) / ticks,
            "counter",
        )

    def _files(self) -> Iterator[Metric]:
        limits = (self._process / "limits").read_text().splitlines()
        most = next(float(line.split()[3]) for line in limits if line.startswith("Max open file"))
        opened = len(os.listdir(self._process / "fd"))  # noqa: PTH208 - only the number
        yield _single("process_open_fds", "Number of open file descriptors.", opened)
        yield _single("process_max_fds", "Maximum number of open file descriptors.", most)


def _single(name: str, documentation: str, value: float, type: str = "gauge") -> Metric:
    suffix = "_total" if type == "counter" else ""
    return Metric(name, documentation, type, [Sample(name + suffix, {}, value)])


def _python() -> Metric:
    major, minor, patch = platform.python_version_tuple()
    labels = {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "major": major,
        "minor": minor,
        "patchlevel": patch,
    }
    return Metric("python_info", "Python platform information", "gauge", [Sample("python_info", labels, 1)])


def _garbage() -> Iterator[Metric]:
    stats = gc.get_stats()
    for name, key, text in (
        ("objects_collected", "collected", "Objects collected during gc"),
        ("objects_uncollectable", "uncollectable", "Uncollectable objects found during GC"),
        ("collections", "collections", "Number of times this generation was collected"),
    ):
        full = f"python_gc_{name}"
        samples = [
            Sample(f"{full}_total", {"generation": str(number)}, stat[key])
            for number, stat in enumerate(stats)
        ]
        yield Metric(full, text, "counter", samples)
