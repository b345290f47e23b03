"""Commands that the demo shows as everybody types them, run against the lab's API server."""

import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from lanloom.lab.errors import DemoFailed

if TYPE_CHECKING:
    from lanloom.cli.waiting import Progress


def show_command(kubeconfig: Path, progress: "Progress", command: str, *, status: int = 0) -> None:
    """Runs a command, and shows it with its output. Raises DemoFailed if it ends otherwise than with `status`."""
    output = run_command(kubeconfig, command, status=status)
    with progress.aside():
        typed = command.replace("\n", " \\\n")
        click.echo(f"\n$ lanloom {typed}\n{output}", nl=False)


def run_command(kubeconfig: Path, command: str, *, status: int = 0) -> str:
    """What a command prints. Raises DemoFailed if it ends otherwise than with `status`."""
    done = subprocess.run(
        [sys.executable, "-m", "lanloom.cli", *shlex.split(command)],
        env=os.environ | {"KUBECONFIG": str(kubeconfig)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != status:
        said = (done.stderr or done.stdout).strip()
        raise DemoFailed(
            f"`lanloom {command}` ended with exit status {done.returncode}: {said}",
            "Run the demo with --keep, then try the command yourself.",
        )
    return done.stdout
