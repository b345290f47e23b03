"""Logs of a thousand clusters help nobody; those of the one that is replayed do."""

import logging
import os
from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    if "LANLOOM_SEED" not in os.environ:
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    yield
    structlog.reset_defaults()
