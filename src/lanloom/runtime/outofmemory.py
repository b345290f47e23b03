"""The end of a process that ran out of memory.

Where an allocation fails is chance: in a callback of asyncio or of TLS, say, that has no caller to tell. Such a process
lives on without doing its work, and answers nobody. So it ends at once, and its supervisor starts it again with all its
memory. Nothing is lost by that: every process is built for a sudden death.
"""

import asyncio
import contextlib
import os
from collections.abc import Callable
from typing import Any, NoReturn

STATUS = os.EX_OSERR
"""The exit status of such a process."""

End = Callable[[], object]
"""Ends the process."""

_LINE = b"lanloom: out of memory; the process ends so that its supervisor starts it again\n"


def end_process() -> NoReturn:
    """End the process at once, with a line on standard error. It needs no memory and runs no handlers."""
    with contextlib.suppress(OSError):
        os.write(2, _LINE)
    os._exit(STATUS)


def is_out_of_memory(error: object) -> bool:
    """Whether an exception is a MemoryError, or a group with one in it."""
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
