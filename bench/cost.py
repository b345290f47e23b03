"""What something costs: CPU time, on which limits are, and time by the clock, which notes give next to it."""

import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple


class Cost(NamedTuple):
    """Seconds of CPU, and by the clock."""

    cpu: float
    wall: float

    def each(self, count: int) -> "Cost":
        """Return what one of so many costs."""
        return Cost(self.cpu / count, self.wall / count)


class Stopwatch:
    """Runs from the moment it is made; `cpu` tells the CPU seconds that count, else they are this process's."""

    def __init__(self, cpu: Callable[[], float] = time.process_time) -> None:
        self._cpu = cpu
        self._started = Cost(cpu(), time.perf_counter())

    def cost(self) -> Cost:
        """Return what has been spent so far."""
        return Cost(self._cpu() - self._started.cpu, time.perf_counter() - self._started.wall)


def cpu_of(process: int) -> float:
    """Seconds of CPU that all threads of a process have used.

    The clock is that of clock_getcpuclockid(3). It is as fine as a process's own, where /proc counts in ticks of 10 ms.
    """
    return time.clock_gettime(~process << 3 | 2)


def kept_waiting(*processes: int) -> float:
    """Seconds in which the first threads of processes could have run while something else had the processors.

    A number may be that of another thread, too.

    What takes so long by the clock takes that much less on a machine with nothing else to do; see the kernel's
    sched-stats.rst. Without that figure of the kernel it is 0.
    """
    waited = 0
    for process in processes:
        with suppress(OSError):
            waited += int(Path(f"/proc/{process}/schedstat").read_text().split()[1])
    return waited / 1e9


def threads_kept_waiting() -> float:
    """Return the same of all threads of this process that are there."""
    return kept_waiting(*(int(each.name) for each in Path("/proc/self/task").iterdir()))
