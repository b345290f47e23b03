"""The kit's tests make things fail by the thousand; writing each failure to a log would take most of their time."""

import logging
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True, scope="module")
def quiet_logs() -> Iterator[None]:
    """Keeps everything below critical out of the log."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.configure(**before)
