"""What ends a run of tests."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

STORY = """
import os, signal

def test_interrupted():
    try:
        os.kill(os.getpid(), signal.{name})
    except KeyboardInterrupt:
        pass

def test_next():
    raise AssertionError("it ran")
"""


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run(tmp_path: Path, number: signal.Signals) -> None:
    """A run ends after the test in which it gets a signal, also if that test catches the exception."""
    story = tmp_path / "test_story.py"
    story.write_text(STORY.format(name=number.name))
    words = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "tests.conftest",
        "-c",
        "/dev/null",
        f"--rootdir={tmp_path}",
    ]
    run = subprocess.run([*words, str(story)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert "1 passed" in run.stdout and "failed" not in run.stdout, run.stdout + run.stderr
    assert f"got {number.name}" in run.stdout
    assert run.returncode == pytest.ExitCode.INTERRUPTED
