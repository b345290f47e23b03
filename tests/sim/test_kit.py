"""The kit itself: dead is dead, and a seed is a course of events."""

import asyncio
import hashlib
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from tests.harness.virtual import run
from tests.sim.faults import Faults
from tests.sim.processes import Life, Process
from tests.sim.seeds import replay
from tests.sim.vlan_stories import play

ROOT = Path(__file__).parents[2]


def test_a_dead_process_has_no_effect() -> None:
    """After `kill -9` not even a `finally` block reaches the world; after SIGTERM it does."""
    effects: list[str] = []

    async def main(life: Life, name: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            life.check()
            effects.append(name)

    async def both() -> None:
        killed = Process("killed", lambda life: main(life, "killed"))
        stopped = Process("stopped", lambda life: main(life, "stopped"))
        for process in (killed, stopped):
            process.start()
        await asyncio.sleep(1)
        await killed.kill()
        await stopped.stop()

    run(both())
    assert effects == ["stopped"]


def test_death_comes_at_a_port() -> None:
    """A process that is to die at its third pass does exactly two things more, and can be started again."""
    done: list[int] = []

    async def main(life: Life) -> None:
        for number in range(5):
            await asyncio.sleep(1)
            life.check()
            done.append(number)
        await asyncio.Event().wait()

    async def play() -> None:
        process = Process("p", main)
        process.start()
        await process.kill_within(3, 60)
        assert not process.running
        assert done == [0, 1]
        process.start()
        await asyncio.sleep(10)
        await process.stop()

    run(play())
    assert done == [0, 1, 0, 1, 2, 3, 4]


def test_a_process_that_ends_by_itself_is_noticed() -> None:
    """A crash, and an end without a request, are remembered."""

    async def crash(_life: Life) -> None:
        raise ValueError("broken")

    async def end(_life: Life) -> None:
        return

    async def play() -> list[str]:
        processes = [Process("crash", crash), Process("end", end)]
        for process in processes:
            process.start()
        await asyncio.sleep(1)
        for process in processes:
            await process.stop()
        return [str(error) for process in processes for error in process.crashes]

    assert run(play()) == ["broken", "the process end ended by itself"]


def test_no_fault_strikes_after_the_bad_day() -> None:
    """Switched off, faults neither strike nor delay."""

    async def play() -> float:
        faults = Faults(Random(1))
        faults.on = False
        before = asyncio.get_running_loop().time()
        for _ in range(100):
            await faults.pause()
            faults.before("p")
            faults.after("p")
        return asyncio.get_running_loop().time() - before

    assert run(play()) == 0


def test_a_failing_seed_says_how_to_replay_it() -> None:
    """The error of a seed carries the command that plays it again."""
    with pytest.raises(AssertionError) as caught, replay(7, "tests/sim/test_vlan_stories.py"):
        raise AssertionError("the cluster does not come to rest")
    assert caught.value.__notes__ == [
        "replay it: LANLOOM_SEED=7 .venv/bin/pytest tests/sim/test_vlan_stories.py"
    ]


_PROGRAM = """
import hashlib, logging, structlog
structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
from tests.sim.vlan_stories import play
print(hashlib.sha256(play(17).encode()).hexdigest())
"""


@pytest.mark.slow
def test_a_seed_is_a_course_of_events() -> None:
    """The same seed plays alike in every process, whatever its hashes; another seed plays otherwise."""
    digests = {hashlib.sha256(play(17).encode()).hexdigest()}
    for salt in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": salt, "PYTHONPATH": f"{ROOT}/src:{ROOT}"}
        command = [sys.executable, "-c", _PROGRAM]
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=True, timeout=120
        )
        digests.add(done.stdout.strip())
    assert len(digests) == 1
    assert play(18) != play(17)
