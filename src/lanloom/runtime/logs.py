"""How the long-running processes log: one JSON object per line on standard error."""

import logging
import sys

from lanloom.runtime.slimimports import without

with without("rich"):  # only colours tracebacks, which JSON lines have none of, and takes 4 MB
    import structlog


def configure_logs(level: str = "info") -> None:
    """Sets structlog up for the process. `level` is debug, info, warning or error."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.getLevelNamesMapping()[level.upper()]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
