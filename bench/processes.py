"""Processes that a benchmark starts: where they serve, what they print, and why they failed."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from bench.cost import cpu_of


class Server(NamedTuple):
    """A process that serves, and its port."""

    process: int
    port: int

    def cpu(self) -> float:
        """Seconds of CPU that it has used."""
        return cpu_of(self.process)


@contextmanager
def serving(module: str, *numbers: int) -> Iterator[Server]:
    """Provide a module of ours as a process that prints its port when it is ready."""
    words = [sys.executable, "-m", module, *map(str, numbers)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = process.stdout.readline().strip()
            if not port:
                raise RuntimeError(f"{module} ended before it served anything")
            yield Server(process.pid, int(port))
        finally:
            process.kill()


def printed(words: Sequence[str], seconds: float) -> str:
    """Return what a program prints; raises RuntimeError with the last line of its complaints if it fails."""
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds, check=False)
    sys.stderr.write(done.stderr)
    if done.returncode:
        said = [text for line in done.stderr.splitlines() if (text := line.strip(" |+-"))]
        raise RuntimeError(said[-1] if said else f"{words[0]} ended with exit status {done.returncode}")
    return done.stdout
