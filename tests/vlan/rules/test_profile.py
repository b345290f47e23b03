"""Profiles hold what was meant and not a line more."""

from hypothesis import given
from hypothesis import strategies as st

from lanloom.api.l3 import L3, AnnotationError
from lanloom.api.l3keys import decode
from lanloom.node.keyfile import owner, parse
from lanloom.vlan.rules.profile import profile_of, render
from tests.vlan.cluster import CLUSTER
from tests.vlan.rules.test_names import NETWORKS, NODES, VIDS

ADDRESS = st.integers(1, 254).map("10.9.8.{}/24".format)
SECTIONS = {
    "connection": {"id", "uuid", "type", "interface-name", "autoconnect-retries"},
    "vlan": {"flags", "id", "parent"},
    "ipv6": {"method"},
    "user": {"lanloom.owner"},
}
IPV4 = {"dad-timeout", "ignore-auto-dns", "ignore-auto-routes", "may-fail", "never-default", "method"}


@st.composite
def inputs(draw: st.DrawFn) -> tuple[str, str, L3]:
    """A node, a cluster network, and what is wanted there."""
    node = draw(NODES)
    vid = draw(VIDS)
    if draw(st.booleans()):
        return node, draw(NETWORKS), L3(vid=vid, mode="dhcp")
    return node, draw(NETWORKS), L3(vid=vid, mode="static", addresses={node: draw(ADDRESS)})


@given(inputs())
def test_exactly_the_lines_that_were_meant(given: tuple[str, str, L3]) -> None:
    """No input makes a section or a key beyond those of a VLAN profile, and each value is the input's."""
    node, network, value = given
    sections = parse(render(profile_of(CLUSTER, node, network, value)))
    ipv4 = dict(sections["ipv4"])
    assert {name: set(keys) for name, keys in sections.items() if name != "ipv4"} == SECTIONS
    assert set(ipv4) == IPV4 | ({"address1"} if value.mode == "static" else {"dhcp-timeout"})
    assert ipv4["method"] == {"static": "manual", "dhcp": "auto"}[value.mode]
    assert ipv4.get("address1", "") == value.addresses.get(node, "")
    assert (sections["vlan"]["id"], sections["vlan"]["parent"]) == (str(value.vid), f"{network}-br")
    assert owner(render(profile_of(CLUSTER, node, network, value))) == f"{network}/{value.vid}"


@given(inputs(), inputs())
def test_equal_input_gives_equal_bytes(left: tuple[str, str, L3], right: tuple[str, str, L3]) -> None:
    """The same input gives the same file on every run; another input gives another file."""
    files = [render(profile_of(CLUSTER, *item)) for item in (left, left, right)]
    assert files[0] == files[1]
    assert (files[0] == files[2]) == (left == right)


def test_a_vlan_takes_neither_route_nor_dns_from_the_management_network() -> None:
    """No default route, no DNS servers, no IPv6, and an address that can't be had is an error."""
    sections = parse(render(profile_of(CLUSTER, "node1", "cluster-1", L3(vid=2012, mode="dhcp"))))
    wanted = {"never-default": "true", "ignore-auto-dns": "true", "may-fail": "false"}
    assert sections["ipv4"].items() >= wanted.items()
    assert sections["ipv6"] == {"method": "disabled"}


@given(st.text(), st.text(), st.text())
def test_annotations_of_any_kind_make_a_whole_profile_or_none(vid: str, mode: str, addresses: str) -> None:
    """What a webhook let through, or nobody asked one about, gives an expected profile or an error, nothing between."""
    prefix = "network.harvesterhci.io"
    annotations = {
        f"{prefix}/l3connectivity-a-x": "true",
        f"{prefix}/vlan-id-a-x": vid,
        f"{prefix}/mode-a-x": mode,
        f"{prefix}/ipmap-a-x": addresses,
    }
    for broken in ({}, {f"{prefix}/vlan-id-a-x": "7", f"{prefix}/mode-a-x": "static"}):
        entry = decode(annotations | broken)["a-x"]
        if entry.value is None:
            assert isinstance(entry.error, AnnotationError)
            continue
        for node in entry.value.addresses or {"node1": ""}:
            assert set(parse(render(profile_of(CLUSTER, node, "cluster-1", entry.value)))) == {
                *SECTIONS,
                "ipv4",
            }
