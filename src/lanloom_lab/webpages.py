"""The process behind the web pages of a lab: `python -m lanloom_lab.webpages KUBECONFIG SOCKET`.

`lanloom_lab.console` starts it, with the descriptor of a listening socket. Each line on standard input is a one-time
link: its secret, and for how many seconds it can be used. The end of the input ends the process.
"""

import asyncio
import socket
import sys

from lanloom.console.app import Console
from lanloom.console.catalogue import pages
from lanloom.console.serve import serve
from lanloom.console.sessions import Sessions
from lanloom.features import FEATURES
from lanloom.kube.loading import load
from lanloom.runtime.process import run_process

LOOPBACK = frozenset({"127.0.0.1", "localhost"})


async def _run(kubeconfig: str, sock: socket.socket) -> None:
    config = load(kubeconfig)
    sessions = Sessions(asyncio.get_running_loop().time)
    console = Console(config, pages(FEATURES), sessions, hosts=LOOPBACK, secure=False)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    serving = asyncio.create_task(serve(console, sessions, sock, None))
    try:
        while line := (await lines.readline()).decode().split():
            secret, seconds = line
            sessions.admit(secret, config, float(seconds))
    finally:
        serving.cancel()
        await asyncio.gather(serving, return_exceptions=True)


if __name__ == "__main__":
    run_process(_run(sys.argv[1], socket.socket(fileno=int(sys.argv[2]))))
