"""Whatever is sent to the webhooks, they answer; and what they let through is safe to write into a root-owned file."""

import copy
import json
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from lanloom.api import names
from lanloom.api.admission import AdmissionRequest
from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.l3 import L3
from lanloom.api.l3annotations import l3_of
from lanloom.api.multus import NADS, NetworkAttachmentDefinition
from lanloom.api.reading import convert
from lanloom.api.resource import Resource
from lanloom.features.vlan.admission import check_request
from tests.features.vlan.admission.requests import (
    STATIC,
    Raw,
    admission,
    annotated,
    machine,
    network,
    overlay_config,
    report,
    report_verdict,
    static,
    vm,
    world,
)
from tests.features.vlan.cluster import cluster_network, nad, vlan_config
from tests.harness.admission import request

ROUTES = json.dumps([{"to": "10.20.0.0/16", "via": "192.168.1.1"}])
SEEN = world(
    machine("stopped", "net"),
    nad("overlay", "cluster-1", config=overlay_config("overlay")),
    vm("web", "overlay", "net"),
)
BODIES: dict[str, tuple[Resource[Any], list[Raw]]] = {
    "networks": (
        NADS,
        [
            network(),
            annotated(static(STATIC), gateway="192.168.1.1", routes=ROUTES, dns="9.9.9.9"),
            nad("net", "cluster-1", config={"vlanTrunk": [{"minID": 10, "maxID": 20}, {"id": 30}]}),
        ],
    ),
    "cluster networks": (
        CLUSTER_NETWORKS,
        [annotated(cluster_network("bare"), rollout='{"maxUnavailable": "25%", "canary": ["node1"]}')],
    ),
    "uplinks": (
        VLAN_CONFIGS,
        [
            vlan_config(
                "two",
                "bare",
                nodeSelector={"rack": "b"},
                uplink={
                    "linkAttributes": {"mtu": 9000, "txQLen": 5, "hardwareAddr": "52:54:00:12:34:56"},
                    "bondOptions": {"mode": "802.3ad", "miimon": 100},
                },
            )
        ],
    ),
    "reports": (CLUSTER_NETWORK_NODES, [report("cluster-1", "node1")]),
}
EVIL = st.sampled_from(
    [
        "",
        "\n",
        "[ipv4]\nmethod=auto",
        '"',
        "'",
        "\u2028",
        "\x00",
        "../..",
        "true",
        "static",
        "[" * 2000,
        "9" * 400,
    ]
)
TEXTS = EVIL | st.text(max_size=20)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


@st.composite
def spoilt(draw: st.DrawFn, bodies: list[Raw]) -> Raw:
    """An object of which some parts, also inside its JSON texts, are something else or are gone."""
    body = copy.deepcopy(draw(st.sampled_from(bodies)))
    for _ in range(draw(st.integers(0, 3))):
        _spoil(draw, body)
    return body


def _spoil(draw: st.DrawFn, value: Any) -> None:
    """Goes down to some part and changes it there. The API server has checked the name, and that metadata is there."""
    while isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        keys = [key for key in keys if key not in ("name", "namespace", "kind")]
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        inner = _parsed(value[key])
        if key == "metadata" or (isinstance(inner, dict | list) and inner and draw(st.booleans())):
            if inner is not value[key]:
                _spoil(draw, inner)
                value[key] = json.dumps(inner)
                return
            value = inner
            continue
        if isinstance(value, dict) and draw(st.booleans()):
            del value[key]
        else:
            value[key] = draw(JSON)
        return


def _parsed(value: Any) -> Any:
    """What a JSON text holds, any other value as it is."""
    try:
        return json.loads(value) if isinstance(value, str) and value[:1] in ("{", "[") else value
    except (ValueError, RecursionError):
        return value


@st.composite
def requests(draw: st.DrawFn) -> AdmissionRequest:
    """A request about spoilt objects."""
    resource, bodies = draw(st.sampled_from(list(BODIES.values())))
    new, old = (draw(st.none() | spoilt(bodies) | st.sampled_from(bodies)) for _ in range(2))
    if new is None and old is None:
        new = bodies[0]
    return request(resource, new, old)


DEFAULTED = ("/metadata/labels", "/spec/uplink/linkAttributes/hardwareAddr")


@given(requests())
def test_every_request_is_answered(asked: AdmissionRequest) -> None:
    """A request about any objects is allowed, or refused with a message of one line; nothing raises."""
    verdict = (
        report_verdict(asked)
        if asked.resource.resource == CLUSTER_NETWORK_NODES.plural
        else check_request(asked, SEEN)
    )
    assert verdict.allowed == (not verdict.message)
    assert all(text.isprintable() for text in (verdict.message, *verdict.warnings))
    assert len(verdict.message) < 5_000
    defaults = admission().mutate(asked)
    assert defaults.allowed == (not defaults.message)
    assert all(operation["path"].startswith(DEFAULTED) for operation in defaults.patch)


@given(st.dictionaries(TEXTS | st.sampled_from(["metadata", "spec", "status"]), JSON, max_size=4))
def test_any_object_is_answered(body: Raw) -> None:
    """Even an object that has nothing of its kind is answered, with its operation whatever it is."""
    for resource, bodies in BODIES.values():
        for new, old in ((body, None), (None, body), (body, bodies[0]), (bodies[0], body)):
            asked = msgspec.structs.replace(request(resource, bodies[0]), object=new, old_object=old)
            check_request(asked, SEEN)
            admission().mutate(asked)


@given(spoilt(BODIES["networks"][1]))
def test_what_is_allowed_is_safe(body: Raw) -> None:
    """Node addresses that the webhook lets through hold no character that could end a value, a line or a section."""
    if not check_request(request(NADS, body), SEEN).allowed:
        return
    value = l3_of(convert(body, NetworkAttachmentDefinition))
    if value is None:
        return
    parts = [value.mode, *value.addresses, *value.addresses.values(), *_routed(value)]
    alphabet = set("abcdefghijklmnopqrstuvwxyz0123456789.-/")
    assert set("".join(parts)) <= alphabet
    assert 2 <= value.vid <= 4094


def _routed(value: L3) -> list[str]:
    hops = [text for route in value.routing.routes for text in (route.to, route.via)]
    return [value.routing.gateway, *value.routing.dns, *hops]


def test_the_objects_that_are_spoilt_are_good() -> None:
    """Before they are spoilt, the objects are allowed; else there would be little to find."""
    for resource, bodies in BODIES.values():
        if resource is not CLUSTER_NETWORK_NODES:
            assert [check_request(request(resource, body), world()).message for body in bodies] == [""] * len(
                bodies
            )
    assert names.GATEWAY in BODIES["networks"][1][1]["metadata"]["annotations"]
