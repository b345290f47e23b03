"""The log of a long-running process: one JSON object per line on standard error, from every source.

Lanloom speaks by structlog. Libraries, asyncio and Python itself speak by `logging`, by warnings, and by hooks for
uncaught exceptions; all of them end here. What a place in a library says again and again is cut to a few lines a
minute: its cause may be an unknown client.
"""

import logging
import sys
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Any

from lanloom.runtime.slimimports import without

# The first only colours tracebacks, which JSON lines have none of, and takes 4 MB; the second is of no use to asyncio.
with without("rich", "greenlet"):
    import structlog

LINES = 5
"""Lines of one place in a library within `PERIOD_SECONDS`."""

PERIOD_SECONDS = 60.0

Report = Callable[..., object]

log = structlog.get_logger(__name__)


def configure_logs(level: str = "info") -> None:
    """Set the log of the process up. `level` is debug, info, warning or error."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_number(level)),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    _take_over(LibraryHandler(log.log, max(_number(level), logging.WARNING)))


def _number(level: str) -> int:
    return logging.getLevelNamesMapping()[level.upper()]


def _take_over(handler: logging.Handler) -> None:
    """Have everything go through a handler that Python would print as plain text."""
    logging.root.handlers[:] = [handler]
    logging.root.setLevel(handler.level)
    logging.lastResort = handler
    logging.raiseExceptions = False  # else a record that can't be formatted is printed
    logging.captureWarnings(True)
    sys.excepthook = _uncaught
    threading.excepthook = lambda args: _uncaught(args.exc_type, args.exc_value, args.exc_traceback)
    sys.unraisablehook = lambda args: _uncaught(
        args.exc_type, args.exc_value, args.exc_traceback, args.err_msg
    )


def _uncaught(
    kind: type[BaseException],
    error: BaseException | None,
    trace: TracebackType | None,
    why: str | None = None,
) -> None:
    error = error if error is not None else kind()
    log.critical("uncaught-exception", why=why or "", exc_info=(kind, error, trace))


class LibraryHandler(logging.Handler):
    """Hand records of `logging` to `report(level, event, **fields)`, a few from each place in the code a minute."""

    def __init__(self, report: Report, level: int) -> None:
        super().__init__(level)
        self._report = report
        self._places: dict[tuple[str, int], tuple[float, int]] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Implement the handler of logging."""
        place = (record.pathname, record.lineno)
        since, count = self._places.get(place, (record.created, 0))
        fields: dict[str, Any] = {}
        if not 0 <= record.created - since < PERIOD_SECONDS:
            fields = {"suppressed": count - LINES} if count > LINES else {}
            since, count = record.created, 0
        self._places[place] = since, count + 1
        if count >= LINES:
            return
        if record.exc_info:
            fields["exc_info"] = record.exc_info
        try:
            text = record.getMessage()
        except (TypeError, ValueError, KeyError):
            text = str(record.msg)
        try:
            self._report(record.levelno, text, logger=record.name, **fields)
        except OSError:  # standard error is gone
            self.handleError(record)
