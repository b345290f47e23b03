"""Bodies of the objects that cases create."""

from typing import Any

Raw = dict[str, Any]

GROUP = "example.com"
SIZES = {"type": "integer", "minimum": 1, "maximum": 10, "default": 3}

WIDGET_SPEC: Raw = {
    "type": "object",
    "properties": {
        "size": SIZES,
        "mode": {"type": "string", "enum": ["auto", "manual"], "default": "auto"},
        "code": {"type": "string", "pattern": "^[a-z]+$", "minLength": 2, "maxLength": 8},
        "ratio": {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1},
        "step": {"type": "integer", "multipleOf": 5},
        "count": {"type": "integer", "format": "int32"},
        "enabled": {"type": "boolean"},
        "tags": {
            "type": "array",
            "minItems": 1,
            "maxItems": 3,
            "items": {"type": "string"},
            "x-kubernetes-list-type": "set",
        },
        "ports": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["port"],
            "items": {
                "type": "object",
                "required": ["port"],
                "properties": {
                    "port": {"type": "integer"},
                    "protocol": {"type": "string", "default": "TCP"},
                    "name": {"type": "string"},
                },
            },
        },
        "limits": {
            "type": "object",
            "minProperties": 1,
            "maxProperties": 2,
            "additionalProperties": {"type": "integer"},
        },
        "amount": {"x-kubernetes-int-or-string": True},
        "note": {"type": "string", "nullable": True},
        "plain": {"type": "string"},
        "fallback": {"type": "string", "default": "none", "nullable": True},
        "raw": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
        "since": {"type": "string", "format": "date-time"},
        "address": {"type": "string", "format": "ipv4"},
        "network": {"type": "string", "format": "cidr"},
        "blob": {"type": "string", "format": "byte"},
        "source": {
            "type": "object",
            "properties": {"file": {"type": "string"}, "url": {"type": "string"}},
            "oneOf": [{"required": ["file"]}, {"required": ["url"]}],
        },
        "target": {
            "type": "object",
            "properties": {"host": {"type": "string"}, "port": {"type": "integer"}},
            "anyOf": [{"required": ["host"]}, {"required": ["port"]}],
        },
        "legacy": {"type": "string", "not": {"enum": ["old"]}},
        "nested": {
            "type": "object",
            "required": ["name"],
            "properties": {
                "name": {"type": "string"},
                "deep": {
                    "type": "object",
                    "default": {},
                    "properties": {"level": {"type": "integer", "default": 7}},
                },
            },
        },
    },
}
WIDGET_STATUS: Raw = {
    "type": "object",
    "properties": {
        "phase": {"type": "string"},
        "seen": {"type": "integer"},
        "conditions": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["type"],
                "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
            },
        },
    },
}
WIDGET_SCHEMA: Raw = {
    "type": "object",
    "description": "A widget, for tests.",
    "properties": {"spec": WIDGET_SPEC, "status": WIDGET_STATUS},
}
WIDGET_COLUMNS = [
    {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "How large it is"},
    {"name": "Mode", "type": "string", "jsonPath": ".spec.mode"},
    {"name": "Ports", "type": "string", "jsonPath": ".spec.ports[*].port", "priority": 1},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="ready")].status'},
    {"name": "Enabled", "type": "boolean", "jsonPath": ".spec.enabled"},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


def named(api_version: str, kind: str, name: str, **rest: Any) -> Raw:
    """Any object; `metadata` in the rest is merged with the name."""
    metadata = {"name": name, **rest.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


def config_map(name: str, data: dict[str, str] | None = None, **metadata: Any) -> Raw:
    """A ConfigMap: the simplest built-in object."""
    return named("v1", "ConfigMap", name, metadata=metadata, data={"k": "v"} if data is None else data)


def widget(name: str, spec: Raw | None = None, **metadata: Any) -> Raw:
    """A Widget: a namespaced custom object with a rich schema and a status subresource."""
    return named("example.com/v1", "Widget", name, metadata=metadata, spec={} if spec is None else spec)


def gadget(name: str, spec: Raw | None = None, **metadata: Any) -> Raw:
    """A Gadget: a cluster-scoped custom object without subresources."""
    return named("example.com/v1", "Gadget", name, metadata=metadata, spec={} if spec is None else spec)


def namespace(name: str, **metadata: Any) -> Raw:
    """A Namespace."""
    return named("v1", "Namespace", name, metadata=metadata)


def node(name: str, **metadata: Any) -> Raw:
    """A Node."""
    return named("v1", "Node", name, metadata=metadata)


def pod(name: str, **metadata: Any) -> Raw:
    """The smallest Pod that is valid."""
    container = {"name": "main", "image": "example.com/image:1"}
    spec = {"containers": [container], "automountServiceAccountToken": False}
    return named("v1", "Pod", name, metadata=metadata, spec=spec)


def lease(name: str, holder: str = "me", **metadata: Any) -> Raw:
    """A Lease."""
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15, "renewTime": "2020-01-02T03:04:05.678901Z"}
    return named("coordination.k8s.io/v1", "Lease", name, metadata=metadata, spec=spec)


def event(name: str, namespace: str) -> Raw:
    """An Event about a Widget of the namespace."""
    about = {"apiVersion": "example.com/v1", "kind": "Widget", "namespace": namespace, "name": "w"}
    return named(
        "v1",
        "Event",
        name,
        metadata={"namespace": namespace},
        involvedObject=about,
        reason="Tested",
        message="A test looked at it",
        type="Normal",
        count=1,
        source={"component": "tests"},
        firstTimestamp="2020-01-02T03:04:05Z",
        lastTimestamp="2020-01-02T03:04:05Z",
    )


def owner(api_version: str, kind: str, name: str, uid: str, **rest: Any) -> Raw:
    """An owner reference."""
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": uid, **rest}


def crd(group: str, kind: str, **changes: Any) -> Raw:
    """A CRD of a namespaced kind with a free spec; `changes` go to its spec."""
    plural = f"{kind.lower()}s"
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": free}}},
    }
    spec = {
        "group": group,
        "scope": "Namespaced",
        "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
        "versions": [version],
        **changes,
    }
    return named("apiextensions.k8s.io/v1", "CustomResourceDefinition", f"{plural}.{group}", spec=spec)


def crd_version(name: str = "v1", schema: Raw | None = None, *, storage: bool = True, **rest: Any) -> Raw:
    """One version of a CRD."""
    found = {"type": "object", "x-kubernetes-preserve-unknown-fields": True} if schema is None else schema
    return {
        "name": name,
        "served": True,
        "storage": storage,
        "schema": {"openAPIV3Schema": found},
        **rest,
    }


def shared_crds() -> list[Raw]:
    """The CRDs that most cases use."""
    names = {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    rich: Raw = {"subresources": {"status": {}}, "additionalPrinterColumns": WIDGET_COLUMNS}
    return [
        crd(
            GROUP,
            "Widget",
            names={**names, "shortNames": ["wd"], "categories": ["all"]},
            versions=[
                crd_version("v1", WIDGET_SCHEMA, **rich),
                crd_version("v1beta1", WIDGET_SCHEMA, storage=False, subresources={"status": {}}),
            ],
        ),
        crd(GROUP, "Gadget", scope="Cluster"),
    ]
