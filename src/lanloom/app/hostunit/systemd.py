"""systemd on this very host, through systemctl: the one program whose words are the same on every distribution."""

import shutil
import subprocess
from typing import Protocol

from lanloom.app.hostunit.errors import HostError

TIMEOUT = 60.0
"""Seconds after which systemd is taken for dead."""


class Systemd(Protocol):
    """What the unit needs of systemd."""

    def run(self, *words: str) -> None:
        """Runs `systemctl WORDS`. Raises HostError."""
        ...

    def active(self, unit: str) -> bool:
        """Whether a unit is active; False also where there is no systemd."""
        ...


class Systemctl:
    """The program systemctl."""

    def run(self, *words: str) -> None:
        """As the port says."""
        done = self._call(*words)
        if done.returncode != 0:
            said = done.stderr.strip() or f"exit status {done.returncode}"
            raise HostError(
                f"systemctl {' '.join(words)} failed: {said}",
                "The files are in place; see `journalctl -u lanloom-nm-reload.service` and try again.",
            )

    def active(self, unit: str) -> bool:
        """As the port says."""
        return shutil.which("systemctl") is not None and self._call("is-active", unit).returncode == 0

    def _call(self, *words: str) -> "subprocess.CompletedProcess[str]":
        try:
            return subprocess.run(
                ["systemctl", *words], capture_output=True, text=True, timeout=TIMEOUT, check=False
            )
        except FileNotFoundError:
            raise HostError(
                "this host has no systemctl", "Use `lanloom host watch`, which needs no systemd."
            ) from None
        except subprocess.TimeoutExpired:
            raise HostError(
                f"systemd does not answer within {TIMEOUT:.0f} s", "See `systemctl status`."
            ) from None
