"""Logs of a thousand clusters do not help; those of the one that is replayed do."""

import gc
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


@pytest.fixture(autouse=True, scope="package")
def _rare_collections() -> Iterator[None]:
    """Look for cycles rarely: the processes of a schedule make and drop so much that it takes a tenth of the time."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, 20, 50)
    yield
    gc.set_threshold(*before)
