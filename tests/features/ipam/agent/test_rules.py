"""What is read out of a call, a pod and a machine, before anything is done; whatever others wrote there."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert

from lanloom.api.ipam import MACHINE_LABEL, NAD, Nic
from lanloom.api.meta import Key
from lanloom.features.ipam.agent.cnitypes import parse_ipam
from lanloom.features.ipam.agent.nics import change, nic_body, requested_ips
from lanloom.features.ipam.agent.pods import (
    PodRef,
    attachments,
    check_pod,
    hashed_interface,
    is_attached,
    launcher_of,
    machine_holder,
    machine_network,
    parse_args,
    pod_holder,
    pod_nic,
)
from lanloom.runtime.cni.calls import CniError
from tests.features.ipam.agent.objects import (
    LAN,
    Raw,
    args,
    config,
    launcher_body,
    machine,
    machine_body,
    pod,
    pod_body,
    reference,
    request,
    wanted_addresses,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def test_what_a_section_may_leave_out() -> None:
    """A section with a network alone asks for one address from any pool, and for no route."""
    found = parse_ipam(config())
    assert (found.network, found.wanted, found.routes, found.default_route) == ("net1", ("pool",), (), False)


@pytest.mark.parametrize(
    ("ipam", "words"),
    [
        ({"network": ""}, "network"),
        ({"network": 1}, "ipam.network"),
        ({"pool": ["x"]}, "pool"),
        ({"ips": "pool"}, "ipam.ips"),
        ({"ips": [1]}, "ipam.ips"),
        ({"ips": ["192.0.2.300"]}, "ipam.ips"),
        ({"ips": ["192.0.2.4", "192.0.2.4"]}, "twice"),
        ({"ips": ["2001:db8::1", "2001:0db8::1"]}, "twice"),
        ({"ips": ["192.0.2.0/24"]}, "ipam.ips"),
        ({"ips": ["none"]}, "ipam.ips"),
        ({"ips": ["a b"]}, "ipam.ips"),
        ({"ips": ["pool"] * 65}, "ipam.ips"),
        ({"pools": ["192.0.2.4"]}, "ipam.pools"),
        ({"pools": ["a"], "ips": ["b"]}, "both"),
        ({"routes": [{"dst": "10.0.0.0"}]}, "ipam.routes[0]"),
        ({"routes": [{"dst": "10.0.0.0/8", "gw": "x"}]}, "ipam.routes[0]"),
        ({"routes": [{"dst": "10.0.0.0/8", "gw": "2001:db8::1"}]}, "version"),
        ({"routes": [{"dst": "10.0.0.0/8", "mtu": 9000}]}, "mtu"),
        ({"dns": {"nameservers": ["ns1"]}}, "ipam.dns.nameservers"),
        ({"dns": {"servers": []}}, "servers"),
        ({"defaultRoute": "yes"}, "ipam.defaultRoute"),
    ],
)
def test_sections_that_are_refused(ipam: Raw, words: str) -> None:
    """A field that is unknown or can't be read is an error that names it."""
    with pytest.raises(CniError) as caught:
        parse_ipam(config(**ipam))
    assert caught.value.code == 7
    assert words in caught.value.msg


@pytest.mark.parametrize("section", [None, [], "lanloom-ipam", {}])
def test_no_section(section: Any) -> None:
    """A configuration without a section for addresses is an error that says what one looks like."""
    with pytest.raises(CniError, match="ipam"):
        parse_ipam({"ipam": section})


@given(section=JSON, annotation=JSON | st.text(max_size=40), arguments=st.text(max_size=80))
def test_no_input_breaks_a_rule(section: Any, annotation: Any, arguments: str) -> None:
    """Whatever users write, it is read or refused with a CNI error."""
    text = annotation if isinstance(annotation, str) else json.dumps(annotation)
    wild = pod(pod_body(addresses=text, networks=text))
    attachments(wild)
    for attempt in (
        lambda: parse_args(arguments),
        lambda: parse_ipam({"ipam": section}),
        lambda: parse_ipam(config(ips=section)),
        lambda: requested_ips(wild.metadata.annotations, pod_holder(wild, request()), parse_ipam(config())),
    ):
        try:
            attempt()
        except CniError as error:
            assert error.code in (4, 6, 7) and error.msg


def test_the_pod_of_a_call() -> None:
    """CNI_ARGS names the pod, among other things that are none of our business."""
    assert parse_args(args("web", "u-1", "ns") + ";K8S_POD_INFRA_CONTAINER_ID=x=y;flag") == PodRef(
        "ns", "web", "u-1"
    )
    assert parse_args(args("web")) == PodRef("default", "web")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "K8S_POD_NAME=web",
        args("../web"),
        args("Web"),
        args("a" * 254),
        args("web", "u/1"),
        args("web", namespace="-"),
    ],
)
def test_arguments_that_name_no_pod(text: str) -> None:
    """What is no name of an object never reaches the API."""
    with pytest.raises(CniError, match="CNI_ARGS") as caught:
        parse_args(text)
    assert caught.value.code == 4


def test_only_this_nodes_pod() -> None:
    """A namesake and a pod of another node are refused."""
    check_pod(pod(), PodRef("default", "web"), "node1")
    check_pod(pod(), PodRef("default", "web", "pod-1"), "node1")
    for ref, node in ((PodRef("default", "web", "pod-2"), "node1"), (PodRef("default", "web"), "node2")):
        with pytest.raises(CniError) as caught:
            check_pod(pod(), ref, node)
        assert caught.value.code == 3


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", []),
        ("lan", [("net1", "default/lan")]),
        (
            "lan, other/dmz@eth7 , lan",
            [("net1", "default/lan"), ("eth7", "other/dmz"), ("net3", "default/lan")],
        ),
        ('[{"name": "lan"}]', [("net1", "default/lan")]),
        ('[{"name": "lan", "namespace": "x", "interface": "pod1"}]', [("pod1", "x/lan")]),
        ("[1]", []),
        ('[{"namespace": "x"}]', []),
        ("[" * 100_000, []),
        (",", []),
    ],
)
def test_what_multus_attaches(text: str, expected: list[tuple[str, str]]) -> None:
    """Both forms of Multus' annotation say which interface is for which NAD."""
    found = attachments(pod(pod_body(networks=text)))
    assert [(item.interface, str(item.nad)) for item in found] == expected


def test_interfaces_that_a_pod_still_wants() -> None:
    """A pod of Multus' wants what is listed, and its primary interface; of others nothing is known."""
    listed = pod(pod_body(networks="lan"))
    wants = [is_attached(listed, request(interface=name)) for name in ("net1", "net2", "eth0")]
    assert wants == [True, False, True]
    assert is_attached(pod(), request(interface="net9"))


@pytest.mark.parametrize(
    ("interface", "expected"),
    [
        (hashed_interface("lan"), (1, "lan", Key("default", "lan"))),
        ("net1", (1, "lan", Key("default", "lan"))),
        (hashed_interface("dmz"), (2, "dmz", Key("other", "dmz"))),
        ("net2", (2, "dmz", Key("other", "dmz"))),
        ("net3", None),
        ("eth0", None),
        ("podffffffffff", None),
    ],
)
def test_interfaces_of_a_machine(interface: str, expected: tuple[int, str, Key] | None) -> None:
    """Both ways in which KubeVirt names the interfaces of its pods lead to the machine's network and its NAD."""
    body = machine_body(networks=("lan", "dmz"))
    body["spec"]["networks"][2]["multus"]["networkName"] = "other/dmz"
    assert machine_network(machine(body), interface) == expected


def test_the_primary_interface_of_a_machine() -> None:
    """A NAD in the place of the pod network is eth0, and is not counted among the others."""
    body = machine_body(networks=("first", "second"))
    body["spec"]["networks"][1]["multus"]["default"] = True
    found = [machine_network(machine(body), name) for name in ("eth0", "net1")]
    assert [item and item[1] for item in found] == ["first", "second"]


def test_how_kubevirt_names_interfaces() -> None:
    """The name has `pod` and eleven digits of the SHA-256, as KubeVirt's own documents say."""
    assert hashed_interface("default") == "pod37a8eec1ce1"


def test_which_pods_carry_machines() -> None:
    """A launcher has KubeVirt's labels and is controlled by the instance that they name."""
    good = launcher_body("x", "vmi-1")
    assert (found := launcher_of(pod(good))) is not None and found.uid == "vmi-1"
    changes: tuple[dict[str, Any], ...] = (
        {"labels": {}},
        {"labels": {"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": "vmi-2"}},
        {"ownerReferences": []},
        {"ownerReferences": [reference("VirtualMachineInstance", "vm1", "vmi-1") | {"controller": False}]},
        {"ownerReferences": [reference("VirtualMachineInstance", "vm1", "vmi-1") | {"apiVersion": "x/v1"}]},
        {"ownerReferences": [reference("ReplicaSet", "vm1", "vmi-1")]},
    )
    for other in changes:
        assert launcher_of(pod(good | {"metadata": good["metadata"] | other})) is None


def test_names_of_nics() -> None:
    """A NIC's name follows from owner, interface and network alone, and differs where one of them does."""
    base = pod_holder(pod(), request()).nic
    assert base == pod_nic(PodRef("default", "web", "pod-1"), request(container="c9"))
    assert base.startswith("web-net1-")
    others = {
        pod_holder(pod(uid="pod-2"), request()).nic,
        pod_holder(pod(), request(interface="net2")).nic,
        pod_holder(pod(), request(settings=config(name="other"))).nic,
        pod_holder(pod(pod_body("web2")), request()).nic,
    }
    assert len(others | {base}) == 5


@given(
    name=st.from_regex(r"\A[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?\Z"),
    interface=st.text("abc_.-", min_size=1, max_size=15),
)
def test_names_are_names(name: str, interface: str) -> None:
    """A NIC's name is one for an object, and fits a label, whatever the names of pod and interface are."""
    found = pod_nic(PodRef("default", name, "u"), request(interface=interface))
    assert len(found) <= 63
    assert found.strip("abcdefghijklmnopqrstuvwxyz0123456789-") == "" and not found.startswith("-")


def test_a_machines_nic_does_not_depend_on_its_pods() -> None:
    """Pods of one machine have one NIC, however KubeVirt calls their interfaces; another NAD makes another one."""
    body = machine_body(vm="vm-1")
    names = {
        machine_holder(pod(launcher_body(name, uid)), machine(body, uid), request(interface=interface)).nic
        for name, uid, interface in (("a", "vmi-1", LAN), ("b", "vmi-1", "net1"), ("c", "vmi-2", LAN))
    }
    assert len(names) == 1
    body["spec"]["networks"][1]["multus"]["networkName"] = "elsewhere/lan"
    moved = machine_holder(pod(launcher_body("a", "vmi-1")), machine(body), request(interface=LAN))
    assert moved.nic not in names


def test_names_in_annotations() -> None:
    """Addresses are asked for by the machine's network, the pod's interface, the NAD, or the CNI network's name."""
    body = launcher_body("x", "vmi-1", networks=json.dumps([{"name": "lan", "interface": LAN}]))
    parsed = parse_ipam(config())
    for name in ("lan", LAN, "default/lan"):
        body["metadata"]["annotations"]["ipam.lanloom.io/addresses"] = wanted_addresses(
            **{name: ["192.0.2.4"]}
        )
        carried = pod(body)
        holder = machine_holder(carried, machine(), request(interface=LAN, settings=config(name="cni")))
        assert requested_ips(carried.metadata.annotations, holder, parsed) == ("192.0.2.4",)
    plain = pod(pod_body(networks="other/lan"))
    holder = pod_holder(plain, request(settings=config(name="cni")))
    assert holder.known_as == ("net1", "other/lan", "cni")


def test_a_machines_nic_is_marked_by_no_node() -> None:
    """What says where a pod is stands on pods' NICs only: a machine moves about."""
    holder = machine_holder(pod(launcher_body("x", "vmi-1")), machine(), request(interface=LAN))
    meta = nic_body(holder, "net1", ("pool",), request(), "node1")["metadata"]
    assert meta["labels"] == {MACHINE_LABEL: "vm1"} and meta["annotations"] == {NAD: "default/lan"}
    unknown = machine_holder(pod(launcher_body("x", "vmi-1")), machine(), request(interface="eth0"))
    assert "annotations" not in nic_body(unknown, "net1", ("pool",), request(), "node1")["metadata"]
    own = nic_body(pod_holder(pod(), request()), "net1", ("pool",), request(), "n" * 100)["metadata"]
    assert len(own["labels"]["ipam.lanloom.io/node"]) <= 63


def test_a_nic_as_it_is_wanted_is_not_written() -> None:
    """A repeated call finds nothing to change in the NIC that an earlier one made, be it a pod's or a machine's."""
    for holder in (
        pod_holder(pod(), request()),
        machine_holder(pod(launcher_body("x", "vmi-1")), machine(), request(interface=LAN)),
    ):
        body = nic_body(holder, "net1", ("pool",), request(), "node1")
        assert change(convert(body, Nic), body) is None
