"""The programs `macvtap` and `k8slanveth` as a runtime calls them, through the agent's socket to the data plane."""

import asyncio
from typing import Any

import pytest

from lanloom.features.lan.agent.cni import LanCni
from lanloom.features.lan.agent.ports import MACVTAP, VETH, Attachment, Device, SpokeError
from tests.fakes.spokes import MTU, FakeSpokes
from tests.features.lan.agent.programs import Node, config, serving
from tests.harness.cniruntime import CHECK_SINCE, GC_SINCE, VERSIONS, Raw

PROGRAMS = ("macvtap", "k8slanveth")
JUNK = bytes(range(1, 256)).replace(b"=", b"")

pytestmark = pytest.mark.usefixtures("agent")


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", PROGRAMS)
async def test_a_pod_s_life(node: Node, spokes: FakeSpokes, name: str, version: str) -> None:
    """ADD, CHECK, STATUS, GC, DEL and DEL again do what CNI says in each version that has them."""
    runtime, given = node.runtime, config(name, version)
    result = await runtime.add(given)
    link: Raw = {"name": "net1", "mac": "02:00:00:00:00:0a", "sandbox": "/run/netns/pod"}
    assert result["interfaces"] == [link | ({"mtu": MTU} if version == "1.1.0" else {})]
    assert spokes.attached[("c0ffee", "net1")] == Attachment(
        device=Device("red", MACVTAP if name == "macvtap" else VETH),
        container="c0ffee",
        netns="/run/netns/pod",
        interface="net1",
        pod="default/web",
        network=given["name"],
    )
    if version >= CHECK_SINCE:
        assert (await runtime.check(given)).status == 0
    if version >= GC_SINCE:
        assert (await runtime.status(given)).status == 0
        assert (await runtime.collect(given, ("c0ffee", "net1"))).status == 0
        assert spokes.attached
    assert (await runtime.delete(given)).status == 0
    assert (await runtime.delete(given)).status == 0
    assert not spokes.attached


@pytest.mark.parametrize("name", PROGRAMS)
async def test_garbage_is_collected(node: Node, spokes: FakeSpokes, name: str) -> None:
    """GC ends the attachments of the network that the runtime does not list."""
    await node.runtime.add(config(name))
    await node.runtime.add(config(name, name="other", **_at(name, "blue")), CNI_IFNAME="net2")
    assert (await node.runtime.collect(config(name))).status == 0
    assert set(spokes.attached) == {("c0ffee", "net2")}


def _at(name: str, spoke: str) -> Raw:
    return {"deviceID": f"{spoke}M0"} if name == "macvtap" else {"veth": spoke, "deviceID": ""}


@pytest.mark.parametrize("name", PROGRAMS)
async def test_versions(node: Node, name: str) -> None:
    """VERSION lists the versions, in the version of the configuration where that is one of them."""
    for text, version in (
        (b"", "1.1.0"),
        (b'{"cniVersion": "0.4.0"}', "0.4.0"),
        (b'{"cniVersion":"7"}', "1.1.0"),
    ):
        outcome = await node.runtime.call(name, "VERSION", text, *node.runtime.variables)
        assert outcome.result == {
            "cniVersion": version,
            "supportedVersions": ["0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0"],
        }


@pytest.mark.parametrize(
    ("place", "given"),
    [
        ("runtimeConfig", {"runtimeConfig": {"mac": "02:AA:00:00:00:01"}}),
        ("args", {"args": {"cni": {"mac": "02:aa:00:00:00:01"}}}),
        (
            "both",
            {"runtimeConfig": {"mac": "02:aa:00:00:00:01"}, "args": {"cni": {"mac": "02:00:00:00:00:99"}}},
        ),
    ],
)
async def test_a_mac_that_is_asked_for(node: Node, place: str, given: Raw) -> None:
    """The interface gets the hardware address that the pod asks for, by CNI's conventions."""
    result = await node.runtime.add(config(**given))
    assert result["interfaces"][0]["mac"] == "02:aa:00:00:00:01", place


async def test_a_machine_behind_a_bridge(node: Node, spokes: FakeSpokes) -> None:
    """A NAD may say that KubeVirt's bridge binding uses its interfaces; no device is needed."""
    assert (await node.runtime.call("k8slanveth", "ADD", config("k8slanveth", binding="bridge"))).status == 0
    assert [each.bridged for each in spokes.attached.values()] == [True]


async def test_a_mac_of_the_arguments(node: Node) -> None:
    """CNI_ARGS may name the hardware address, as runtimes of old do."""
    result = await node.runtime.add(config(), CNI_ARGS="IgnoreUnknown=1;MAC=02:AA:00:00:00:02")
    assert result["interfaces"][0]["mac"] == "02:aa:00:00:00:02"


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CNI_CONTAINERID", "-x"),
        ("CNI_CONTAINERID", "a/../b"),
        ("CNI_CONTAINERID", "a" * 256),
        ("CNI_CONTAINERID", JUNK),
        ("CNI_IFNAME", "a/b"),
        ("CNI_IFNAME", "eth%d"),
        ("CNI_IFNAME", ".."),
        ("CNI_IFNAME", "sixteen-letters!"),
        ("CNI_IFNAME", "a b"),
        ("CNI_IFNAME", "näme".encode()),
        ("CNI_IFNAME", JUNK),
        ("CNI_NETNS", "run/netns/pod"),
        ("CNI_NETNS", "/run/../etc"),
        ("CNI_NETNS", "/run/\n"),
        ("CNI_NETNS", b"/" + JUNK),
        ("CNI_ARGS", "K8S_POD_NAME"),
        ("CNI_ARGS", "K8S_POD_NAME=web"),
        ("CNI_ARGS", "K8S_POD_NAME=../web;K8S_POD_NAMESPACE=default"),
        ("CNI_ARGS", "K8S_POD_NAME=web;K8S_POD_NAMESPACE=default;K8S_POD_NAMESPACE=other"),
        ("CNI_ARGS", "MAC=01:00:00:00:00:01"),
        ("CNI_ARGS", "MAC=zz"),
        ("CNI_ARGS", JUNK),
        ("CNI_COMMAND", "EAT"),
        ("CNI_COMMAND", "A"),
        ("CNI_COMMAND", ""),
        ("CNI_COMMAND", JUNK),
        ("CNI_ARGS", "A=" + "a" * 70_000),
    ],
)
async def test_variables_that_cni_forbids(
    node: Node, spokes: FakeSpokes, variable: str, value: str | bytes
) -> None:
    """A variable that is not as CNI wants it is error 4, names the variable, and nothing is attached."""
    error = (await node.runtime.call("macvtap", "ADD", config(), **{variable: value})).error
    assert (error["code"], error["cniVersion"]) == (4, "1.1.0") or len(value) > 60_000
    assert error["code"] == 4
    assert (variable in error["msg"]) or "CNI_* variables" in error["msg"]
    assert not spokes.attached


@pytest.mark.parametrize("variable", ["CNI_CONTAINERID", "CNI_IFNAME", "CNI_NETNS", "CNI_COMMAND"])
async def test_missing_variables(node: Node, variable: str) -> None:
    """A variable that an ADD needs and that is missing is error 4."""
    error = (await node.runtime.call("k8slanveth", "ADD", config("k8slanveth"), variable)).error
    assert error["code"] == 4 and variable in error["msg"]


async def test_an_end_without_a_namespace(node: Node, spokes: FakeSpokes) -> None:
    """DEL needs neither a namespace nor the spoke, as both may be gone."""
    await node.runtime.add(config())
    left: Raw = {"cniVersion": "1.1.0", "name": "lan-macvtap", "type": "macvtap"}
    outcome = await node.runtime.call("macvtap", "DEL", left, "CNI_NETNS", "CNI_ARGS")
    assert (outcome.status, spokes.attached) == (0, {})


BAD_CONFIGS: list[tuple[str, int, bytes | Raw]] = [
    ("nothing", 6, b""),
    ("cut off", 6, b'{"cniVersion": "1.1.0"'),
    ("NULs", 6, b"\0" * 100),
    ("binary", 6, JUNK),
    ("a NUL within", 6, b'{"cniVersion": "1.1.0", "name": "a\0b"}'),
    ("a list", 6, b"[]"),
    ("deep", 6, b"[" * 100_000),
    ("huge", 6, b" " * ((1 << 20) + 1)),
    ("no version", 1, {"name": "lan", "type": "macvtap"}),
    ("an old version", 1, config(version="0.2.0")),
    ("a new version", 1, config(version="9.9.9")),
    ("an odd version", 1, config() | {"cniVersion": 1}),
    ("no name", 7, config() | {"name": ""}),
    ("a long name", 7, config(name="a" * 300)),
    ("another type", 7, config() | {"type": "bridge"}),
    ("no device", 7, config() | {"deviceID": None}),
    ("an odd device", 7, config(deviceID="../redM0")),
    ("a pod's device", 7, config(deviceID="redV0")),
    ("an odd MAC", 7, config(runtimeConfig={"mac": "02:00"})),
    ("a zero MAC", 7, config(runtimeConfig={"mac": "00:00:00:00:00:00"})),
    ("a group's MAC", 7, config(args={"cni": {"mac": "33:33:00:00:00:01"}})),
    ("an odd runtimeConfig", 7, config(runtimeConfig=[1])),
    ("addresses", 7, config(ipam={"type": "host-local"})),
    ("addresses of the pod", 7, config(runtimeConfig={"ips": ["192.0.2.1/24"]})),
    ("a chain", 7, config(prevResult={"cniVersion": "1.1.0"})),
    ("another MTU", 7, config(mtu=9000)),
    ("an odd MTU", 7, config(mtu="big")),
    ("a binding of pods", 7, config(binding="bridge")),
]


@pytest.mark.parametrize(("case", "code", "given"), BAD_CONFIGS, ids=[case for case, *_ in BAD_CONFIGS])
async def test_bad_configurations(
    node: Node, spokes: FakeSpokes, case: str, code: int, given: Raw | bytes
) -> None:
    """A configuration that can't be used is an error by CNI's number, and nothing is attached."""
    assert (await node.runtime.call("macvtap", "ADD", given)).error["code"] == code, case
    assert not spokes.attached


@pytest.mark.parametrize(
    "more",
    [
        {"veth": None},
        {"veth": "Red"},
        {"veth": "a" * 14},
        {"deviceID": "blueV0"},
        {"binding": "masquerade"},
        {"binding": ["bridge"]},
    ],
)
async def test_bad_spokes_of_pods(node: Node, more: Raw) -> None:
    """A pod's spoke must be a spoke's name, and the device that of the spoke."""
    assert (await node.runtime.call("k8slanveth", "ADD", config("k8slanveth", **more))).error["code"] == 7


async def test_harmless_fields(node: Node) -> None:
    """Fields that runtimes and other programs' users write are accepted where they change nothing."""
    more: dict[str, Any] = {
        "ipam": {},
        "promiscMode": True,
        "mtu": MTU,
        "capabilities": {"mac": True},
        "dns": {},
    }
    assert (await node.runtime.add(config(**more)))["interfaces"]


@pytest.mark.parametrize(("again", "code"), [(False, 100), (True, 11)])
async def test_spokes_that_cannot_be_had(node: Node, spokes: FakeSpokes, again: bool, code: int) -> None:
    """The data plane's refusal is reported in its words, with a number that says whether to try again."""
    spokes.failure = SpokeError("spoke red: no", again=again)
    error = (await node.runtime.call("macvtap", "ADD", config(version="0.4.0"))).error
    assert error == {"cniVersion": "0.4.0", "code": code, "msg": "spoke red: no"}


async def test_a_check_that_finds_a_difference(node: Node, spokes: FakeSpokes) -> None:
    """CHECK fails with 101 where something is missing, and with 7 without the result of ADD."""
    await node.runtime.add(config())
    spokes.attached.clear()
    assert (await node.runtime.check(config())).error["code"] == 101
    assert (await node.runtime.call("macvtap", "CHECK", config())).error["code"] == 7


@pytest.mark.parametrize(("command", "version"), [("CHECK", "0.3.1"), ("GC", "1.0.0"), ("STATUS", "1.0.0")])
async def test_commands_that_a_version_does_not_have(node: Node, command: str, version: str) -> None:
    """A command that came later than the configuration's version is error 1."""
    assert (await node.runtime.call("macvtap", command, config(version=version))).error["code"] == 1


async def test_garbage_without_a_list(node: Node, spokes: FakeSpokes) -> None:
    """GC without the list of what is in use is an error, and collects nothing."""
    await node.runtime.add(config())
    assert (await node.runtime.call("macvtap", "GC", config())).error["code"] == 7
    assert spokes.attached


async def test_a_node_that_is_not_ready(node: Node, spokes: FakeSpokes) -> None:
    """STATUS tells by error 50 that and why no pod can be attached."""
    spokes.not_ready = "the underlay eth1 is down"
    error = (await node.runtime.status(config())).error
    assert (error["code"], error["msg"]) == (50, "the underlay eth1 is down")


async def test_an_end_that_the_data_plane_refuses(node: Node, spokes: FakeSpokes) -> None:
    """DEL succeeds although the kernel refuses; the attachment is on record for the reconciler."""
    await node.runtime.add(config())
    spokes.failure = SpokeError("the kernel refused")
    assert (await node.runtime.delete(config())).status == 0


async def test_a_fault_of_the_agent(node: Node, spokes: FakeSpokes) -> None:
    """A fault in the agent is error 11 and not the end of the agent."""
    spokes.failure = ZeroDivisionError()
    assert (await node.runtime.call("macvtap", "ADD", config())).error["code"] == 11
    spokes.failure = None
    assert await node.runtime.add(config())


async def test_an_agent_that_gives_up_first(node: Node, spokes: FakeSpokes) -> None:
    """The agent tells by error 11 that the data plane takes too long."""

    async def never() -> None:
        await asyncio.Event().wait()

    spokes.gate = never
    seconds = dict.fromkeys(("ADD", "DEL", "CHECK", "GC", "STATUS"), 0.01)
    node.socket.unlink()
    async with serving(node.socket, LanCni(spokes, seconds=seconds)):
        error = (await node.runtime.call("macvtap", "ADD", config())).error
        assert (await node.runtime.call("macvtap", "DEL", config())).status == 0
    assert error["code"] == 11 and "0.01 s" in error["msg"]
