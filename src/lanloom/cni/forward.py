"""Hand a CNI call to the agent's Unix socket and print its answer, where the compiled shim can't run.

Installed behind launcher.sh under the names of the programs, `macvtap` and `k8slanveth`. It runs with the host's own
Python (3.6 or later), its standard library and nothing else. What goes over the socket is described in shim.c: both are
the same program, and the same tests run on both.
"""

import collections.abc
import json
import os
import re
import signal
import socket
import sys

SOCKET = "/run/lanloom/cni-lan.sock"
"""Where the agent listens; the agent that installs this file writes its own path here."""

NAME = "macvtap"
"""The name of the program; the agent that installs this file writes it here."""

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
COMMANDS = ("ADD", "CHECK", "DEL", "GC", "STATUS", "VERSION")
BAD_VARIABLES, UNREADABLE, AGAIN, UNAVAILABLE = 4, 6, 11, 50

SECONDS = 45
"""Limit of a whole call: longer than the agent takes to give up by itself."""

LARGEST, VARIABLES = 1 << 20, 1 << 16
"""Bytes of a configuration or an answer, and of all variables together."""

SILENT = "Lanloom's agent on this node does not answer; try again later, or see the agent's log"
CUT_OFF = "Lanloom's agent on this node gave no whole answer; try again later, or see the agent's log"

_VERSION = re.compile(rb'"cniVersion"\s*:\s*"([0-9.]{1,5})"')
_ANSWER = re.compile(rb"([01]) ([0-9]{1,7})\n")


class CallError(Exception):
    """What the runtime gets instead of a result."""

    def __init__(self, code: int, msg: str) -> None:
        super().__init__(msg)
        self.code = code


def main(environ: "dict[bytes, bytes]", read: "collections.abc.Callable[[int], bytes]") -> int:
    """Carry out one call; the exit status. `read` gives standard input."""
    command, version = environ.get(b"CNI_COMMAND", b"").decode("latin-1"), VERSIONS[-1]
    try:
        head = packed(environ)
        text = configuration(read)
        version = version_of(text)
        if command not in COMMANDS:
            raise CallError(BAD_VARIABLES, "CNI_COMMAND must be one of {}".format(", ".join(COMMANDS)))
        if command == "VERSION":
            write(json.dumps({"cniVersion": version, "supportedVersions": VERSIONS}).encode() + b"\n")
            return 0
        status, output = ask(head + text, UNAVAILABLE if command == "STATUS" else AGAIN)
    except CallError as error:
        return fail(command, version, error)
    write(output)
    return status


def packed(environ: "dict[bytes, bytes]") -> bytes:
    """The strings before the configuration."""
    variables = [name + b"=" + value for name, value in environ.items() if name.startswith(b"CNI_")]
    head = b"\0".join([b"lanloom-cni 1", NAME.encode(), *variables, b"", b""])
    if len(head) > VARIABLES:
        raise CallError(BAD_VARIABLES, "the CNI_* variables are larger than 64 KiB together")
    return head


def configuration(read: "collections.abc.Callable[[int], bytes]") -> bytes:
    """All of standard input."""
    try:
        text = read(LARGEST + 1)
    except TimeoutError:
        raise CallError(UNREADABLE, "standard input did not end in time") from None
    if len(text) > LARGEST:
        raise CallError(UNREADABLE, "the network configuration is larger than 1 MiB")
    return text


def version_of(text: bytes) -> str:
    """The version of CNI in a configuration; the newest where there is none that is known."""
    found = _VERSION.search(text)
    named = found.group(1).decode() if found else ""
    return named if named in VERSIONS else VERSIONS[-1]


def ask(request: bytes, unreachable: int) -> "tuple[int, bytes]":
    """The exit status and the output that the agent answers with. Raises CallError with this code without an agent."""
    parts: list[bytes] = []
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as agent:
            agent.connect(SOCKET)
            agent.sendall(request)
            agent.shutdown(socket.SHUT_WR)
            while sum(map(len, parts)) <= LARGEST + 32:
                parts.append(agent.recv(1 << 16))
                if not parts[-1]:
                    break
    except OSError:
        raise CallError(unreachable, SILENT) from None
    answer = b"".join(parts)
    head = _ANSWER.match(answer)
    if not head or len(answer) != head.end() + int(head.group(2)):
        raise CallError(unreachable, CUT_OFF)
    return int(head.group(1)), answer[head.end() :]


def fail(command: str, version: str, error: CallError) -> int:
    """Print an error; a DEL without an agent succeeds, because the agent removes by itself what the pod leaves."""
    if command == "DEL" and error.code >= AGAIN:
        os.write(2, f"{error}; nothing needs to be done\n".encode())
        return 0
    write(json.dumps({"cniVersion": version, "code": error.code, "msg": str(error)}).encode() + b"\n")
    return 1


def write(output: bytes) -> None:
    """Print all of it."""
    while output:
        output = output[os.write(1, output) :]


def expire(_signal: object, _frame: object) -> None:
    """End whatever is waited for."""
    raise TimeoutError


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    sys.exit(main(dict(os.environb), sys.stdin.buffer.read))
