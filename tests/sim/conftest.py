"""Logs of a thousand clusters help nobody; those of the one that is replayed do."""

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
    thresholds = gc.get_threshold()
    gc.set_threshold(
        50_000
    )  # objects live as long as their test: looking for garbage took a fifth of the time
    yield
    gc.set_threshold(*thresholds)
    structlog.reset_defaults()
