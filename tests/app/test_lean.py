"""What long-running processes leave out."""

import subprocess
import sys

import pytest

from lanloom.app.lean import without


def test_a_module_is_left_out_for_a_while() -> None:
    """Within the block an import fails as if the module weren't installed, and afterwards it works."""
    assert "this" not in sys.modules
    with without("this"), pytest.raises(ImportError):
        import this  # noqa: F401
    assert "this" not in sys.modules


def test_a_loaded_module_stays() -> None:
    """A module that is loaded already can be imported within the block and stays loaded."""
    with without("json"):
        import json
    assert sys.modules["json"] is json


def test_processes_that_log_json_do_not_load_rich() -> None:
    """The agent's imports don't load rich, which would cost 4 MB on every node."""
    program = (
        "import lanloom.app.logs, lanloom.app.agent, lanloom.app.connect, lanloom.app.host, sys;"
        " print(*(name for name in sys.modules if name.partition('.')[0] in ('rich', 'pygments')))"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == ""
