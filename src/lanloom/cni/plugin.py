"""`lanloom-ipam`: the CNI plugin that gets a pod's addresses from the agent of its node.

It is one file, copied into the runtime's directory of plugins behind the few lines of launcher.sh, and runs with the
host's own Python (3.6 or later) and nothing but its standard library. It decides nothing: the call goes to the agent
over a Unix socket, and the answer comes back in the form of the version of CNI that the configuration asks for.

On the socket, for each call, one connection: the plugin sends a JSON object and closes its side, the agent answers with
another and closes. `{"version": 1, "command": "ADD", "container": …, "netns": …, "interface": …, "args": …,
"config": {…}}` has CNI's parameters as they came, `config` being what was on standard input. The answer is
`{"result": {…}}`, for ADD with `ips` (`address` with prefix length, `gateway`), `routes` and `dns` as in CNI 1.0.0, or
`{"error": {"code": …, "msg": …, "details": …}}`. Version 1 is the only one; unknown fields are ignored.

A DEL succeeds without an agent, and whatever an agent answers: what a pod had is released when the pod is deleted,
whether a DEL was heard or not, and a DEL that fails keeps the pod in Terminating. Only a call that is wrong in itself
fails. Each call comes to an end within the time that `SECONDS` gives the agent, and a little more.
"""

import collections.abc
import json
import os
import re
import signal
import socket
import sys
import time

SOCKET = "/run/lanloom/cni.sock"
"""Where the agent listens; the agent that installs this file writes its own path here."""

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
SINCE = {"CHECK": "0.4.0", "STATUS": "1.1.0", "GC": "1.1.0"}
"""Which version of CNI brought a command, where not all have it."""

INCOMPATIBLE, BAD_ENVIRONMENT, IO_FAILURE, NOT_DECODED, BAD_CONFIG, TRY_AGAIN, NOT_AVAILABLE = (
    1,
    4,
    5,
    6,
    7,
    11,
    50,
)
"""CNI's codes for errors; the agent's own begin at 100, and 102 is the launcher's where there is no Python."""

SECONDS = {"ADD": 60.0, "DEL": 15.0, "CHECK": 20.0, "STATUS": 10.0, "GC": 60.0}
"""How long the agent may take altogether: longer than it takes to give up by itself."""

WHOLE = 90
"""Seconds after which a call ends whatever it waits for, such as a configuration that never comes."""

LARGEST = 1 << 20
"""Bytes of a configuration, or of an answer."""

UNREADABLE = "Lanloom's agent on this node gave an answer that can't be read"

_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")
_INTERFACE = re.compile(r"[^\s/:]{1,15}")


class CniError(Exception):
    """What goes back to the runtime instead of a result."""

    def __init__(self, code: int, msg: str, details: str = "") -> None:
        super().__init__(msg)
        self.code, self.msg, self.details = code, msg, details


class Unreachable(CniError):
    """There was no answer of the agent."""


def main(environ: "dict[str, str]", text: bytes) -> "tuple[int, str]":
    """The exit status and what is to be printed, for the environment and the standard input of a call."""
    version = VERSIONS[-1]
    try:
        command = environ.get("CNI_COMMAND", "")
        config = read_config(text, command)
        version = version_of(config, command)
        answer = call(command, environ, config, version)
    except CniError as error:
        body = {"cniVersion": version, "code": error.code, "msg": error.msg}
        return 1, dumps(dict(body, details=error.details) if error.details else body)
    return 0, dumps(answer) if answer is not None else ""


def read_config(text: bytes, command: str) -> "dict[str, object]":
    """The configuration; none is needed to ask for the versions."""
    if command == "VERSION" and not text.strip():
        return {}
    if len(text) > LARGEST:
        raise CniError(NOT_DECODED, f"the network configuration is larger than {LARGEST} bytes")
    try:
        config = json.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise CniError(NOT_DECODED, "the network configuration is not valid JSON", str(error)) from None
    if not isinstance(config, dict):
        raise CniError(NOT_DECODED, "the network configuration must be a JSON object")
    return config


def version_of(config: "dict[str, object]", command: str) -> str:
    """The version of CNI that the configuration is written in."""
    if command == "VERSION" and config.get("cniVersion") not in VERSIONS:
        return VERSIONS[-1]
    version = config.get("cniVersion", VERSIONS[0])
    if not isinstance(version, str) or version not in VERSIONS:
        raise CniError(
            INCOMPATIBLE,
            f"cniVersion {json.dumps(version)[:40]} is not supported",
            "lanloom-ipam speaks {}".format(", ".join(VERSIONS)),
        )
    return version


def call(
    command: str, environ: "dict[str, str]", config: "dict[str, object]", version: str
) -> "dict[str, object] | None":
    """What a command prints, None for nothing."""
    if command == "VERSION":
        return {"cniVersion": version, "supportedVersions": list(VERSIONS)}
    if command not in SECONDS:
        known = ", ".join((*SECONDS, "VERSION"))
        raise CniError(BAD_ENVIRONMENT, f"CNI_COMMAND is {command[:40]!r}; it must be one of {known}")
    since = SINCE.get(command, VERSIONS[0])
    if VERSIONS.index(version) < VERSIONS.index(since):
        raise CniError(
            INCOMPATIBLE,
            f"{command} needs cniVersion {since}, and the network configuration has {version}",
        )
    request = {"version": 1, "command": command, "config": config, **parameters(command, environ)}
    try:
        answer = ask(json.dumps(request).encode(), SECONDS[command])
    except CniError as error:
        endure(command, error)
        return None
    return shaped(answer, version) if command == "ADD" else None


def parameters(command: str, environ: "dict[str, str]") -> "dict[str, str]":
    """The parameters of the environment, checked as far as CNI says what they may be."""
    if command in ("STATUS", "GC"):
        return {}
    needed = ["CNI_CONTAINERID", "CNI_IFNAME"] + (["CNI_NETNS"] if command != "DEL" else [])
    missing = [name for name in needed if not environ.get(name)]
    if missing:
        raise CniError(BAD_ENVIRONMENT, "missing in the environment: {}".format(", ".join(missing)))
    container, interface = environ["CNI_CONTAINERID"], environ["CNI_IFNAME"]
    if not _CONTAINER.fullmatch(container) or len(container) > 255:
        raise CniError(BAD_ENVIRONMENT, "CNI_CONTAINERID is not a container's id")
    if not _INTERFACE.fullmatch(interface) or interface in (".", ".."):
        raise CniError(BAD_ENVIRONMENT, "CNI_IFNAME is not a name for an interface")
    return {
        "container": container,
        "interface": interface,
        "netns": environ.get("CNI_NETNS", ""),
        "args": environ.get("CNI_ARGS", ""),
    }


def ask(request: bytes, seconds: float) -> "dict[str, object]":
    """What the agent answers within so many seconds altogether."""
    until = time.monotonic() + seconds
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(seconds)
            connection.connect(SOCKET)
            connection.settimeout(left(until, time.monotonic()))
            connection.sendall(request)
            connection.shutdown(socket.SHUT_WR)
            text = received(connection, until, time.monotonic)
    except OSError as error:
        why = error.strerror or str(error)
        raise Unreachable(
            TRY_AGAIN, "Lanloom's agent on this node doesn't answer; try again later", f"{SOCKET}: {why}"
        ) from None
    if not text:  # it ended, or would not talk to us
        raise Unreachable(TRY_AGAIN, "Lanloom's agent on this node gave no answer; try again later", SOCKET)
    return decoded(text)


def received(connection: "socket.socket", until: float, now: "collections.abc.Callable[[], float]") -> bytes:
    """All that comes before the other side closes, up to LARGEST. Raises TimeoutError at `until`."""
    parts: list[bytes] = []
    size = 0
    while size <= LARGEST:
        connection.settimeout(left(until, now()))
        part = connection.recv(65536)
        if not part:
            break
        parts.append(part)
        size += len(part)
    return b"".join(parts)


def left(until: float, now: float) -> float:
    """The seconds that are left. Raises TimeoutError if there are none: 0 would mean not to wait at all."""
    if now >= until:
        raise TimeoutError("timed out")
    return until - now


def decoded(text: bytes) -> "dict[str, object]":
    """The result in an answer; raises the error that is in it instead."""
    try:
        answer = json.loads(text.decode("utf-8"))
        error = answer.get("error")
        if error:
            raise CniError(int(error["code"]), str(error["msg"]), str(error.get("details", "")))
        result = answer["result"]
        if isinstance(result, dict):
            return result
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        pass
    raise CniError(IO_FAILURE, UNREADABLE)


def endure(command: str, error: CniError) -> None:
    """A DEL succeeds all the same, and all else fails."""
    if command == "STATUS" and isinstance(error, Unreachable):
        raise CniError(NOT_AVAILABLE, error.msg, error.details)
    if command != "DEL":
        raise error
    details = f" ({error.details})" if error.details else ""
    print(f"lanloom-ipam: {error.msg}{details}; nothing needs to be done", file=sys.stderr)


def shaped(result: "dict[str, object]", version: str) -> "dict[str, object]":
    """The result of ADD in a version's form: before 1.0.0 each address says which version of IP it is."""
    ips = result.get("ips", [])
    if not isinstance(ips, list) or not all(has_address(item) for item in ips):
        raise CniError(IO_FAILURE, UNREADABLE, "ips is not a list of objects with an address")
    if version in ("0.3.0", "0.3.1", "0.4.0"):
        ips = [dict(item, version="6" if ":" in item["address"] else "4") for item in ips]
    return dict(result, cniVersion=version, ips=ips)


def has_address(item: object) -> bool:
    """Whether this is one of the addresses of a result."""
    return isinstance(item, dict) and isinstance(item.get("address"), str)


def dumps(body: "dict[str, object]") -> str:
    """JSON for a runtime, and for whoever reads its log."""
    return json.dumps(body, indent=4) + "\n"


def give_up(_signal: object, _frame: object) -> None:
    """End a call that has waited for too long: a DEL as one that succeeded, all else to be tried again."""
    text = f"lanloom-ipam: the call came to no end in {WHOLE} seconds"
    if os.environ.get("CNI_COMMAND") == "DEL":
        os.write(2, (text + "; nothing needs to be done\n").encode())
        os._exit(0)
    os.write(1, dumps({"cniVersion": VERSIONS[-1], "code": TRY_AGAIN, "msg": text}).encode())
    os._exit(1)


if __name__ == "__main__":
    signal.signal(signal.SIGALRM, give_up)
    signal.alarm(WHOLE)
    status, output = main(dict(os.environ), sys.stdin.buffer.read(LARGEST + 1))
    sys.stdout.write(output)
    sys.exit(status)
