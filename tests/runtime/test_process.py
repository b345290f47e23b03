"""A process that ran out of memory ends, wherever that was."""

import asyncio
import subprocess
import sys
from random import Random

import pytest

from lanloom.kube.controller import Controller
from lanloom.runtime.process import STATUS, end_with_loop, is_out_of_memory


def test_groups_are_searched() -> None:
    """A MemoryError is found in groups of groups, and nothing else is taken for one."""
    nested = BaseExceptionGroup("a", [ValueError(), BaseExceptionGroup("b", [MemoryError()])])
    assert is_out_of_memory(MemoryError())
    assert is_out_of_memory(nested)
    assert not is_out_of_memory(ExceptionGroup("a", [ValueError()]))
    assert not is_out_of_memory(None)


async def test_callbacks_and_forgotten_tasks_end_the_process() -> None:
    """A callback and a task that is not awaited end the process by a MemoryError, and by nothing else."""
    loop, ended = asyncio.get_running_loop(), 0

    def end() -> None:
        nonlocal ended
        ended += 1

    def fail(error: Exception) -> None:
        raise error

    end_with_loop(loop, end)
    loop.call_soon(fail, MemoryError())
    loop.call_soon(fail, ValueError("expected by this test"))
    await asyncio.sleep(0)
    assert ended == 1


async def test_a_reconcile_that_runs_out_of_memory_is_not_retried() -> None:
    """A controller ends with the MemoryError of its reconcile, so that its process does."""

    async def reconcile(_key: str) -> None:
        raise MemoryError

    controller = Controller("test", reconcile, rng=Random(0))
    controller.enqueue("a")
    with pytest.raises(BaseExceptionGroup) as ended:
        await controller.run()
    assert is_out_of_memory(ended.value)


MAINS = {
    "main": "raise MemoryError",
    "task": "async with asyncio.TaskGroup() as group: group.create_task(fail())",
    "callback": "asyncio.get_running_loop().call_soon(bytearray, 1 << 60); await asyncio.Event().wait()",
}


@pytest.mark.parametrize("name", MAINS)
def test_the_exit_status_tells(name: str) -> None:
    """The process ends with a status of its own and says why on standard error."""
    program = (
        "import asyncio\nfrom lanloom.runtime.process import run_process\n"
        "async def fail():\n    raise MemoryError\n"
        f"async def main():\n    {MAINS[name]}\nrun_process(main())"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    assert (done.returncode, "out of memory" in done.stderr) == (STATUS, True)
