"""The console of a lab, as its supervisor keeps it: web pages on the host's loopback address, for who has a link.

The supervisor listens, and hands the socket over to a process of its own (`lanloom_lab.webpages`) when a browser
connects: a lab without a browser pays for no console. Another one follows if that process ends.
"""

import asyncio
import secrets
import socket
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from pathlib import Path

from lanloom.console.sessions import ONCE_SECONDS

PAUSE = 1.0
"""Seconds between the end of a process and the start of the next one."""


class LabConsole:
    """Answers browsers on a listening socket, with a kubeconfig's rights. `now` is a clock that never goes back."""

    def __init__(self, sock: socket.socket, kubeconfig: Path, log: Path, now: Callable[[], float]) -> None:
        self._sock = sock
        self._kubeconfig = kubeconfig
        self._log = log
        self._now = now
        self._links: dict[str, float] = {}
        self._process: Process | None = None
        self.address = f"http://127.0.0.1:{sock.getsockname()[1]}/"

    async def link(self) -> str:
        """Return an address that logs one browser in, once and within ten minutes."""
        secret = secrets.token_urlsafe(32)
        self._links = {name: until for name, until in self._links.items() if until > self._now()}
        self._links[secret] = self._now() + ONCE_SECONDS
        await self._pass_on()
        return f"{self.address}login?once={secret}"

    async def run(self) -> None:
        """Answer until cancelled."""
        while True:
            await _readable(self._sock)
            await self._answer()
            await asyncio.sleep(PAUSE)

    async def _answer(self) -> None:
        descriptor = self._sock.fileno()
        words = (sys.executable, "-m", "lanloom_lab.webpages", str(self._kubeconfig), str(descriptor))
        with self._log.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *words, stdin=PIPE, stdout=DEVNULL, stderr=log, pass_fds=(descriptor,)
            )
        self._process = process
        try:
            await self._pass_on()
            await process.wait()
        finally:
            self._process = None
            if process.returncode is None:
                process.kill()
                await process.wait()

    async def _pass_on(self) -> None:
        """Give the process the links that it does not have yet. None goes to two processes: it could be used twice."""
        if self._process is None or self._process.stdin is None:
            return
        links, self._links = self._links, {}
        for secret, until in links.items():
            self._process.stdin.write(f"{secret} {until - self._now():.3f}\n".encode())
        try:
            await self._process.stdin.drain()
        except ConnectionError:  # it has ended: the next one gets them
            self._links = links | self._links


async def _readable(sock: socket.socket) -> None:
    """Wait until a client connects."""
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(sock.fileno(), there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(sock.fileno())
