"""What kubectl says of the embedded server alone: its own kinds, its refusals, its validation."""

import re
from random import Random
from typing import Any

import pytest

from lanloom.features.vlan.views.apply import LAST_APPLIED, applied
from tests.embedded.cases.kit.objects import Raw, config_map, widget
from tests.embedded.kubectl.runner import Desk, Kubectl, Program

pytestmark = pytest.mark.slow


@pytest.fixture
def k(program: Program, embedded_desk: Desk, request: pytest.FixtureRequest) -> Kubectl:
    """kubectl in a namespace of the test's own."""
    return embedded_desk.kubectl(program, request.node.originalname)


EXPLAINED = {
    "clusternetworks": "A network of uplinks",
    "vc.spec.uplink": "linkAttributes",
    "clusternetworknodes.status.interfaces": "vlanId",
    "net-attach-def.spec": "config",
}


@pytest.mark.parametrize("field", EXPLAINED)
def test_our_kinds_are_explained(k: Kubectl, field: str) -> None:
    """kubectl explain tells what the fields of Lanloom's kinds mean."""
    assert EXPLAINED[field] in k("explain", field)


def test_server_side_apply(k: Kubectl) -> None:
    """kubectl applies on the server: again without a change, and by another manager without a conflict."""
    file = k.file("w.yaml", widget("a", {"size": 2, "ports": [{"port": 80}]}))
    k("apply", "--server-side", "-f", file)
    version = k("get", "widgets", "a", "-o", "jsonpath={.metadata.resourceVersion}")
    k("apply", "--server-side", "-f", file)
    assert k("get", "widgets", "a", "-o", "jsonpath={.metadata.resourceVersion}") == version
    k("apply", "--server-side", "--field-manager=other", "-f", file)
    more = k.file("w.yaml", widget("a", {"size": 3, "ports": [{"port": 80}]}))
    k("apply", "--server-side", "--field-manager=other", "-f", more)
    assert (k.last.code, ".spec.size" in k.last.error) == (1, True)
    k("apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", more)
    assert k.last.code == 0


def test_unknown_fields_are_refused(k: Kubectl) -> None:
    """kubectl refuses a manifest with a field that doesn't exist, and names it."""
    k("create", "-f", k.file("c.yaml", {**config_map("a"), "nonsense": 1}))
    assert k.last.code == 1
    assert "nonsense" in k.last.error


def test_values_of_a_wrong_type_are_refused(k: Kubectl) -> None:
    """kubectl refuses a manifest with a value of a wrong type, and names the field."""
    k("create", "-f", k.file("w.yaml", widget("a", {"size": "large"})))
    assert k.last.code == 1
    assert "spec.size" in k.last.error


OBJECTS = 80
_WRITTEN = ("resourceVersion", "generation", "managedFields")
_DIFFERENT = re.compile(r"^diff .*\.(w\d+)$", re.MULTILINE)


def test_what_apply_leaves(program: Program, embedded_desk: Desk) -> None:
    """An object is as foreseen after `kubectl apply`, and one that stays as it is is none that `kubectl diff` shows."""
    k = embedded_desk.kubectl(program, "apply-foreseen")
    k.strict = True
    rng = Random(12)
    first = [_file(rng, number) for number in range(OBJECTS)]
    second = [_next_file(rng, body) for body in first]
    k("apply", "--validate=false", "-f", k.file("first.yaml", *first))
    for body in first:
        k.api.patch(f"widgets/{body['metadata']['name']}", _by_others(rng))
    before = _stored(k)
    foreseen = {name: applied(before[name], body) for name, body in zip(before, second, strict=True)}
    changed = {name for name, body in foreseen.items() if _told(body) != _told(before[name])}
    assert 0.2 * OBJECTS < len(changed) < 0.9 * OBJECTS
    shown = k("diff", "-f", k.file("second.yaml", *second), code=1)
    assert set(_DIFFERENT.findall(shown)) == changed
    k("apply", "--validate=false", "-f", "second.yaml")
    after = _stored(k)
    for name, body in foreseen.items():
        assert _told(after[name]) == _told(body), (name, before[name])


def _file(rng: Random, number: int) -> Raw:
    metadata: dict[str, Any] = {}
    for field in ("labels", "annotations"):
        if rng.random() < 0.6:
            metadata[field] = {key: rng.choice("uvw") for key in "abc" if rng.random() < 0.5}
    if rng.random() < 0.2:
        metadata["finalizers"] = ["example.com/held"]
    return widget(f"w{number}", {"raw": _map(rng)} if rng.random() < 0.8 else {}, **metadata)


def _next_file(rng: Random, body: Raw) -> Raw:
    """Return the next form of a file: the same, another one, or parts of both."""
    name = body["metadata"]["name"]
    fresh = _file(rng, int(name[1:]))
    chance = rng.random()
    if chance < 0.35:
        return body
    if chance < 0.7:
        return fresh
    metadata = {**fresh["metadata"], **body["metadata"]}
    return {**body, "metadata": metadata, "spec": fresh["spec"]}


def _by_others(rng: Random) -> Raw:
    """Return a merge patch by another user."""
    patch: Raw = {"metadata": {}, "spec": {}}
    for field in ("labels", "annotations"):
        if rng.random() < 0.5:
            patch["metadata"][field] = {key: rng.choice(["x", None]) for key in "abde" if rng.random() < 0.4}
    if rng.random() < 0.5:
        patch["spec"]["raw"] = _map(rng)
    return patch


def _map(rng: Random, depth: int = 3) -> Raw:
    return {key: _value(rng, depth) for key in "abcd" if rng.random() < 0.5}


def _value(rng: Random, depth: int) -> object:
    if depth and rng.random() < 0.5:
        return _map(rng, depth - 1)
    return rng.choice([None, "", "x", 0, 7, True, [], [1], [{"a": 1}], [{"a": 1, "b": 2}]])


def _stored(k: Kubectl) -> dict[str, Raw]:
    """Return the objects by name, in the order of their files."""
    stored = {item["metadata"]["name"]: item for item in k.api.get("widgets").body["items"]}
    return {name: stored[name] for name in (f"w{number}" for number in range(OBJECTS))}


def _told(body: Raw) -> Raw:
    """Return an object without what every write changes, and without labels or annotations that are none."""
    metadata = {key: value for key, value in body["metadata"].items() if value and key not in _WRITTEN}
    annotations = {
        key: value for key, value in body["metadata"]["annotations"].items() if key != LAST_APPLIED
    }
    return body | {"metadata": metadata | {"annotations": annotations}}
