"""CNI calls as they come over the agent's socket (described in `shim.c`), their answers, and errors by CNI's numbers.

The program on the node passes on what a runtime gave it. All that CNI says of the variables is checked here, once. The
configuration is for the feature whose program it is; who may write a NAD wrote it, so nothing of it is believed.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

Raw = dict[str, Any]

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
SINCE = {"ADD": "0.3.0", "DEL": "0.3.0", "CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}
"""The commands, and which version of CNI brought them."""

LARGEST = (1 << 20) + (1 << 16) + 256
"""Bytes of a request: what the program lets through."""

INCOMPATIBLE, UNKNOWN_CONTAINER, BAD_ENVIRONMENT, NOT_DECODED, BAD_CONFIG, TRY_AGAIN, NOT_AVAILABLE = (
    1,
    3,
    4,
    6,
    7,
    11,
    50,
)
"""CNI's codes for errors."""

REFUSED, DIFFERENT = 100, 101
"""Lanloom's own: what is asked for is not allowed; a CHECK found another state than the result of ADD."""

_MAGIC = b"lanloom-cni 1"
_LONGEST = 2000
"""Characters of a message."""

_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}", re.ASCII)
_INTERFACE = re.compile(r"[!-~]{1,15}", re.ASCII)
_NETNS = re.compile(r"/[!-~]{1,4000}", re.ASCII)


class CniError(Exception):
    """A call that fails; the texts are what the runtime shows."""

    def __init__(self, code: int, msg: str, details: str = "") -> None:
        super().__init__(msg)
        self.code = code
        self.msg = msg
        self.details = details


class Call(Struct, frozen=True, kw_only=True):
    """A call that CNI allows. `config` is an object, of which only the version was checked.

    `container` and `interface` are empty for STATUS and GC, and `netns` also for a DEL without a valid one.
    """

    program: str
    command: str
    version: str = VERSIONS[-1]
    config: Raw
    container: str = ""
    interface: str = ""
    netns: str = ""
    args: str = ""

    @property
    def network_name(self) -> str:
        """The name of the CNI network. Raises CniError."""
        return network_name(self.config)


class CallRefused(Exception):
    """A request that is no call: its error, the version in which to report it, and as much of the call as is known."""

    def __init__(
        self, error: CniError, version: str = VERSIONS[-1], program: str = "", command: str = ""
    ) -> None:
        super().__init__(error.msg)
        self.error = error
        self.version = version
        self.program = program
        self.command = command


def decode(text: bytes, programs: Mapping[str, str]) -> Call:
    """Return the call in a request. Raises CallRefused.

    `programs` are those that are answered, each with the version of a configuration that names none; an empty one
    means that each must name one.
    """
    head, _, config_text = text.partition(b"\0\0")
    words = head.split(b"\0")
    if len(words) < 2 or words[0] != _MAGIC:
        raise CallRefused(CniError(NOT_DECODED, "the request is not one of Lanloom's CNI programs"))
    program, command = words[1].decode("utf-8", "replace"), _command(words[2:])
    version = VERSIONS[-1]
    try:
        config = _config(config_text)
        version = _version(config, programs.get(program, ""))
        _check_program(program, programs)
        variables = _variables(words[2:])
        _check_command(command, version)
        return Call(
            program=program, command=command, version=version, config=config, **_place(command, variables)
        )
    except CniError as error:
        known = program if program in programs else ""
        raise CallRefused(error, version, known, command if command in SINCE else "") from None


def _command(words: list[bytes]) -> str:
    prefix = b"CNI_COMMAND="
    found = [word.removeprefix(prefix) for word in words if word.startswith(prefix)]
    return found[-1].decode("utf-8", "replace") if found else ""


def _config(text: bytes) -> Raw:
    try:
        config = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CniError(NOT_DECODED, "the network configuration is not valid JSON", str(error)) from None
    if not isinstance(config, dict):
        raise CniError(NOT_DECODED, "the network configuration must be a JSON object")
    return config


def _version(config: Raw, default: str) -> str:
    version = config.get("cniVersion", default or None)
    if not isinstance(version, str) or version not in VERSIONS:
        given = repr(version)[:40] if "cniVersion" in config else "missing"
        raise CniError(
            INCOMPATIBLE,
            f"cniVersion is {given}, which is not supported",
            f"supported versions: {', '.join(VERSIONS)}",
        )
    return version


def _check_program(name: str, programs: Mapping[str, str]) -> None:
    if name not in programs:
        raise CniError(
            BAD_ENVIRONMENT,
            f"the program is called {name[:40]!r}; this agent answers {', '.join(programs)}",
        )


def _variables(words: list[bytes]) -> dict[str, str]:
    found = {}
    for word in words:
        name, _, value = word.partition(b"=")
        try:
            found[name.decode("ascii")] = value.decode()
        except UnicodeDecodeError:
            shown = name.decode("ascii", "replace")[:40]
            raise CniError(BAD_ENVIRONMENT, f"{shown} is not UTF-8") from None
    return found


def _check_command(command: str, version: str) -> None:
    if command not in SINCE:
        known = ", ".join((*SINCE, "VERSION"))
        raise CniError(BAD_ENVIRONMENT, f"CNI_COMMAND is {command[:40]!r}; it must be one of {known}")
    if VERSIONS.index(version) < VERSIONS.index(SINCE[command]):
        raise CniError(
            INCOMPATIBLE,
            f"{command} needs cniVersion {SINCE[command]} or later, and the network configuration has {version}",
        )


def _place(command: str, variables: Mapping[str, str]) -> dict[str, str]:
    """Return what a call is about, as fields of Call. Of a DEL the namespace may be gone."""
    if command not in ("ADD", "CHECK", "DEL"):
        return {}
    container, interface = _variable(variables, "CNI_CONTAINERID"), _variable(variables, "CNI_IFNAME")
    if not _CONTAINER.fullmatch(container):
        raise CniError(
            BAD_ENVIRONMENT,
            "CNI_CONTAINERID: must begin with a letter or digit, then letters, digits, '.', '_', '-'; at most 255",
        )
    if not _INTERFACE.fullmatch(interface) or set(interface) & set("/:%") or interface in (".", ".."):
        raise CniError(
            BAD_ENVIRONMENT, "CNI_IFNAME: must be 1 to 15 visible ASCII characters, without '/', ':' and '%'"
        )
    netns = variables.get("CNI_NETNS", "") if command == "DEL" else _variable(variables, "CNI_NETNS")
    if not _NETNS.fullmatch(netns) or ".." in netns.split("/"):
        if command != "DEL":
            raise CniError(BAD_ENVIRONMENT, "CNI_NETNS: must be the absolute path of a network namespace")
        netns = ""
    return {
        "container": container,
        "interface": interface,
        "netns": netns,
        "args": variables.get("CNI_ARGS", ""),
    }


def _variable(variables: Mapping[str, str], name: str) -> str:
    value = variables.get(name, "")
    if not value:
        raise CniError(BAD_ENVIRONMENT, f"{name} is missing in the environment")
    return value


def network_name(config: Raw) -> str:
    """Return the name of the CNI network of a configuration. Raises CniError."""
    name = config.get("name")
    if not isinstance(name, str) or not 0 < len(name) <= 253 or not name.isprintable():
        raise CniError(BAD_CONFIG, "name: the network configuration must have a name")
    return name


_KEYS = ("cni.dev/valid-attachments", "cni.dev/attachments")
"""The key, and a misspelling of it that runtimes send as well."""

_Short = Annotated[str, Meta(max_length=255)]


class _Valid(Struct, frozen=True, rename={"container": "containerID"}):
    container: _Short
    ifname: _Short


def valid_attachments(config: Raw) -> frozenset[tuple[str, str]]:
    """Return container and interface of each. Raises CniError without a list, too: nothing is garbage by default."""
    listed = next((config[key] for key in _KEYS if key in config), None)
    if listed is None:
        raise CniError(BAD_CONFIG, f"{_KEYS[0]}: GC needs the list of attachments that are in use")
    try:
        return frozenset((item.container, item.ifname) for item in msgspec.convert(listed, list[_Valid]))
    except msgspec.ValidationError as error:
        raise CniError(BAD_CONFIG, f"{_KEYS[0]}: {error}") from None


def shaped(result: Raw, version: str) -> Raw:
    """Return an ADD's result in the form of a version: before 1.0.0 each address says its version of IP."""
    ips = result.get("ips", [])
    if version < "1.0.0":
        ips = [{**item, "version": "6" if ":" in item["address"] else "4"} for item in ips]
    return {**result, "cniVersion": version, "ips": ips}


def encode_result(result: Raw | None) -> bytes:
    """Return the answer to a call that went well; only ADD has a result."""
    return _framed(0, msgspec.json.encode(result) + b"\n" if result is not None else b"")


def encode_error(version: str, error: CniError) -> bytes:
    """Return the answer to a call that failed."""
    body: Raw = {"cniVersion": version, "code": error.code, "msg": error.msg[:_LONGEST]}
    if error.details:
        body["details"] = error.details[:_LONGEST]
    return _framed(1, msgspec.json.encode(body) + b"\n")


def _framed(status: int, output: bytes) -> bytes:
    return b"%d %d\n%b" % (status, len(output), output)


_EARLIER = b"{"
_TO_EARLIER = CniError(
    TRY_AGAIN,
    "the program lanloom-ipam of this node is of an earlier version; its agent replaces it: try again later",
)


def answer_to_earlier(text: bytes) -> bytes:
    """Return the answer to a program of version 0.1, which spoke JSON; empty for any other request.

    Such a program may be running while its agent is replaced. Its DEL succeeds whatever the answer is.
    """
    if not text.startswith(_EARLIER):
        return b""
    return msgspec.json.encode({"error": {"code": _TO_EARLIER.code, "msg": _TO_EARLIER.msg}})
