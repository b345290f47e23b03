"""Built-in kinds keep the rules that users of Kubernetes know."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from lanloom.processes.definitions import manifests
from lanloom_embedded.builtin import (
    BUILTINS,
    default_builtin,
    prune_builtin,
    validate_builtin,
)
from lanloom_embedded.kinds import ServedKind

GOLDEN = Path(__file__).parents[2] / "golden/apiserver"
KINDS = {kind.resource: kind for kind in BUILTINS}
CASES = yaml.load((GOLDEN / "builtin.yaml").read_text(), yaml.CSafeLoader)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda below: (
        st.lists(below, max_size=2) | st.dictionaries(st.sampled_from(["name", "spec", "data"]), below)
    ),
    max_leaves=6,
)


def mutated(document: Any, path: list[int], value: Any) -> Any:
    """A document with something else at a place that the numbers choose."""
    if not path or not isinstance(document, dict | list) or not document:
        return value
    keys = sorted(document) if isinstance(document, dict) else range(len(document))
    key = keys[path[0] % len(document)]
    changed = copy.copy(document)
    changed[key] = mutated(document[key], path[1:], value)
    return changed


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}-{str(case[1])[:60]}")
def test_rules(case: list[Any]) -> None:
    """An object of a built-in kind is good, or every broken rule is named with its field."""
    resource, obj, *expected = case
    default_builtin(KINDS[resource], obj)
    assert prune_builtin(KINDS[resource], obj) == []
    assert [str(error) for error in validate_builtin(KINDS[resource], obj, None)] == expected


@pytest.mark.parametrize("crd", manifests(), ids=lambda crd: crd["metadata"]["name"])
def test_own_crds_are_good(crd: dict[str, Any]) -> None:
    """The CRDs that Lanloom brings along are accepted without any unknown field."""
    kind = KINDS["customresourcedefinitions.apiextensions.k8s.io"]
    default_builtin(kind, crd)
    assert prune_builtin(kind, crd) == []
    assert validate_builtin(kind, crd, None) == []


def test_keywords_that_nobody_knows_are_dropped_and_told() -> None:
    """Keys of a schema that the server doesn't know go at every depth."""
    unknown = {"x-kubernetes-nonsense": 1}
    schema = {
        "type": "object",
        **unknown,
        "properties": {"a": {"type": "array", "items": {"type": "object", **unknown}}},
        "allOf": [dict(unknown)],
    }
    crd = {"metadata": {}, "spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    path = "spec.versions[0].schema.openAPIV3Schema"
    removed = prune_builtin(KINDS["customresourcedefinitions.apiextensions.k8s.io"], crd)
    assert removed == [
        f"{path}.x-kubernetes-nonsense",
        f"{path}.allOf[0].x-kubernetes-nonsense",
        f"{path}.properties[a].items.x-kubernetes-nonsense",
    ]
    assert schema == {
        "type": "object",
        "properties": {"a": {"type": "array", "items": {"type": "object"}}},
        "allOf": [{}],
    }


@pytest.mark.parametrize("kind", BUILTINS, ids=lambda kind: kind.resource)
def test_names_are_complete(kind: ServedKind) -> None:
    """Every built-in kind has a schema that describes the whole object and each of its fields."""
    assert kind.builtin
    assert kind.schema is not None
    assert {"apiVersion", "kind", "metadata"} <= kind.schema["properties"].keys()
    assert kind.schema["description"]


@given(st.sampled_from(CASES), st.lists(st.integers(0, 9), max_size=5), JSON)
def test_strange_objects_are_refused_politely(case: list[Any], path: list[int], value: Any) -> None:
    """Whatever stands in an object, its checks answer with errors and never fail themselves."""
    kind, obj = KINDS[case[0]], mutated(copy.deepcopy(case[1]), path, value)
    if not isinstance(obj, dict) or not isinstance(obj.get("metadata"), dict):
        return
    if not all(isinstance(obj["metadata"].get(name, ""), str) for name in ("name", "namespace")):
        return
    default_builtin(kind, obj)
    prune_builtin(kind, obj)
    assert all(error.type for error in validate_builtin(kind, obj, None))


def test_secret_text_becomes_data() -> None:
    """stringData is moved into data, over what is there, and the type is Opaque if none is given."""
    secret = {"metadata": {"name": "a"}, "stringData": {"a": "é"}, "data": {"a": "eA==", "b": "eQ=="}}
    default_builtin(KINDS["secrets"], secret)
    assert secret == {"metadata": {"name": "a"}, "data": {"a": "w6k=", "b": "eQ=="}, "type": "Opaque"}


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"),
        ("a:latest", "Always"),
        ("registry:5000/a", "Always"),
        ("a:1", "IfNotPresent"),
        ("a@sha256:0", "IfNotPresent"),
    ],
)
def test_pull_policy(image: str, policy: str) -> None:
    """An image that can change is always pulled."""
    pod: dict[str, Any] = {"metadata": {}, "spec": {"containers": [{"name": "c", "image": image}]}}
    default_builtin(KINDS["pods"], pod)
    assert pod["spec"]["containers"][0]["imagePullPolicy"] == policy


@pytest.mark.parametrize(
    ("resource", "old", "new", "expected"),
    [
        ("secrets", {"type": "Opaque"}, {"type": "x"}, 'type: Invalid value: "x": field is immutable'),
        (
            "configmaps",
            {"immutable": True, "data": {"a": "x"}},
            {"immutable": True, "data": {"a": "y"}},
            "data: Forbidden: field is immutable when `immutable` is set",
        ),
        (
            "clusterrolebindings.rbac.authorization.k8s.io",
            {"roleRef": {"kind": "ClusterRole", "name": "a", "apiGroup": "rbac.authorization.k8s.io"}},
            {"roleRef": {"kind": "ClusterRole", "name": "b", "apiGroup": "rbac.authorization.k8s.io"}},
            'roleRef: Invalid value: {"apiGroup":"rbac.authorization.k8s.io",'
            '"kind":"ClusterRole","name":"b"}: cannot change roleRef',
        ),
    ],
)
def test_what_never_changes(resource: str, old: dict[str, Any], new: dict[str, Any], expected: str) -> None:
    """Fields that are fixed at creation can't be changed later."""
    metadata = {"metadata": {"name": "a"}}
    errors = validate_builtin(KINDS[resource], metadata | new, metadata | old)
    assert [str(error) for error in errors] == [expected]


def test_what_a_definition_keeps() -> None:
    """Group, scope, kind and plural of a definition stay, and so do versions in which objects may be stored."""
    kind = KINDS["customresourcedefinitions.apiextensions.k8s.io"]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object"}},
    }
    names = {"plural": "as", "singular": "a", "kind": "A", "listKind": "AList"}
    spec = {"group": "example.org", "scope": "Cluster", "names": names, "versions": [version]}
    old = {"metadata": {"name": "as.example.org"}, "spec": spec, "status": {"storedVersions": ["v1"]}}
    changed = spec | {
        "group": "example.com",
        "scope": "Namespaced",
        "names": names | {"plural": "bs", "kind": "B"},
        "versions": [version | {"name": "v2"}],
    }
    assert [str(error) for error in validate_builtin(kind, old | {"spec": changed}, old)] == [
        'spec.scope: Invalid value: "Namespaced": field is immutable',
        'spec.group: Invalid value: "example.com": field is immutable',
        'spec.names.kind: Invalid value: "B": field is immutable',
        'spec.names.plural: Invalid value: "bs": field is immutable',
        'status.storedVersions[0]: Invalid value: "v1": missing from spec.versions; v1 was previously a storage '
        "version, and must remain in spec.versions until a storage migration ensures no data remains persisted in "
        "v1 and removes v1 from status.storedVersions",
    ]


def test_a_pod_keeps_its_node() -> None:
    """A pod that has a node stays there."""
    pod: dict[str, Any] = {
        "metadata": {},
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]},
    }
    moved = copy.deepcopy(pod)
    moved["spec"]["nodeName"] = "n2"
    errors = validate_builtin(KINDS["pods"], moved, pod)
    assert [error.field for error in errors] == ["spec.nodeName"]


def test_pods_are_patient_with_nodes() -> None:
    """A pod tolerates a node's trouble for five minutes unless it says otherwise, and is filled in only once."""
    own = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 5,
    }
    pod: dict[str, Any] = {"metadata": {}, "spec": {"containers": [], "tolerations": [own]}}
    default_builtin(KINDS["pods"], pod)
    once = copy.deepcopy(pod)
    default_builtin(KINDS["pods"], pod)
    assert pod == once
    keys = [each["key"] for each in pod["spec"]["tolerations"]]
    assert keys == ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]
    assert pod["spec"]["tolerations"][0]["tolerationSeconds"] == 5
    assert pod["spec"]["priority"] == 0


def test_pods_that_tolerate_everything_stay_so() -> None:
    """A toleration without a key covers all troubles, so that none is added."""
    pod: dict[str, Any] = {
        "metadata": {},
        "spec": {"containers": [], "tolerations": [{"operator": "Exists"}]},
    }
    default_builtin(KINDS["pods"], pod)
    assert pod["spec"]["tolerations"] == [{"operator": "Exists"}]


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ([{}], "BestEffort"),
        ([{"requests": {"cpu": "1"}}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}], "Guaranteed"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}], "Burstable"),
        ([{"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "0.5"}}], "Burstable"),
    ],
)
def test_quality_of_service(resources: list[dict[str, Any]], quality: str) -> None:
    """A pod's class follows from what its containers ask for."""
    containers = [{"name": f"c{index}", "resources": each} for index, each in enumerate(resources)]
    pod: dict[str, Any] = {"metadata": {}, "spec": {"containers": containers}}
    default_builtin(KINDS["pods"], pod)
    assert pod["status"]["qosClass"] == quality
