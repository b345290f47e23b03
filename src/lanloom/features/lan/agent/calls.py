"""CNI calls of `macvtap` and `k8slanveth`: what they say of a LAN, and their results.

Every field of the configuration is checked that means something to a LAN. Who may write a NAD wrote that, so nothing of
it is believed.
"""

import re

from lanloom.features.lan.agent.ports import MACVTAP, VETH, Attached, Attachment, Device
from lanloom.features.lan.rules.addressing import Given, previous_addresses, shaped
from lanloom.features.lan.rules.nads import BRIDGE
from lanloom.runtime.cni.calls import BAD_CONFIG, BAD_ENVIRONMENT, Call, CniError, Raw

PROGRAMS = {"macvtap": MACVTAP, "k8slanveth": VETH}
_SPOKE = re.compile(r"[a-z0-9]([-a-z0-9]{0,11}[a-z0-9])?", re.ASCII)
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}", re.ASCII)
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?", re.ASCII)
_FILE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}", re.ASCII)


_POD = ("K8S_POD_NAMESPACE", "K8S_POD_NAME")
"""The arguments that tell whose an interface is; which LANs a pod may have depends on the first."""


def check_type(call: Call) -> None:
    """Raise CniError unless the configuration is for the program that was called."""
    if call.config.get("type") != call.program:
        raise CniError(BAD_CONFIG, f"type: must be {call.program}, as the program that was called")


def ipam_type(config: Raw) -> str:
    """Return the IPAM program that a configuration names, empty for none. Raises CniError."""
    section = _object(config, "ipam")
    if not section:
        return ""
    name = section.get("type")
    if not isinstance(name, str) or not _FILE.fullmatch(name):
        raise CniError(BAD_CONFIG, "ipam.type: must be the name of an IPAM program, such as lanloom-ipam")
    if name in PROGRAMS:
        raise CniError(BAD_CONFIG, f"ipam.type: {name} is no IPAM program; name one such as lanloom-ipam")
    return name


def config_fault(config: Raw) -> str:
    """Return why an ADD of `k8slanveth` with the configuration of a NAD is refused for every pod; empty for others."""
    kind = config.get("type")
    if not isinstance(kind, str) or PROGRAMS.get(kind) != VETH:
        return ""
    call = Call(program=kind, command="ADD", config=config)
    try:
        _device(call)
        _is_bridged(call)
        _mtu(config)
    except CniError as error:
        return error.msg
    return ""


def attachment_of(call: Call) -> Attachment:
    """Return the attachment of an ADD or CHECK. Raises CniError, which names the variable or the field."""
    arguments = _arguments(call.args)
    _check_addresses(call)
    return Attachment(
        device=_device(call),
        container=call.container,
        netns=call.netns,
        interface=call.interface,
        pod=_pod(arguments),
        network=call.network_name,
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
    """Return the spoke: of a machine by the device that Multus adds for the pod's resource, of a pod by `veth`."""
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
    """Return whether KubeVirt's bridge binding uses the interface, as the NAD says."""
    binding = call.config.get("binding")
    if binding is None:
        return False
    if binding != BRIDGE or PROGRAMS[call.program] != VETH:
        raise CniError(BAD_CONFIG, f"binding: must be {BRIDGE}, in a NAD of the type k8slanveth, or missing")
    return True


def _mac(config: Raw, arguments: dict[str, str]) -> str:
    """Return the hardware address that is asked for, by CNI's conventions in this order; empty for any."""
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
    """Raise CniError for addresses without a program that gives them, and for what follows another plugin."""
    if _object(call.config, "runtimeConfig").get("ips") and not ipam_type(call.config):
        raise CniError(
            BAD_CONFIG,
            "runtimeConfig.ips: the NAD has no `ipam` that could give addresses; remove `ips` of the pod's annotation, "
            "or take a NAD with `ipam`",
        )
    if call.command == "ADD" and call.config.get("prevResult") is not None:
        raise CniError(BAD_CONFIG, f"prevResult: {call.program} must be the first plugin of its list")


def _mtu(config: Raw) -> int:
    """Return the MTU that a configuration asks for, 0 for that of the LAN. Raises CniError."""
    mtu = config.get("mtu", 0)
    if not isinstance(mtu, int) or isinstance(mtu, bool) or not 0 <= mtu <= 65535:
        raise CniError(BAD_CONFIG, "mtu: must be a number from 0 to 65535")
    return mtu


def check_previous(call: Call, attachment: Attachment) -> str:
    """Return the hardware address that ADD's result has for the interface. Raises CniError without such a result."""
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
    """Return the addresses that ADD's result has for the interface. Raises CniError where it has none."""
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
    """Return the result of an ADD in the form of a version of CNI; 1.1.0 has the MTU as well. `given` is by IPAM."""
    link: Raw = {"name": attachment.interface, "mac": attached.mac, "sandbox": attachment.netns}
    if version == "1.1.0":
        link["mtu"] = attached.mtu
    ip = shaped(given, version) if given is not None else {"dns": {}}
    return {"cniVersion": version, "interfaces": [link], **ip}
