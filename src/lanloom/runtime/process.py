"""How a long-running process starts and ends.

SIGTERM and SIGINT cancel it, and a cancelled one ends cleanly.

A process that runs out of memory ends at once. Where an allocation fails is chance: in a callback of asyncio or of TLS,
say, that has no caller to tell. Such a process would live on without doing its work, and answer no request. Its
supervisor starts it again with all its memory. Nothing is lost by that: every process is built for a sudden death.
"""

import asyncio
import contextlib
import gc
import os
import signal
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn

STATUS = os.EX_OSERR
"""The exit status of such a process."""

End = Callable[[], object]
"""Ends the process."""

_LINE = (
    b'{"event": "out of memory", "level": "critical", '
    b'"message": "the process ends so that its supervisor starts it again"}\n'
)
"""A line of the log that needs no memory, and so has no time."""


def run_process(
    main: Coroutine[Any, Any, None], loop_factory: Callable[[], asyncio.AbstractEventLoop] | None = None
) -> None:
    """Run `main` until it ends or a signal asks for the end, in asyncio's own loop or another one."""
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(_until_signalled(main))


async def _until_signalled(main: Coroutine[Any, Any, None]) -> None:
    task = asyncio.ensure_future(main)
    loop = asyncio.get_running_loop()
    end_with_loop(loop)
    stopping = False

    def stop() -> None:
        nonlocal stopping
        stopping = True
        task.cancel()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop)
    try:
        await task
    except asyncio.CancelledError:
        if not stopping:
            raise
    except (MemoryError, BaseExceptionGroup) as error:
        if is_out_of_memory(error):
            end_process()
        raise


def expect_requests() -> None:
    """Let the garbage collector wait for more new objects than Python's 700, which a few dozen requests have together.

    Else it looks through each batch of requests while they are served: a fifth of the time of a write. So many objects
    take some megabytes, which an agent had better not.
    """
    gc.set_threshold(10_000)


def first_of(errors: ExceptionGroup[Exception], *kinds: type[Exception]) -> Exception:
    """Return the first error of a group, to be reported to a user in its place.

    Raises the group if it has others than `kinds`.
    """
    expected, others = errors.split(kinds)
    if expected is None or others is not None:
        raise errors
    error: Exception = expected
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error


def end_process() -> NoReturn:
    """End the process at once, with a line on standard error. It needs no memory and runs no handlers."""
    with contextlib.suppress(OSError):
        os.write(2, _LINE)
    os._exit(STATUS)


def is_out_of_memory(error: object) -> bool:
    """Return whether an exception is a MemoryError, or a group with one in it."""
    if isinstance(error, BaseExceptionGroup):
        return any(is_out_of_memory(each) for each in error.exceptions)
    return isinstance(error, MemoryError)


def end_with_loop(loop: asyncio.AbstractEventLoop, end: End = end_process) -> None:
    """End the process when a callback or a forgotten task of the loop runs out of memory."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if is_out_of_memory(context.get("exception")):
            end()
        loop.default_exception_handler(context)

    loop.set_exception_handler(handle)
