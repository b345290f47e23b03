"""The values of the chart, from which `values.schema.json` follows: a value that no template knows is refused."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

Raw = dict[str, Any]
Directory = Annotated[str, Meta(pattern="^/[A-Za-z0-9._/-]*$")]
Name = Annotated[str, Meta(pattern="^[a-z0-9]([a-z0-9.-]*[a-z0-9])?$")]
PriorityClass = Annotated[str, Meta(pattern="^([a-z0-9]([a-z0-9.-]*[a-z0-9])?)?$")]
Host = Annotated[str, Meta(pattern="^([a-z0-9]([a-z0-9.-]*[a-z0-9])?|[0-9a-f:]*:[0-9a-f]+)$")]
"""A DNS name, or an address of IPv4 or IPv6 as browsers write it, without brackets."""

_LABEL, _PART = "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?", "[a-z0-9]+((\\.|_|__|-+)[a-z0-9]+)*"
_REGISTRY = rf"({_LABEL}(\.{_LABEL})*|\[[0-9A-Fa-f:]+\])(:[0-9]+)?"
Repository = Annotated[str, Meta(pattern=f"^({_REGISTRY}/)?{_PART}(/{_PART})*$")]
"""The name of an image as container runtimes read it: the registry, if any, and the path, without scheme and tag."""


class _Section(Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A section of the values."""


class Image(_Section, frozen=True):
    """The image of all containers: by its digest if one is given, else by its tag, else by the chart's version."""

    repository: Repository
    tag: Annotated[str, Meta(pattern="^([A-Za-z0-9_][A-Za-z0-9._-]*)?$")]
    digest: Annotated[str, Meta(pattern="^(sha256:[0-9a-f]{64})?$")]
    pull_policy: Literal["Always", "IfNotPresent", "Never"]


class Reference(_Section, frozen=True):
    """The name of a Secret."""

    name: Name


class _Pods(_Section, frozen=True):
    """The pods of a Deployment or DaemonSet: where they run, and what other programs read of them."""

    node_selector: dict[str, str]
    tolerations: tuple[Raw, ...]
    affinity: Raw
    priority_class_name: PriorityClass
    pod_labels: dict[str, str]
    pod_annotations: dict[str, str]


class ManagerValues(_Pods, frozen=True):
    """The manager's Deployment."""

    replicas: Annotated[int, Meta(ge=1)]
    disruption_budget: bool
    topology_spread_constraints: tuple[Raw, ...]
    resources: Raw
    extra_args: tuple[str, ...]


class AgentValues(_Pods, frozen=True):
    """The DaemonSet of the agents."""

    features: Annotated[tuple[Literal["vlan", "ipam", "dummy"], ...], Meta(min_length=1)]
    resources: Raw
    extra_args: tuple[str, ...]


class LanValues(_Pods, frozen=True):
    """The DaemonSet of the agents of LANs."""

    enabled: bool
    features: Annotated[tuple[Literal["lan", "liveupdate", "dhcp"], ...], Meta(min_length=1)]
    resources: Raw
    extra_args: tuple[str, ...]


class HostUnit(_Pods, frozen=True):
    """The DaemonSet that installs the reload unit on hosts."""

    enabled: bool


class NamespaceIsolation(_Section, frozen=True):
    """Multus' settings of the same names."""

    enabled: bool
    global_namespaces: Annotated[str, Meta(pattern="^[a-z0-9,.-]*$")]


class Paths(_Section, frozen=True):
    """Directories of the hosts."""

    network_manager: Directory
    kubelet: Annotated[str, Meta(pattern="^/[A-Za-z0-9._/-]*[A-Za-z0-9._-]$")]
    cni_bin: Directory
    cni_config: Directory


class ConsoleValues(_Pods, frozen=True):
    """The web console: a Deployment and a Service, whose users log in with tokens of their own."""

    enabled: bool
    host_names: tuple[Host, ...]
    tls_secret: Name
    resources: Raw


class Monitoring(_Section, frozen=True):
    """A PodMonitor with alerts, and dashboards of Grafana."""

    enabled: bool
    dashboards: bool


class Definitions(_Section, frozen=True):
    """Whether the release installs the kinds of Lanloom, and keeps them when it is uninstalled."""

    install: bool
    keep: bool


class Values(_Section, frozen=True):
    """All values. `values.yaml` has the defaults."""

    image: Image
    image_pull_secrets: tuple[Reference, ...]
    manager: ManagerValues
    agent: AgentValues
    lan: LanValues
    host_unit: HostUnit
    mgmt_vlan: Annotated[int, Meta(ge=0, le=4094)]
    namespace_isolation: NamespaceIsolation
    paths: Paths
    isolated_networks: dict[str, str]
    console: ConsoleValues
    monitoring: Monitoring
    crds: Definitions
    global_: Raw = field(default={}, name="global")
    """What helm passes to every chart of a chart. No template reads it."""


def validated(values: Raw) -> Raw:
    """Return the values if they fit. Raises ValueError, which names the field."""
    msgspec.convert(values, Values)
    return values


def schema() -> Raw:
    """Return the JSON schema of the values."""
    return msgspec.json.schema(Values)


def merged(base: Raw, over: Raw) -> Raw:
    """Return the values with others over them, as helm merges: null removes a key, a list replaces a list."""
    found = dict(base)
    for key, value in over.items():
        if value is None:
            found.pop(key, None)
        elif isinstance(value, dict) and isinstance(found.get(key), dict):
            found[key] = merged(found[key], value)
        else:
            found[key] = value
    return found
