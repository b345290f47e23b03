"""Whatever is sent to the webhooks, they answer."""

import copy
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from lanloom.api.admission import AdmissionRequest
from lanloom.api.ipam import (
    NETWORKS,
    NICS,
    Network,
    Nic,
)
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES
from lanloom.api.reading import convert
from lanloom.api.resource import Resource
from lanloom.features.ipam.admission import IpamAdmission
from lanloom.features.ipam.reader import NetworkContext
from lanloom.features.ipam.rules.validate import check_network
from lanloom.features.ipam.state import network_of
from lanloom.kube.errors import NotFound
from lanloom.kube.ports import Listing
from tests.features.ipam.admission.requests import (
    ADMIN,
    AGENT,
    MANAGER,
    Raw,
    agent_of,
    defaults,
    holding,
    network,
    nic,
    subnet,
    with_status,
)
from tests.harness.admission import request
from tests.harness.examples import examples
from tests.harness.virtual import run

BODIES: dict[str, tuple[Resource[Any], list[Raw]]] = {
    "networks": (
        NETWORKS,
        [
            network(),
            network(
                "net1",
                subnet(name="front", dhcp=True),
                {"cidr": "2001:db8::/64", "gateway": "2001:db8::1", "pools": [{"range": "2001:db8::/80"}]},
                name="prod",
                macPrefix="aa:00:00",
                tags=["a"],
                connections=[{"group": "rack1", "mode": "bridged", "link": "br0", "vlan": "7"}],
            ),
            with_status(
                network(),
                allocator={"holder": "m", "epoch": 2},
                grants=[{"nic": "default/web-0", "uid": "1", "ips": ["192.0.2.9"]}],
            ),
        ],
    ),
    "nics": (
        NICS,
        [
            nic("web-0", "pool", "192.0.2.50", "front", release=["192.0.2.9"], mac="aa:00:00:00:00:01"),
            nic(
                "web-0", owner={"kind": "Instance", "name": "web", "uid": "1"}, interface="eth0", vlan=".1:2"
            ),
            with_status(holding("web-0", "192.0.2.10"), epoch=3),
        ],
    ),
}
EVIL = [
    "",
    "\n",
    "::",
    "1.2.3.4",
    "0.0.0.0/0",
    "::/0",
    "pool",
    "a-b",
    "-",
    "\u2028",
    "\x00",
    "9" * 400,
    "x/y",
    "٣",
]
TEXTS = st.sampled_from(EVIL) | st.text(max_size=12)
LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=5,
)


class Stub:
    """A server with one network and one NIC; whatever else is asked for is not there."""

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """As the port says."""
        for known, bodies in BODIES.values():
            if known is resource and name == bodies[-1]["metadata"]["name"]:
                return msgspec.convert(bodies[-1], resource.type)
        raise NotFound(404, "NotFound", "not there", {"details": {"name": name}})

    async def list(self, resource: Resource[Any], namespace: str = "", **_: str) -> Listing[Any]:
        """As the port says."""
        found = [bodies[-1] for known, bodies in BODIES.values() if known is resource]
        return Listing(tuple(msgspec.convert(body, resource.type) for body in found), "1")

    async def create(self, resource: Resource[Any], body: Any, namespace: str = "") -> Any:
        """As the port says."""
        raise NotFound(404, "NotFound", f"no {VIRTUAL_MACHINE_INSTANCES.group} here")


def cached(network: str, namespace: str, addresses: object, mac: str) -> NetworkContext:
    """What the manager's watches have brought."""
    return NetworkContext(msgspec.convert(BODIES["networks"][1][1], Network))


ADMISSION = IpamAdmission(Stub(), cached, agent_of)  # type: ignore[arg-type]


@st.composite
def spoilt(draw: st.DrawFn, bodies: list[Raw]) -> Raw:
    """An object of which some parts are something else or are gone."""
    body = copy.deepcopy(draw(st.sampled_from(bodies)))
    for _ in range(draw(st.integers(0, 3))):
        _spoil(draw, body)
    return body


def _spoil(draw: st.DrawFn, value: Any) -> None:
    """Goes down to some part and changes it there. The API server has checked the name, and that metadata is there."""
    checked: tuple[str, ...] = ("metadata",)
    while isinstance(value, dict | list):
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = draw(st.sampled_from(keys))
        inner = value[key]
        if key == "metadata" or (isinstance(inner, dict | list) and inner and draw(st.booleans())):
            checked = ("name", "namespace") if key == "metadata" else ()
            value = inner
            continue
        if key in checked:
            return
        if isinstance(value, dict) and draw(st.booleans()):
            del value[key]
        else:
            value[key] = draw(JSON)
        return


@st.composite
def requests(draw: st.DrawFn) -> AdmissionRequest:
    """A request about damaged objects, by any user."""
    resource, bodies = draw(st.sampled_from(list(BODIES.values())))
    new, old = (draw(st.none() | spoilt(bodies) | st.sampled_from(bodies)) for _ in range(2))
    user = draw(st.sampled_from([ADMIN, AGENT, MANAGER]))
    return request(
        resource, new or (bodies[0] if old is None else None), old, user=user, status=draw(st.booleans())
    )


def answered(asked: AdmissionRequest) -> None:
    """Request defaults and a verdict."""
    verdict = run(ADMISSION.validate(asked))
    assert verdict.allowed == (not verdict.message)
    for text in (verdict.message, *verdict.warnings):
        assert text.isprintable()
        assert len(text) < 3_000
    msgspec.json.encode(defaults(asked))


@settings(max_examples=examples(400))
@given(requests())
def test_every_request_is_answered(asked: AdmissionRequest) -> None:
    """A request about any objects is allowed, or refused with a message of one line; nothing raises."""
    answered(asked)


@settings(max_examples=examples(100))
@given(st.dictionaries(TEXTS | st.sampled_from(["metadata", "spec", "status"]), JSON, max_size=4))
def test_any_object_is_answered(body: Raw) -> None:
    """Even an object that has nothing of its kind is answered."""
    for resource, bodies in BODIES.values():
        for new, old in ((body, None), (None, body), (body, bodies[0]), (bodies[0], body)):
            asked = msgspec.structs.replace(request(resource, bodies[0]), object=new, old_object=old)
            verdict = run(ADMISSION.validate(asked))
            assert verdict.allowed == (not verdict.message)
            defaults(asked)


@settings(max_examples=examples(200))
@given(spoilt(BODIES["networks"][1]))
def test_what_is_allowed_can_be_used(body: Raw) -> None:
    """A network that passes, with what was filled in, can be read by the allocator and is a valid one."""
    if run(ADMISSION.validate(request(NETWORKS, body, BODIES["networks"][1][0]))).allowed:
        network = network_of(convert(body, Network))
        if body["spec"] != BODIES["networks"][1][0]["spec"]:
            check_network(network)


def test_the_objects_that_are_spoilt_are_good() -> None:
    """Before they are spoilt, the objects are allowed; else there would be little to find."""
    for body in BODIES["nics"][1]:
        assert run(ADMISSION.validate(request(NICS, body))).message == ""
        assert msgspec.convert(body, Nic).spec.owner.name == "web"
    for body in BODIES["networks"][1]:
        assert run(ADMISSION.validate(request(NETWORKS, body))).message == ""
