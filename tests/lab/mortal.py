#!/usr/bin/python3
"""Runs on a node in the place of `lanloom`: many short lives of the agent, each ended by SIGKILL after a random time.

Lanloom is imported once and each life is a fork, so that what is hit is the agent at work and not Python at its
imports. Once /run/mercy is there, the next life is not ended any more.

    mortal.py SEED [agent's arguments…]
"""

import os
import random
import signal
import sys
import time
from pathlib import Path

from lanloom.command import main
from lanloom.kube import http
from lanloom.node import host
from lanloom.processes import agent
from lanloom.runtime import process

MERCY = Path("/run/mercy")
KILLS = Path("/run/kills")
WARM = (agent, host, http, process)


def life(words: list[str]) -> int:
    """Begins a life; its PID."""
    pid = os.fork()
    if pid == 0:
        sys.argv = ["lanloom", *words]
        main()
        os._exit(1)
    return pid


def span(rng: random.Random) -> float:
    """Seconds to live: mostly the first moments, where there is most to do."""
    return rng.uniform(0.05, 0.9) if rng.random() < 0.75 else rng.uniform(0.9, 2.5)


def run(seed: str, words: list[str]) -> None:
    """Life after life; /run/kills counts those that were ended."""
    rng = random.Random(seed)
    kills = 0
    while not MERCY.exists():
        pid = life(words)
        time.sleep(span(rng))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        kills += os.WIFSIGNALED(status)
        KILLS.write_text(str(kills))
    os.waitpid(life(words), 0)


if __name__ == "__main__":
    run(sys.argv[1], sys.argv[2:])
