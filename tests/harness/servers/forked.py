"""`lanloom` in processes that are forked from one that has imported everything.

A start of the interpreter with all imports takes more than a second of processor time, a fork takes some milliseconds.
The child runs the whole command line, has a process id of its own and dies of signals like any other.
"""

import multiprocessing
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import forkserver
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from typing import Literal

import lanloom_embedded.serve  # noqa: F401 - what children need not import
from lanloom.command import main

_CONTEXT = multiprocessing.get_context("forkserver")


@contextmanager
def forked(
    *words: str, stream: Literal["stdout", "stderr"] = "stdout"
) -> Iterator[tuple[ForkServerProcess, Connection]]:
    """A running `lanloom WORDS`, and what it writes to a stream; killed at the end if it still lives."""
    _start_server()
    reader, writer = _CONTEXT.Pipe(duplex=False)
    process = _CONTEXT.Process(target=_run, args=(words, writer, stream))
    process.start()
    writer.close()
    with reader:
        try:
            yield process, reader
        finally:
            process.kill()
            process.join()


def _start_server() -> None:
    """Start the process that forks, once. Its interpreter finds modules by the environment only."""
    _CONTEXT.set_forkserver_preload([__name__])
    former = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
    try:
        forkserver.ensure_running()
    finally:
        if former is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = former


def _run(words: tuple[str, ...], writer: Connection, stream: str) -> None:
    # Not the descriptor below the old stream: that one may think it is a file, as pytest's are.
    setattr(sys, stream, os.fdopen(os.dup(writer.fileno()), "w"))
    sys.argv = ["lanloom", *words]
    main()
