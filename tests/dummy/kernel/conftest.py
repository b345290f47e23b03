"""Tests that need root and a kernel with all features: collected only inside `tests.kernel`."""

import os

from tests.kernel import INSIDE

collect_ignore_glob = [] if INSIDE in os.environ else ["test_*.py"]
