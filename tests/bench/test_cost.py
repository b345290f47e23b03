"""What a benchmark takes off the clock's time."""

import os

from bench.cost import kept_waiting


def test_waits_of_a_process() -> None:
    """The time that processes are kept waiting only grows, and one that has ended adds nothing to it."""
    before = kept_waiting(os.getpid())
    ended = os.posix_spawn("/bin/true", ["true"], {})
    os.waitpid(ended, 0)
    after = kept_waiting(os.getpid(), ended)
    assert 0 <= before <= after
    assert kept_waiting(ended) == 0
