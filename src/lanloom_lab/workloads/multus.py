"""What Multus does for a pod, as pure functions.

Which NADs its annotations name, what their plugins are called with, and what is reported of them: as version 1.2 of the
specification of network-attachment-definitions says.
"""

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from lanloom.api.meta import Key
from lanloom.api.multus import DEFAULT_NETWORK, MULTUS_NETWORKS
from lanloom.api.multusconfig import NamespaceIsolation

Raw = dict[str, Any]

RESOURCE_NAME = "k8s.v1.cni.cncf.io/resourceName"
"""Annotation of a NAD: the resource whose device its plugin is called with, as `deviceID`."""

PLUGINS = ("/opt/cni/bin", "/usr/lib/cni")
"""Where plugins are looked for: the agent's, and Debian's of the reference plugins."""


class Unreadable(Exception):
    """An annotation or a NAD that Multus would refuse; the message says which and why."""


class Selection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An element of the annotation: the NAD, and what the pod wishes of its interface."""

    name: str
    namespace: str = ""
    interface: str = ""
    mac: str = ""
    ips: tuple[str, ...] = ()


class Attachment(Struct, frozen=True, kw_only=True):
    """One interface of a pod: the NAD that it comes from, and its plugins with their configurations, in order."""

    nad: Key
    interface: str
    plugins: tuple[Raw, ...]
    default: bool = False


class Pod(Struct, frozen=True, kw_only=True):
    """The pod for which plugins are called. `netns` is the path of the namespace."""

    key: Key
    uid: str
    container: str
    netns: str


_SELECTIONS = msgspec.json.Decoder(tuple[Selection, ...])


def selections(annotations: Mapping[str, str], namespace: str) -> tuple[tuple[Selection, bool], ...]:
    """Return what a pod of that namespace is to be attached to, each with whether it is its default network.

    Without a default network a pod of the lab has no `eth0`.
    Every selection has its namespace and its interface. Raises Unreadable.
    """
    first = _parsed(DEFAULT_NETWORK, annotations)
    if len(first) > 1:
        raise Unreadable(f"the annotation {DEFAULT_NETWORK} names {len(first)} networks, not one")
    others = _parsed(MULTUS_NETWORKS, annotations)
    named = [(item, "eth0", True) for item in first]
    named += [(item, f"net{number}", False) for number, item in enumerate(others, 1)]
    return tuple(
        (
            msgspec.structs.replace(
                item, namespace=item.namespace or namespace, interface=item.interface or interface
            ),
            default,
        )
        for item, interface, default in named
    )


def _parsed(name: str, annotations: Mapping[str, str]) -> tuple[Selection, ...]:
    text = annotations.get(name, "").strip()
    try:
        if text.startswith("["):
            return _SELECTIONS.decode(text)
        return tuple(_short(item.strip()) for item in text.split(",")) if text else ()
    except (msgspec.DecodeError, ValueError) as error:
        raise Unreadable(f"the annotation {name} can't be read: {error}") from None


def _short(text: str) -> Selection:
    """`[namespace/]name[@interface]`."""
    path, at, interface = text.partition("@")
    namespace, slash, name = path.rpartition("/")
    if not name or "/" in namespace or (at and not interface) or (slash and not namespace):
        raise ValueError(f"{text!r} is not [namespace/]name[@interface]")
    return Selection(name=name, namespace=namespace, interface=interface)


def check_isolation(isolation: NamespaceIsolation, namespace: str, nad: Key) -> None:
    """Raise Unreadable for a NAD that isolation keeps from pods of a namespace, before it is looked for."""
    if not isolation.allows(namespace, nad):
        raise Unreadable(
            f"namespace isolation is on: the pod is in namespace {namespace}, and its annotation names a NAD of "
            f"{nad.namespace}"
        )


def attachment(selection: Selection, config: str, *, default: bool) -> Attachment:
    """Return the interface that a NAD with this configuration gives. Raises Unreadable."""
    nad = Key(selection.namespace, selection.name)
    try:
        whole = json.loads(config)
        name, version = whole.get("name") or nad.name, whole.get("cniVersion", "0.1.0")
        plugins = tuple(
            {**item, "name": name, "cniVersion": version} | _plugin_arguments(selection, item)
            for item in whole.get("plugins", [whole])
        )
        types = [item["type"] for item in plugins]
    except (ValueError, AttributeError, TypeError, KeyError) as error:
        raise Unreadable(f"spec.config of the NAD {nad} is no CNI configuration: {error!r}") from None
    if not types or not all(isinstance(item, str) and item and "/" not in item for item in types):
        raise Unreadable(f"spec.config of the NAD {nad} names no plugin")
    return Attachment(nad=nad, interface=selection.interface, plugins=plugins, default=default)


def _plugin_arguments(selection: Selection, plugin: Raw) -> Raw:
    """Return what the pod wishes and this plugin is able to do, by CNI's convention of capabilities."""
    wanted = {"mac": selection.mac, "ips": list(selection.ips)}
    able = plugin.get("capabilities") or {}
    granted = {key: value for key, value in wanted.items() if value and able.get(key)}
    return {"runtimeConfig": granted} if granted else {}


def with_device(config: str, annotations: Mapping[str, str], devices: Mapping[str, str]) -> str:
    """Return the configuration of a NAD for a pod with these devices by resource.

    The NAD's annotation names its resource. A configuration that can't be read stays as it is.
    """
    device = devices.get(annotations.get(RESOURCE_NAME, ""))
    try:
        return json.dumps(json.loads(config) | {"deviceID": device}) if device else config
    except (ValueError, TypeError):
        return config


_SCRIPT = """
type=$1
shift
for directory in {directories}; do
    if [ -x "$directory/$type" ]; then cd / && exec env -i "$@" "$directory/$type"; fi
done
printf '{{"code": 999, "msg": "failed to find plugin \\\\"%s\\\\" in path [{directories}]"}}' "$type"
exit 1
""".format(directories=" ".join(PLUGINS))


def call(command: str, pod: Pod, interface: str, plugin: Raw) -> tuple[str, ...]:
    """Return the command line that calls a plugin, which gets its configuration on standard input.

    It is as containerd does it.
    """
    arguments = (
        f"IgnoreUnknown=1;K8S_POD_NAMESPACE={pod.key.namespace};K8S_POD_NAME={pod.key.name};"
        f"K8S_POD_INFRA_CONTAINER_ID={pod.container};K8S_POD_UID={pod.uid}"
    )
    variables = {
        "PATH": "/usr/sbin:/usr/bin",
        "CNI_PATH": ":".join(PLUGINS),
        "CNI_COMMAND": command,
        "CNI_CONTAINERID": pod.container,
        "CNI_NETNS": pod.netns,
        "CNI_IFNAME": interface,
        "CNI_ARGS": arguments,
    }
    words = (f"{name}={value}" for name, value in variables.items())
    return ("sh", "-c", _SCRIPT, "cni", plugin["type"], *words)


def result(output: str) -> Raw:
    """Return the result that a plugin printed. Raises Unreadable."""
    try:
        return dict(json.loads(output or "{}"))
    except (ValueError, TypeError) as error:
        raise Unreadable(f"the plugin's result can't be read: {error}") from None


def complaint(output: str, errors: str) -> str:
    """Return why a plugin failed, in its own words."""
    try:
        answer = json.loads(output)
        texts = [str(answer[name]) for name in ("msg", "details") if answer.get(name)]
    except (ValueError, AttributeError, TypeError):
        texts = []
    return "; ".join(texts) or output.strip() or errors.strip() or "it failed without a word"


def network_status(results: Iterable[tuple[Attachment, Raw]]) -> str:
    """Return the annotation's value for these interfaces and the last results of their plugins."""
    return json.dumps([_status(item, result) for item, result in results], indent=4)


def _status(item: Attachment, result: Raw) -> Raw:
    inside = [link for link in result.get("interfaces", ()) if link.get("sandbox")]
    status: Raw = {"name": str(item.nad), "interface": item.interface}
    if ips := addresses(result):
        status["ips"] = ips
    if inside and inside[0].get("mac"):
        status["mac"] = inside[0]["mac"]
    return status | ({"default": True} if item.default else {}) | {"dns": result.get("dns", {})}


def addresses(result: Raw) -> list[str]:
    """Return the addresses of a plugin's result, without their prefix lengths."""
    return [item["address"].split("/")[0] for item in result.get("ips", ())]
