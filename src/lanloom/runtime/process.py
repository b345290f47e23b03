"""How a long-running process starts and ends.

SIGTERM and SIGINT cancel it, and a cancelled one ends cleanly. One that runs out of memory ends at once.
"""

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any

from lanloom.runtime.outofmemory import end_process, end_with_loop, is_out_of_memory


def run_process(
    main: Coroutine[Any, Any, None], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Runs `main` until it ends or a signal asks for the end, in asyncio's own loop or another one."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_until_signalled(main))


async def _until_signalled(main: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(main)
    loop = asyncio.get_running_loop()
    end_with_loop(loop)
    asked = False

    def stop() -> None:
        nonlocal asked
        asked = True
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not asked:
            raise
    except (MemoryError, BaseExceptionGroup) as error:
        if is_out_of_memory(error):
            end_process()
        raise


def first_of(errors: ExceptionGroup[Exception], *kinds: type[Exception]) -> Exception:
    """The first error of a group, to be told to a user in its place. Raises the group if it has others than `kinds`."""
    expected, others = errors.split(kinds)
    if expected is None or others is not None:
        raise errors
    error: Exception = expected
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
