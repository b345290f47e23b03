"""CNI calls of `macvtap` and `k8slanveth` as they come over the socket (described in `cni/shim.c`), and their answers.

The programs pass on what a runtime gave them; all that CNI says of it is checked here, and every field of the
configuration that means something to a LAN. Whoever may write a NAD wrote that, so nothing of it is believed.
"""

import re
from typing import Any

import msgspec
from msgspec import Struct

from lanloom.features.lan.agent.ports import MACVTAP, VETH, Attached, Attachment, Device
from lanloom.features.lan.rules.addressing import Given, previous_addresses, shaped
from lanloom.features.lan.rules.binding import BRIDGE
from lanloom.runtime.callsocket import (
    BAD_CONFIG,
    BAD_ENVIRONMENT,
    INCOMPATIBLE,
    NOT_DECODED,
    CniError,
    network_name,
)

Raw = dict[str, Any]

VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
SINCE = {"ADD": "0.3.0", "DEL": "0.3.0", "CHECK": "0.4.0", "GC": "1.1.0", "STATUS": "1.1.0"}
"""The commands, and which version of CNI brought them."""

PROGRAMS = {"macvtap": MACVTAP, "k8slanveth": VETH}
LARGEST = (1 << 20) + (1 << 16) + 256
"""Bytes of a request: what the programs let through."""

_MAGIC = b"lanloom-cni 1"
_LONGEST = 2000
"""Characters of a message."""

_CONTAINER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}", re.ASCII)
_INTERFACE = re.compile(r"[!-~]{1,15}", re.ASCII)
_NETNS = re.compile(r"/[!-~]{1,4000}", re.ASCII)
_SPOKE = re.compile(r"[a-z0-9]([-a-z0-9]{0,11}[a-z0-9])?", re.ASCII)
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


_POD = ("K8S_POD_NAMESPACE", "K8S_POD_NAME")
"""The arguments that tell whose an interface is; which LANs a pod may have depends on the first."""


class Call(Struct, frozen=True, kw_only=True):
    """A call that CNI allows. `config` is an object of that version; `variables` are CNI_* without that prefix."""

    program: str
    command: str
    version: str
    variables: dict[str, str]
    config: Raw


def decode(text: bytes) -> Call:
    """The call in a request. Raises CallRefused, which knows the version to answer in."""
    head, _, config_text = text.partition(b"\0\0")
    words = head.split(b"\0")
    if len(words) < 2 or words[0] != _MAGIC:
        raise CallRefused(
            VERSIONS[-1], CniError(NOT_DECODED, "the request is not one of Lanloom's CNI programs")
        )
    version = VERSIONS[-1]
    try:
        config = _config(config_text)
        version = _version(config)
        program = words[1].decode("utf-8", "replace")
        if program not in PROGRAMS:
            known = ", ".join(PROGRAMS)
            raise CniError(
                BAD_ENVIRONMENT, f"the program is called {program[:40]!r}; it must be one of {known}"
            )
        variables = _variables(words[2:])
        command = variables.get("COMMAND", "")
        _check_command(command, version)
        if config.get("type") != program:
            raise CniError(BAD_CONFIG, f"type: must be {program}, as the program that was called")
    except CniError as error:
        raise CallRefused(version, error) from None
    return Call(program=program, command=command, version=version, variables=variables, config=config)


class CallRefused(Exception):
    """A request that is no call; `version` is that of CNI in which the error is told."""

    def __init__(self, version: str, error: CniError) -> None:
        super().__init__(error.msg)
        self.version = version
        self.error = error


def _config(text: bytes) -> Raw:
    try:
        config = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise CniError(NOT_DECODED, "the network configuration is not valid JSON", str(error)) from None
    if not isinstance(config, dict):
        raise CniError(NOT_DECODED, "the network configuration must be a JSON object")
    return config


def _version(config: Raw) -> str:
    version = config.get("cniVersion")
    if not isinstance(version, str) or version not in VERSIONS:
        given = repr(version)[:40] if "cniVersion" in config else "missing"
        raise CniError(
            INCOMPATIBLE,
            f"cniVersion is {given}, which is not supported",
            f"supported versions: {', '.join(VERSIONS)}",
        )
    return version


def _variables(words: list[bytes]) -> dict[str, str]:
    found = {}
    for word in words:
        name, _, value = word.partition(b"=")
        try:
            found[name.decode("ascii").removeprefix("CNI_")] = value.decode()
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


def place_of(call: Call) -> tuple[str, str]:
    """Container and interface of a DEL, which needs no more. Raises CniError."""
    container = _variable(call, "CONTAINERID")
    if not _CONTAINER.fullmatch(container):
        raise CniError(
            BAD_ENVIRONMENT,
            "CNI_CONTAINERID: must begin with a letter or digit, then letters, digits, '.', '_', '-'; at most 255",
        )
    interface = _variable(call, "IFNAME")
    if not _INTERFACE.fullmatch(interface) or set(interface) & set("/:%") or interface in (".", ".."):
        raise CniError(
            BAD_ENVIRONMENT, "CNI_IFNAME: must be 1 to 15 visible ASCII characters, without '/', ':' and '%'"
        )
    return container, interface


def _variable(call: Call, name: str) -> str:
    value = call.variables.get(name, "")
    if not value:
        raise CniError(BAD_ENVIRONMENT, f"CNI_{name} is missing in the environment")
    return value


def ipam_type(config: Raw) -> str:
    """The IPAM program that a configuration names, empty for none. Raises CniError."""
    section = _object(config, "ipam")
    if not section:
        return ""
    name = section.get("type")
    if not isinstance(name, str) or not _FILE.fullmatch(name):
        raise CniError(BAD_CONFIG, "ipam.type: must be the name of an IPAM program, such as lanloom-ipam")
    if name in PROGRAMS:
        raise CniError(BAD_CONFIG, f"ipam.type: {name} is no IPAM program; name one such as lanloom-ipam")
    return name


def ipam_variables(call: Call) -> dict[str, str]:
    """The CNI_* variables for the IPAM program of a call, as far as they are valid, without CNI_PATH."""
    names = ["COMMAND"]
    if call.command in ("ADD", "CHECK", "DEL"):
        names += ["CONTAINERID", "IFNAME", "ARGS"]
        if _is_netns(call.variables.get("NETNS", "")):  # of a DEL it may be missing
            names.append("NETNS")
    return {f"CNI_{name}": call.variables.get(name, "") for name in names}


def _is_netns(path: str) -> bool:
    return bool(_NETNS.fullmatch(path)) and ".." not in path.split("/")


def attachment_of(call: Call) -> Attachment:
    """The attachment of an ADD or CHECK. Raises CniError, which names the variable or the field."""
    container, interface = place_of(call)
    netns = _variable(call, "NETNS")
    if not _is_netns(netns):
        raise CniError(BAD_ENVIRONMENT, "CNI_NETNS: must be the absolute path of a network namespace")
    arguments = _arguments(call.variables.get("ARGS", ""))
    _check_addresses(call)
    return Attachment(
        device=_device(call),
        container=container,
        netns=netns,
        interface=interface,
        pod=_pod(arguments),
        network=network_name(call.config),
        mac=_mac(call.config, arguments),
        bridged=_is_bridged(call),
        mtu=_mtu(call.config),
    )


def _arguments(text: str) -> dict[str, str]:
    """CNI_ARGS: pairs `NAME=VALUE`, separated by `;`. Those that mean nothing here are left alone."""
    pairs = [item.partition("=") for item in text.split(";") if item]
    if not all(equals for _, equals, _ in pairs):
        raise CniError(BAD_ENVIRONMENT, "CNI_ARGS: must be NAME=VALUE, separated by semicolons")
    found: dict[str, str] = {}
    for name, _, value in pairs:
        if name in _POD and found.get(name, value) != value:
            raise CniError(BAD_ENVIRONMENT, f"CNI_ARGS: has two values of {name}; only one can be the pod's")
        found[name] = value
    return found


def _pod(arguments: dict[str, str]) -> str:
    """`namespace/name` of the pod, empty for a runtime that is not Kubernetes'."""
    names = [arguments.get(key, "") for key in _POD]
    if not any(names):
        return ""
    if not all(map(_NAME.fullmatch, names)):
        raise CniError(BAD_ENVIRONMENT, f"CNI_ARGS: {' and '.join(_POD)} must be names of Kubernetes")
    return "/".join(names)


def _device(call: Call) -> Device:
    """The spoke: of a machine by the device that Multus adds for the pod's resource, of a pod by `veth`."""
    config, given = call.config, call.config.get("deviceID", "")
    if PROGRAMS[call.program] == MACVTAP:
        if not isinstance(given, str) or not given.endswith("M0") or not _SPOKE.fullmatch(given[:-2]):
            raise CniError(
                BAD_CONFIG,
                "deviceID: must be a spoke's device, such as spoke1M0; Multus adds it for a NAD with the annotation "
                "k8s.v1.cni.cncf.io/resourceName, if a container of the pod asks for that resource",
            )
        return Device(given[:-2], MACVTAP)
    spoke = config.get("veth")
    if not isinstance(spoke, str) or not _SPOKE.fullmatch(spoke):
        raise CniError(
            BAD_CONFIG,
            "veth: must be the name of a spoke: at most 13 lower-case letters, digits and dashes",
        )
    device = Device(spoke, VETH)
    if given not in ("", device.id):
        raise CniError(
            BAD_CONFIG, f"deviceID: must be {device.id}, the device of the spoke that veth names, or missing"
        )
    return device


def _is_bridged(call: Call) -> bool:
    """Whether KubeVirt's bridge binding uses the interface, as the NAD says."""
    binding = call.config.get("binding")
    if binding is None:
        return False
    if binding != BRIDGE or PROGRAMS[call.program] != VETH:
        raise CniError(BAD_CONFIG, f"binding: must be {BRIDGE}, in a NAD of the type k8slanveth, or missing")
    return True


def _mac(config: Raw, arguments: dict[str, str]) -> str:
    """The hardware address that is asked for, by CNI's conventions in this order; empty for any."""
    runtime = _object(config, "runtimeConfig")
    nested = _object(_object(config, "args"), "cni")
    places = (
        ("runtimeConfig.mac", runtime.get("mac"), BAD_CONFIG),
        ("args.cni.mac", nested.get("mac"), BAD_CONFIG),
        ("CNI_ARGS: MAC", arguments.get("MAC"), BAD_ENVIRONMENT),
    )
    for place, mac, code in places:
        if mac is None or mac == "":
            continue
        if not isinstance(mac, str) or not _MAC.fullmatch(mac) or int(mac[:2], 16) & 1 or not mac.strip("0:"):
            raise CniError(code, f"{place}: must be a unicast MAC address such as 02:00:00:00:00:01")
        return mac.lower()
    return ""


def _object(config: Raw, name: str) -> Raw:
    found = config.get(name) or {}
    if not isinstance(found, dict):
        raise CniError(BAD_CONFIG, f"{name}: must be an object")
    return found


def _check_addresses(call: Call) -> None:
    """Raises CniError for addresses without a program that gives them, and for what follows another plugin."""
    if _object(call.config, "runtimeConfig").get("ips") and not ipam_type(call.config):
        raise CniError(
            BAD_CONFIG,
            "runtimeConfig.ips: the NAD has no `ipam` that could give addresses; remove `ips` of the pod's annotation, "
            "or take a NAD with `ipam`",
        )
    if call.command == "ADD" and call.config.get("prevResult") is not None:
        raise CniError(BAD_CONFIG, f"prevResult: {call.program} must be the first plugin of its list")


def _mtu(config: Raw) -> int:
    """The MTU that a configuration asks for, 0 for that of the LAN. Raises CniError."""
    mtu = config.get("mtu", 0)
    if not isinstance(mtu, int) or isinstance(mtu, bool) or not 0 <= mtu <= 65535:
        raise CniError(BAD_CONFIG, "mtu: must be a number from 0 to 65535")
    return mtu


def check_previous(call: Call, attachment: Attachment) -> str:
    """The hardware address that ADD's result has for the interface. Raises CniError without such a result."""
    previous = call.config.get("prevResult")
    links = previous.get("interfaces") if isinstance(previous, dict) else None
    for link in links if isinstance(links, list) else ():
        if isinstance(link, dict) and link.get("name") == attachment.interface and link.get("sandbox"):
            mac = link.get("mac")
            if isinstance(mac, str) and _MAC.fullmatch(mac):
                return mac.lower()
    raise CniError(
        BAD_CONFIG,
        f"prevResult: CHECK needs the result of ADD, with interface {attachment.interface} and its mac",
    )


def addresses_before(call: Call, attachment: Attachment) -> tuple[str, ...]:
    """The addresses that ADD's result has for the interface. Raises CniError where it has none."""
    try:
        found = previous_addresses(call.config.get("prevResult"), attachment.interface)
    except ValueError as error:
        raise CniError(BAD_CONFIG, f"prevResult.{error}") from None
    if not found:
        raise CniError(
            BAD_CONFIG, f"prevResult.ips: CHECK needs the addresses that ADD gave {attachment.interface}"
        )
    return found


def result_of(attachment: Attachment, attached: Attached, version: str, given: Given | None = None) -> Raw:
    """The result of an ADD in the form of a version of CNI; 1.1.0 has the MTU as well. `given` is by IPAM."""
    link: Raw = {"name": attachment.interface, "mac": attached.mac, "sandbox": attachment.netns}
    if version == "1.1.0":
        link["mtu"] = attached.mtu
    ip = shaped(given, version) if given is not None else {"dns": {}}
    return {"cniVersion": version, "interfaces": [link], **ip}


def encode_result(result: Raw | None) -> bytes:
    """The answer to a call that went well; only ADD has a result."""
    return _framed(0, msgspec.json.encode(result) + b"\n" if result is not None else b"")


def encode_error(version: str, error: CniError) -> bytes:
    """The answer to a call that failed."""
    body: Raw = {"cniVersion": version, "code": error.code, "msg": error.msg[:_LONGEST]}
    if error.details:
        body["details"] = error.details[:_LONGEST]
    return _framed(1, msgspec.json.encode(body) + b"\n")


def _framed(status: int, output: bytes) -> bytes:
    return b"%d %d\n%b" % (status, len(output), output)
