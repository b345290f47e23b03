"""Kinds of the core group but for pods: namespaces, nodes, events, secrets, configmaps, service accounts."""

from lanloom_embedded.builtin.shapes import (
    OBJECT_REFERENCE,
    anything,
    conditions,
    flag,
    int_or_string,
    keyed,
    kind,
    mapping,
    record,
    small,
    text,
    time,
    value_set,
    values,
)
from lanloom_embedded.kinds import (
    ALL_VERBS,
    Raw,
    ServedKind,
    Verb,
)

_TAINT = record(
    "A mark that keeps pods away that don't tolerate it.",
    {
        "key": text("Key of the mark."),
        "value": text("Value of the mark."),
        "effect": text("NoSchedule, PreferNoSchedule or NoExecute."),
        "timeAdded": time("When it was set."),
    },
    required=("key", "effect"),
)

_NODE_INFO = record(
    "Versions of the node's programs.",
    {
        name: text(default="")
        for name in (
            "architecture",
            "bootID",
            "containerRuntimeVersion",
            "kernelVersion",
            "kubeProxyVersion",
            "kubeletVersion",
            "machineID",
            "operatingSystem",
            "osImage",
            "systemUUID",
        )
    },
    default={},
)

_NAMESPACE = kind(
    "A namespace: names are unique within it.",
    {
        "spec": record(
            "How the namespace behaves.",
            {"finalizers": values("Who must agree before the namespace is removed.", default=["kubernetes"])},
            default={},
        ),
        "status": record(
            "State of the namespace.",
            {
                "phase": text("Active or Terminating.", default="Active"),
                "conditions": conditions(),
            },
            default={},
        ),
    },
)

_NODE = kind(
    "A machine of the cluster.",
    {
        "spec": record(
            "How the node is used.",
            {
                "podCIDR": text("Addresses for the node's pods."),
                "podCIDRs": value_set("Addresses for the node's pods, one range per IP family."),
                "providerID": text("The machine's name at its provider."),
                "unschedulable": flag("Whether new pods stay away from the node."),
                "taints": values("Marks that keep pods away.", _TAINT),
                "externalID": text("No longer used."),
                "configSource": anything("No longer used."),
            },
            default={},
        ),
        "status": record(
            "What the node's agent reports.",
            {
                "addresses": keyed(
                    "Addresses of the node.",
                    "type",
                    record(
                        "An address.",
                        {
                            "type": text("InternalIP, ExternalIP or Hostname."),
                            "address": text("The address."),
                        },
                        required=("type", "address"),
                    ),
                ),
                "allocatable": mapping("Resources that pods can use.", int_or_string()),
                "capacity": mapping("Resources of the node.", int_or_string()),
                "conditions": conditions(("lastHeartbeatTime", "lastTransitionTime")),
                "config": anything("No longer used."),
                "daemonEndpoints": record(
                    "Ports of the node's agents.",
                    {
                        "kubeletEndpoint": record(
                            "The kubelet.", {"Port": small("Its port.", default=0)}, default={}
                        )
                    },
                    default={},
                ),
                "features": anything("Features of the node's runtime."),
                "images": values("Container images on the node.", anything()),
                "nodeInfo": _NODE_INFO,
                "phase": text("No longer used."),
                "runtimeHandlers": values("Handlers of the node's runtime.", anything()),
                "volumesAttached": values("Volumes that are attached.", anything()),
                "volumesInUse": values("Volumes that are in use."),
            },
            default={},
        ),
    },
)

_EVENT = kind(
    "A report of something that happened to an object.",
    {
        "involvedObject": OBJECT_REFERENCE | {"default": {}},
        "reason": text("Why, in one CamelCase word."),
        "message": text("What happened, for people."),
        "type": text("Normal or Warning."),
        "count": small("How often it happened."),
        "firstTimestamp": time("When it happened first."),
        "lastTimestamp": time("When it happened last."),
        "eventTime": time("When it happened, with microseconds."),
        "source": record(
            "Who reports.",
            {"component": text("The program."), "host": text("The node on which it runs.")},
            default={},
        ),
        "action": text("What was done about the object."),
        "related": OBJECT_REFERENCE,
        "reportingComponent": text("The program that reports.", default=""),
        "reportingInstance": text("The process that reports.", default=""),
        "series": anything("A run of the same event."),
    },
)

_SECRET = kind(
    "Secret data, for example a key.",
    {
        "data": mapping("The data; values are base64.", text(format="byte")),
        "stringData": mapping("Values as plain text; the server moves them into data."),
        "type": text("What the data is for.", default="Opaque"),
        "immutable": flag("Whether the data can never be changed."),
    },
)

_CONFIG_MAP = kind(
    "Configuration data.",
    {
        "data": mapping("The data, as text."),
        "binaryData": mapping("Data that is no text; values are base64.", text(format="byte")),
        "immutable": flag("Whether the data can never be changed."),
    },
)

_SERVICE_ACCOUNT = kind(
    "An identity for programs that run in pods.",
    {
        "automountServiceAccountToken": flag("Whether pods get the account's token."),
        "imagePullSecrets": values(
            "Secrets for the pulling of images.", record("A secret.", {"name": text("Its name.")})
        ),
        "secrets": keyed("Secrets that the account's pods may use.", "name", OBJECT_REFERENCE),
    },
)


_SERVICE = kind(
    "A name under which pods can be reached. It is kept for those who look it up; nothing routes to it here.",
    {"spec": anything("Which pods, and how."), "status": anything("Where it is reached from outside.")},
)

_NAMESPACE_VERBS: tuple[Verb, ...] = tuple(verb for verb in ALL_VERBS if verb != "deletecollection")


def _served(
    name: str,
    plural: str,
    schema: Raw,
    *short: str,
    namespaced: bool = True,
    has_status: bool = False,
    verbs: tuple[Verb, ...] = ALL_VERBS,
) -> ServedKind:
    return ServedKind(
        group="",
        version="v1",
        kind=name,
        plural=plural,
        namespaced=namespaced,
        short_names=short,
        has_status=has_status,
        verbs=verbs,
        schema=schema,
        builtin=True,
    )


KINDS = (
    _served(
        "Namespace", "namespaces", _NAMESPACE, "ns", namespaced=False, has_status=True, verbs=_NAMESPACE_VERBS
    ),
    _served("Node", "nodes", _NODE, "no", namespaced=False, has_status=True),
    _served("Event", "events", _EVENT, "ev"),
    _served("Secret", "secrets", _SECRET),
    _served("ConfigMap", "configmaps", _CONFIG_MAP, "cm"),
    _served("ServiceAccount", "serviceaccounts", _SERVICE_ACCOUNT, "sa"),
    _served("Service", "services", _SERVICE, "svc"),
)
