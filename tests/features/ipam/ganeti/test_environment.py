"""What hooks and scripts get, held against what Ganeti passes them, and against a real POSIX shell."""

import json
import shutil
import subprocess
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lanloom.features.ipam.ganeti.environment import (
    as_lines,
    as_shell,
    has_old_shape,
    hook_environment,
    network_environment,
    script_environment,
)
from lanloom.features.ipam.rules.addresses import parse_address, parse_cidr, parse_range
from lanloom.features.ipam.rules.model import (
    Connection,
    Network,
    Nic,
    Owner,
    Pool,
    Subnet,
)
from lanloom.refusals import Malformed
from tests.harness.examples import examples

OWNER = Owner(kind="Instance", namespace="default", name="inst1")


def subnet(cidr: str, **more: Any) -> Subnet:
    """A subnet."""
    gateway = more.pop("gateway", None)
    address = parse_address(gateway) if gateway else None
    return Subnet(uuid=cidr, cidr=parse_cidr(cidr)[0], gateway=address, **more)


V4 = subnet("192.0.2.0/24", gateway="192.0.2.1", pools=(Pool(range=parse_range("192.0.2.0/24")),))
V6 = subnet("2001:db8::/64", gateway="2001:db8::1")
OLD = Network(id="net1", name="Net1", uuid="uuid1", mac_prefix="aa:00:01", tags=("a", "b"), subnets=(V4, V6))
NEW = replace(OLD, subnets=(V4, V6, subnet("198.51.100.0/24", dhcp=True)))


def nic(*ips: str, **more: Any) -> Nic:
    """A NIC."""
    values = {"mac": "aa:00:00:00:00:01", "mode": "bridged", "link": "br0", "network": "net1", "uuid": "nic1"}
    return Nic(key="default/inst1-0", owner=OWNER, ips=tuple(map(parse_address, ips)), **{**values, **more})


def test_old_shape() -> None:
    """A NIC with one address on a network as Ganeti has them gives exactly Ganeti's variables."""
    assert hook_environment("inst1", [(nic("192.0.2.7", name="front"), OLD)]) == {
        "INSTANCE_NAME": "inst1",
        "INSTANCE_NIC_COUNT": "1",
        "INSTANCE_NIC0_NAME": "front",
        "INSTANCE_NIC0_UUID": "nic1",
        "INSTANCE_NIC0_IP": "192.0.2.7",
        "INSTANCE_NIC0_MAC": "aa:00:00:00:00:01",
        "INSTANCE_NIC0_MODE": "bridged",
        "INSTANCE_NIC0_LINK": "br0",
        "INSTANCE_NIC0_VLAN": "",
        "INSTANCE_NIC0_BRIDGE": "br0",
        "INSTANCE_NIC0_NETWORK_NAME": "Net1",
        "INSTANCE_NIC0_NETWORK_UUID": "uuid1",
        "INSTANCE_NIC0_NETWORK_TAGS": "a b",
        "INSTANCE_NIC0_NETWORK_SUBNET": "192.0.2.0/24",
        "INSTANCE_NIC0_NETWORK_GATEWAY": "192.0.2.1",
        "INSTANCE_NIC0_NETWORK_SUBNET6": "2001:db8::/64",
        "INSTANCE_NIC0_NETWORK_GATEWAY6": "2001:db8::1",
        "INSTANCE_NIC0_NETWORK_MAC_PREFIX": "aa:00:01",
    }


def test_without_network() -> None:
    """A NIC without network, name and address has only what Ganeti tells of it; a routed one has no bridge."""
    plain = nic(network="", mode="routed", link="100")
    assert hook_environment("inst1", [(plain, None)]) == {
        "INSTANCE_NAME": "inst1",
        "INSTANCE_NIC_COUNT": "1",
        "INSTANCE_NIC0_UUID": "nic1",
        "INSTANCE_NIC0_IP": "",
        "INSTANCE_NIC0_MAC": "aa:00:00:00:00:01",
        "INSTANCE_NIC0_MODE": "routed",
        "INSTANCE_NIC0_LINK": "100",
        "INSTANCE_NIC0_VLAN": "",
    }


def test_many_addresses() -> None:
    """Several addresses are counted, and so are the subnets of their network; the first ones keep Ganeti's names."""
    env = hook_environment("inst1", [(nic("198.51.100.4", "192.0.2.7", "2001:db8::7"), NEW)])
    indexed = {name: value for name, value in env.items() if ":" in name}
    prefix = "INSTANCE_NIC0_"
    assert indexed == {
        f"{prefix}IP:0": "198.51.100.4",
        f"{prefix}IP:1": "192.0.2.7",
        f"{prefix}IP:2": "2001:db8::7",
        f"{prefix}NETWORK_SUBNET:0": "192.0.2.0/24",
        f"{prefix}NETWORK_GATEWAY:0": "192.0.2.1",
        f"{prefix}NETWORK_DHCP:0": "false",
        f"{prefix}NETWORK_SUBNET:1": "2001:db8::/64",
        f"{prefix}NETWORK_GATEWAY:1": "2001:db8::1",
        f"{prefix}NETWORK_DHCP:1": "false",
        f"{prefix}NETWORK_SUBNET:2": "198.51.100.0/24",
        f"{prefix}NETWORK_DHCP:2": "true",
    }
    assert indexed.items() == {(name, env[name.replace(":", "_")]) for name in indexed}
    assert (env[f"{prefix}IP"], env[f"{prefix}NETWORK_SUBNET"]) == ("198.51.100.4", "192.0.2.0/24")


@pytest.mark.parametrize(
    ("nics", "network", "counted"),
    [
        (nic("192.0.2.7"), OLD, False),
        (nic(), OLD, False),
        (nic("192.0.2.7", "192.0.2.8"), OLD, True),
        (nic("192.0.2.7"), replace(OLD, subnets=(replace(V4, dhcp=True),)), True),
        (nic("192.0.2.7"), replace(OLD, subnets=(replace(V4, name="front"),)), True),
        (nic("192.0.2.7"), replace(OLD, subnets=(V6, V4)), True),
        (nic("2001:db8::7"), replace(OLD, subnets=(V6,)), True),
        (nic("192.0.2.7"), replace(OLD, subnets=(replace(V4, pools=()),)), False),
    ],
)
def test_when_counted(nics: Nic, network: Network, counted: bool) -> None:
    """Variables with numbers are there exactly where Ganeti's can't say everything."""
    env = hook_environment("inst1", [(nics, network)])
    assert any(":" in name for name in env) == counted
    if not has_old_shape(network):
        assert any(":" in name for name in network_environment(network))


def test_script() -> None:
    """The script of an interface has the same variables without a prefix."""
    env = script_environment("inst1", 1, nic("192.0.2.7", "192.0.2.8", name="front"), OLD)
    assert (env["INSTANCE"], env["INTERFACE_INDEX"], env["INTERFACE_NAME"]) == ("inst1", "1", "front")
    assert (env["IP"], env["IP:1"], env["IP_1"]) == ("192.0.2.7", "192.0.2.8", "192.0.2.8")
    assert env["NETWORK_NAME"] == "Net1"


@pytest.mark.parametrize(
    ("mode", "link", "missing"),
    [
        ("bridged", "br0", {"IP"}),
        ("openvswitch", "ovs0", {"IP", "BRIDGE"}),
        ("routed", "", {"IP", "BRIDGE", "LINK"}),
    ],
)
def test_script_without(mode: str, link: str, missing: set[str]) -> None:
    """The script gets no values for what there is not, as hooks do, and a bridge in mode bridged only."""
    bare = nic(network="", mode=mode, link=link)
    names = {"IP", "BRIDGE", "LINK", "MODE", "VLAN"}
    assert names - script_environment("inst1", 0, bare, None).keys() == missing


def test_network() -> None:
    """Hooks of a network have Ganeti's variables, and numbers where those can't say everything."""
    assert network_environment(OLD) == {
        "NETWORK_NAME": "Net1",
        "NETWORK_UUID": "uuid1",
        "NETWORK_TAGS": "a b",
        "NETWORK_SUBNET": "192.0.2.0/24",
        "NETWORK_GATEWAY": "192.0.2.1",
        "NETWORK_SUBNET6": "2001:db8::/64",
        "NETWORK_GATEWAY6": "2001:db8::1",
        "NETWORK_MAC_PREFIX": "aa:00:01",
    }
    assert network_environment(NEW)["NETWORK_DHCP:2"] == "true"


def test_connection() -> None:
    """A NIC that says nothing of its own is connected as its network is, if that is everywhere the same."""
    one = Connection(group="g1", mode="openvswitch", link="ovs0", vlan="7")
    other = Connection(group="g2", mode="bridged", link="br1")
    silent = nic("192.0.2.7", mode="", link="")
    same = hook_environment("i", [(silent, replace(OLD, connections=(one, replace(one, group="g3"))))])
    assert (same["INSTANCE_NIC0_BRIDGE"], same["INSTANCE_NIC0_VLAN"]) == ("ovs0", "7")
    unlike = hook_environment("i", [(silent, replace(OLD, connections=(one, other)))])
    assert unlike["INSTANCE_NIC0_MODE"] == ""


@pytest.mark.skipif(shutil.which("dash") is None, reason="there is no dash here")
@settings(max_examples=examples(20), deadline=None)
@given(st.text(st.characters(blacklist_characters="\0", blacklist_categories=["Cs"]), max_size=20))
def test_shell(name: str) -> None:
    """A POSIX shell that evaluates the lines exports every value as it is, and those of colons under the other name."""
    env = hook_environment("inst1", [(nic("192.0.2.7", "192.0.2.8", name=name), NEW)])
    script = 'eval "$1"; exec "$2" -c "import json, os; print(json.dumps(dict(os.environ)))"'
    lines = "\n".join(as_shell(env))
    done = subprocess.run(
        ["dash", "-c", script, "dash", lines, "python3"],
        capture_output=True,
        check=True,
        env={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
    )
    seen = json.loads(done.stdout)
    wanted = {key: value for key, value in env.items() if ":" not in key}
    assert {key: seen[key] for key in wanted} == wanted
    assert not [key for key in seen if ":" in key]


def test_lines() -> None:
    """A value that would break a line is refused."""
    assert list(as_lines({"B": "2", "A": "x y"})) == ["A=x y", "B=2"]
    with pytest.raises(Malformed, match="A contains a line break"):
        list(as_lines({"A": "x\ny"}))


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_what_no_variable_holds(value: str) -> None:
    """What can't be in any environment is refused."""
    for lines in (as_lines, as_shell):
        with pytest.raises(Malformed, match="A contains characters that are not allowed in a variable"):
            list(lines({"A": value}))
