"""The log of a process: JSON lines, from every source."""

import json
import logging
import subprocess
import sys
from typing import Any

import pytest

from lanloom.runtime.logs import LINES, PERIOD_SECONDS, LibraryHandler

SPEAKERS = {
    "structlog": "import structlog; structlog.get_logger().warning('words', n=1)",
    "a logger": "logging.getLogger('uvicorn.error').error('words %d', 1)",
    "a logger that keeps to itself": "logging.getLogger('a').propagate = False; logging.getLogger('a').error('words')",
    "a record that can't be formatted": "logging.error('words %d', 'no number')",
    "an exception that was logged": "try: 1 / 0\n    except ZeroDivisionError: logging.exception('words')",
    "a warning": "import warnings; warnings.warn('words', RuntimeWarning)",
    "a thread": "thread = threading.Thread(target=lambda: 1 / 0); thread.start(); thread.join()",
    "a finalizer": "type('A', (), {'__del__': lambda self: 1 / 0})()",
    "a forgotten task": "task = asyncio.create_task(fail()); await asyncio.sleep(0); del task; gc.collect()",
    "a callback": "asyncio.get_running_loop().call_soon(lambda: 1 / 0); await asyncio.sleep(0)",
    "a coroutine that was never awaited": "fail(); gc.collect()",
    "the end": "1 / 0",
}


def test_every_line_is_json() -> None:
    """Whatever speaks in a process, Python itself too, writes one JSON object per line, with event, level and time."""
    functions = "".join(f"async def speaker{n}():\n    {code}\n" for n, code in enumerate(SPEAKERS.values()))
    program = (
        "import asyncio, gc, logging, threading\n"
        "from lanloom.runtime.logs import configure_logs\nfrom lanloom.runtime.process import run_process\n"
        "async def fail():\n    1 / 0\n" + functions + "async def main():\n"
        + "".join(f"    await speaker{n}()\n" for n in range(len(SPEAKERS)))
        + "configure_logs()\nrun_process(main())\n"
    )  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60
    )
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"event", "level", "timestamp"} <= set(line) for line in lines)
    assert done.returncode == 1
    assert len(lines) >= len(SPEAKERS)
    assert sum("ZeroDivisionError" in line.get("exception", "") for line in lines) == 6


class Reports(list[dict[str, Any]]):
    """What a handler reported."""

    def __call__(self, level: int, event: str, **fields: Any) -> None:
        """Keep it."""
        self.append({"level": level, "event": event, **fields})


def record(created: float, line: int = 1) -> logging.LogRecord:
    """A record of a place, made at that time."""
    made = logging.LogRecord("uvicorn", logging.WARNING, "file.py", line, "Invalid %s", ("request",), None)
    made.created = created
    return made


@pytest.mark.parametrize("start", [0.0, 1_800_000_000.0])
def test_one_place_says_little(start: float) -> None:
    """A place that speaks without end has a few lines a minute, then the number of those left out; others speak on."""
    reports = Reports()
    handler = LibraryHandler(reports, logging.WARNING)
    for number in range(1000):
        handler.handle(record(start + number * 0.05))
    assert [each["event"] for each in reports] == ["Invalid request"] * LINES
    handler.handle(record(start, line=2))
    assert len(reports) == LINES + 1
    handler.handle(record(start + PERIOD_SECONDS))
    assert reports[-1]["suppressed"] == 1000 - LINES


def test_a_clock_that_goes_back_silences_nobody() -> None:
    """After the clock was set back, a place speaks again."""
    reports = Reports()
    handler = LibraryHandler(reports, logging.WARNING)
    for _ in range(LINES + 1):
        handler.handle(record(1000.0))
    handler.handle(record(10.0))
    assert (len(reports), reports[-1]["suppressed"]) == (LINES + 1, 1)
