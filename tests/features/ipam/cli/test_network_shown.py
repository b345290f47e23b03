"""`lanloom network`: lists, details, usage, dry runs, help and completion."""

import json
from collections.abc import Iterator

import click
import pytest
import yaml

from lanloom.api.ipam import HELD_UNTIL, NETWORKS, STICKY_FOR
from lanloom.features.ipam.cli.network import command
from tests.cli.cluster import Cluster
from tests.features.ipam.cli.networks import NET1, done, fields, network


def test_tags(cluster: Cluster) -> None:
    """Tags are added, listed and removed; one that is not there is refused."""
    done(cluster, "add", "net1")
    done(cluster, "tag", "add", "net1", "blue", "a:b/c")
    assert done(cluster, "tag", "list", "net1").split() == ["a:b/c", "blue"]
    done(cluster, "tag", "remove", "net1", "blue")
    assert fields(cluster, "net1", "tags") == [["a:b/c"]]
    assert network(cluster, "tag", "remove", "net1", "blue").exit_code == 1


def test_list_as_ganetis_users_expect(cluster: Cluster) -> None:
    """A table with chosen fields, without titles, with a separator; of all networks or of some."""
    done(cluster, *NET1)
    done(cluster, "add", "net2")
    assert done(
        cluster, "list", "--no-headers", "--separator", ":", "-o", "name,free_count,gateway"
    ).split() == [
        "net1:91:192.0.2.1",
        "net2:0:-",
    ]
    assert done(cluster, "list", "-o", "+serial_no,inst_cnt", "net2").splitlines()[0].split()[-2:] == [
        "SerialNo",
        "Instances",
    ]
    assert max(map(len, done(cluster, "list").splitlines())) <= 80
    data = yaml.safe_load(done(cluster, "list", "--output", "yaml", "-o", "name,mac_prefix,tags"))
    assert data == [{"name": name, "mac_prefix": None, "tags": []} for name in ("net1", "net2")]


def test_info_shows_who_else_has_addresses(cluster: Cluster) -> None:
    """Addresses that others on the network's wires have are shown with their holders, and the networks on them."""
    done(cluster, *NET1)
    done(cluster, "add", "net2")
    gateway = {"ip": "192.0.2.10", "by": "the gateway", "of": "NetworkAttachmentDefinition default/lan"}
    status = {"status": {"inUse": [gateway], "sharedWith": ["net2"]}}
    cluster.do(lambda client: client.patch(NETWORKS, "net1", status, subresource="status"))
    text = done(cluster, "info", "net1")
    assert "Shares a wire and addresses with network net2" in text
    assert "192.0.2.10: the gateway (NetworkAttachmentDefinition default/lan)" in text
    (found,) = json.loads(done(cluster, "info", "--output", "json", "net1"))
    assert (found["in_use"], found["shared_with"]) == ([gateway], ["net2"])
    assert "1 reserved" in text


def test_list_fields(cluster: Cluster) -> None:
    """Every field is listed with what it says; some if they are named."""
    assert "reserved_count" in done(cluster, "list-fields")
    (found,) = json.loads(done(cluster, "list-fields", "--output", "json", "map"))
    assert (found["name"], found["title"]) == ("map", "Map")


def test_info_for_people_and_programs(cluster: Cluster) -> None:
    """Pools are shown with their maps, and who has which address."""
    done(cluster, *NET1)
    cluster.nic("nic0", "inst1", "net1", "192.0.2.10", "192.0.2.200")
    text = done(cluster, "info", "net1")
    assert "Pool 192.0.2.10-192.0.2.100 (pool1): 1 used, 0 reserved, 90 free of 91" in text
    assert f" 0 X{'.' * 63} 63" in text
    assert "Instance default/inst1, NIC 0: 192.0.2.10, 192.0.2.200" in text
    assert max(map(len, text.splitlines())) <= 80
    (found,) = json.loads(done(cluster, "info", "--output", "json"))
    assert found["inst_list"] == ["inst1"]
    assert found["nics"][0]["ips"] == ["192.0.2.10", "192.0.2.200"]


def test_usage_draws_and_warns(cluster: Cluster) -> None:
    """Each pool has a bar and, if it is small, a map; one from 80 % on is marked, and the exit code is 3 then."""
    done(
        cluster, "add", "--subnet", "cidr=192.0.2.0/24", "--pool", "192.0.2.10-192.0.2.19,name=small", "net1"
    )
    well = network(cluster, "usage")
    assert well.exit_code == 0
    cluster.nic("nic0", "inst1", "net1", *(f"192.0.2.{10 + index}" for index in range(8)))
    short = network(cluster, "usage", "net1")
    assert short.exit_code == 3
    words = " ".join(short.stdout.split())
    assert "192.0.2.10-192.0.2.19 (small) in 192.0.2.0/24: 8 used, 0 reserved, 2 free of 10 (80 %)" in words
    assert "! nearly full" in words
    assert "0 XXXXXXXX.. 9" in words
    assert max(map(len, short.stdout.splitlines())) <= 80
    (found,) = json.loads(network(cluster, "usage", "--output", "json").stdout)
    assert (found["size"], found["used"], found["free"], found["percent"]) == (10, 8, 2, 80)
    assert found["pools"][0]["warning"] == "nearly full"
    done(cluster, "modify", "--pool", "small:modify,disabled", "net1")
    disabled = network(cluster, "usage")
    assert disabled.exit_code == 0
    assert "disabled" in disabled.stdout


def test_a_dry_run_tells_and_writes_nothing(cluster: Cluster) -> None:
    """Every change can be looked at first; the state stays identical."""
    done(cluster, *NET1)
    done(cluster, "connect", "-N", "link=br0", "net1", "default")
    done(cluster, "tag", "add", "net1", "a")
    before = cluster.state()
    for words, expected in DRY_RUNS.items():
        printed = done(cluster, *words.split(), "--dry-run").splitlines()
        assert printed[:-1] == expected
        assert printed[-1] == "This was a dry run: nothing was changed."
    assert cluster.state() == before


DRY_RUNS = {
    "add --subnet cidr=10.0.0.0/24 net2": ["+ network net2", "+ subnet 10.0.0.0/24"],
    "modify --pool remove:192.0.2.20-192.0.2.50 net1": [
        "- subnet 192.0.2.0/24: pool 192.0.2.10-192.0.2.100 (name pool1)",
        "+ subnet 192.0.2.0/24: pool 192.0.2.10-192.0.2.19 (name pool1)",
        "+ subnet 192.0.2.0/24: pool 192.0.2.51-192.0.2.100 (name pool1)",
    ],
    "modify --subnet 192.0.2.0/24:modify,gateway=192.0.2.9 net1": [
        "~ subnet 192.0.2.0/24: gateway 192.0.2.1 → 192.0.2.9"
    ],
    "modify --add-reserved-ips 192.0.2.7,192.0.2.8 net1": [
        "+ subnet 192.0.2.0/24: reserved 192.0.2.7-192.0.2.8"
    ],
    "rename net1 net2": ["~ name net1 → net2"],
    "connect -N link=br1,vlan=5 net1 rack1": ["+ node group rack1 (mode bridged, link br1, VLAN 5)"],
    "disconnect net1": ["- node group default (mode bridged, link br0)"],
    "tag add net1 b": ["+ tag b"],
    "tag remove net1 a": ["- tag a"],
}


def test_a_dry_run_of_a_removal(cluster: Cluster) -> None:
    """What would be removed is listed."""
    done(cluster, *NET1)
    before = cluster.state()
    assert done(cluster, "remove", "--dry-run", "net1").splitlines() == [
        "- network net1",
        "- subnet 192.0.2.0/24 (gateway 192.0.2.1)",
        "- subnet 192.0.2.0/24: pool 192.0.2.10-192.0.2.100 (name pool1)",
        "This was a dry run: nothing was changed.",
    ]
    assert cluster.state() == before


def test_an_object_that_cannot_be_read_is_named(cluster: Cluster) -> None:
    """What was written past the webhooks is no wrong usage: exit status 1, with the object and the field."""
    body = {"metadata": {"name": "broken"}, "spec": {"subnets": [{"cidr": "nonsense"}]}}
    cluster.do(lambda client: client.create(NETWORKS, body))
    for words in (
        ("list",),
        ("info", "broken"),
        ("usage",),
        ("modify", "--mac-prefix", "aa:00:00", "broken"),
    ):
        found = network(cluster, *words)
        assert found.exit_code == 1
        assert found.stderr.startswith("Error: Network broken: spec.subnets[0].cidr: ")


def test_input_is_read_before_the_cluster_is_asked(cluster: Cluster) -> None:
    """Malformed input exits with 2 also where no cluster can be reached."""
    nowhere = {"KUBECONFIG": "/nonexistent"}
    for words in (
        "modify --mac-prefix x net1",
        "modify --mac-prefix= net1",
        "add --tags a,,b net1",
        "list -o x",
        "rename net1 a/b",
        "info a/b",
    ):
        assert cluster.lanloom("network", *words.split(), environment=nowhere).exit_code == 2
    unreachable = cluster.lanloom("network", "list", environment=nowhere)
    assert unreachable.exit_code == 1
    assert unreachable.stderr.count("\n") == 1


def _commands(group: click.Group, path: str) -> Iterator[tuple[str, click.Command]]:
    for name, item in group.commands.items():
        yield f"{path} {name}", item
        if isinstance(item, click.Group):
            yield from _commands(item, f"{path} {name}")


@pytest.mark.parametrize(("path", "item"), list(_commands(command, "lanloom network")), ids=str)
def test_every_command_has_help_with_an_example(path: str, item: click.Command) -> None:
    """Each command's help shows how it is called."""
    assert item.help is not None
    assert "Example" in item.help
    assert f"      {path} " in item.help or f"  {path}\n" in item.help


def test_shells_complete_names(cluster: Cluster) -> None:
    """A shell completes the names of networks from the cluster."""
    done(cluster, *NET1)
    done(cluster, "add", "other")
    assert cluster.offered("lanloom network info ne") == ["plain,net1"]


def test_shares(cluster: Cluster) -> None:
    """Namespaces and quotas are set, shown with what each namespace has, and taken away; what is wrong is refused."""
    done(cluster, *NET1, "--namespaces", "default,shop", "--quota", "shop=50,*=10")
    cluster.nic("nic0", "inst1", "net1", "192.0.2.10", "192.0.2.200")
    text = done(cluster, "info", "net1")
    for line in (
        "Serves namespaces: default, shop",
        "Namespace default: 2 used of 10",
        "Namespace shop: 0 used of 50",
    ):
        assert line in text
    assert "namespace default: 2 used of 10" in done(cluster, "usage", "net1")
    (found,) = json.loads(done(cluster, "info", "--output", "json", "net1"))
    assert found["namespaces"][0] == {"name": "default", "used": 2, "quota": 10}
    done(cluster, "modify", "--namespaces", "*", "--quota", "none", "net1")
    assert "Serves namespaces: all" in done(cluster, "info", "net1")
    done(cluster, "modify", "--force-namespaces", "ops,net", "net1")
    assert "Admits force of namespaces: ops, net" in done(cluster, "info", "net1")
    (found,) = json.loads(done(cluster, "info", "--output", "json", "net1"))
    assert found["force_namespaces"] == ["ops", "net"]
    assert "- force of namespace ops" in done(cluster, "modify", "--force-namespaces", "*", "net1")
    assert "Admits force" not in done(cluster, "info", "net1")
    for words in (
        ("--namespaces", "No Such"),
        ("--force-namespaces", "No Such"),
        ("--quota", "shop"),
        ("--quota", "a=1,a=2"),
        ("--quota", "a=-1"),
    ):
        assert network(cluster, "modify", *words, "net1").exit_code == 2


def test_sticky_addresses(cluster: Cluster) -> None:
    """Periods are set, shown and taken away; what is kept is listed, and released only where it is not in use."""
    done(cluster, *NET1, "--sticky-for", "StatefulSet=12h,VirtualMachine=7d")
    assert "Keeps addresses for the name of a StatefulSet: 12h after its end" in done(cluster, "info", "net1")
    until = {STICKY_FOR: "12h", HELD_UNTIL: "2026-01-02T00:00:00Z"}
    cluster.nic("nic0", "web-0", "net1", "192.0.2.10", "192.0.2.11", kind="Pod", annotations=until)
    cluster.nic("nic1", "web-1", "net1", "192.0.2.12", kind="Pod", annotations={STICKY_FOR: "12h"})
    line = "192.0.2.10, 192.0.2.11: held for Pod default/web-0 until 2026-01-02T00:00:00Z"
    assert line in " ".join(done(cluster, "usage", "net1").split())
    (found,) = json.loads(done(cluster, "usage", "--output", "json", "net1"))
    assert [hold["owner"] for hold in found["held"]] == ["Pod default/web-0"]
    before = cluster.state()
    assert "- 192.0.2.10, 192.0.2.11, kept for" in done(cluster, "release", "net1", "192.0.2.11", "--dry-run")
    for address, words in (
        ("192.0.2.12", "192.0.2.12 of network net1 is used by Pod default/web-1"),
        ("192.0.2.13", "192.0.2.13 of network net1 belongs to no NIC"),
        ("192.0.2", "is not an IP address"),
    ):
        refused = network(cluster, "release", "net1", "192.0.2.10", address)
        assert refused.exit_code != 0
        assert words in " ".join(refused.output.split())
    assert cluster.state() == before
    done(cluster, "release", "net1", "192.0.2.10")
    assert "held" not in done(cluster, "usage", "net1")
    assert "sticky addresses of StatefulSet" in done(cluster, "modify", "--sticky-for", "none", "net1")
    assert "Keeps addresses" not in done(cluster, "info", "net1")
    for text in ("ReplicaSet=1h", "Pod", "Pod=1y"):
        assert network(cluster, "modify", "--sticky-for", text, "net1").exit_code == 2


@pytest.mark.parametrize("command", ["list", "info", "usage"])
def test_a_network_that_cannot_be_read_hides_no_other(cluster: Cluster, command: str) -> None:
    """A network that was written past the webhooks is named with its fault after the others, and in the exit code."""
    done(cluster, *NET1)
    broken = {"metadata": {"name": "broken"}, "spec": {"subnets": [{"cidr": "192.0.2.0/33"}]}}
    cluster.do(lambda client: client.create(NETWORKS, broken))
    cluster.do(
        lambda client: client.patch(
            NETWORKS, "net1", {"status": {"sharedWith": ["broken"]}}, subresource="status"
        )
    )
    found = network(cluster, command)
    assert (found.exit_code, "net1" in found.output) == (1, True)
    assert 'Error: Network broken: spec.subnets[0].cidr: "192.0.2.0/33" is not a CIDR' in found.output
    assert network(cluster, command, "net1").exit_code in (0, 3)
    assert network(cluster, command, "broken").exit_code == 1


def test_a_network_that_cannot_be_read_is_in_no_other_s_way(cluster: Cluster) -> None:
    """Others are connected, and hooks of their instances have an environment."""
    done(cluster, *NET1)
    broken = {"metadata": {"name": "broken"}, "spec": {"subnets": [{"cidr": "192.0.2.0/33"}]}}
    cluster.do(lambda client: client.create(NETWORKS, broken))
    cluster.nic("one", "web", "net1", "192.0.2.10")
    done(cluster, "connect", "--nic-parameters", "mode=bridged,link=br0", "net1", "group1")
    assert "192.0.2.10" in cluster.lanloom("ganeti", "env", "web").output
