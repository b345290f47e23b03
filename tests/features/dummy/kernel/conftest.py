"""Tests that need root and a kernel with all features: collected only inside `tests.harness.kernel`."""

import os

from tests.harness.kernel import INSIDE

collect_ignore_glob = [] if INSIDE in os.environ else ["test_*.py"]
