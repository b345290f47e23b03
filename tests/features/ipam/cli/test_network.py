"""`lanloom network` as its users call it: the whole command surface, and everything that is no command."""

import json

import yaml

from tests.cli.cluster import Cluster
from tests.features.ipam.cli.networks import NET1, done, fields, network


def pools(cluster: Cluster, name: str = "net1") -> list[tuple[str, str, str | None]]:
    """The first address, last address and name of each pool."""
    (found,) = fields(cluster, name, "pools")
    assert isinstance(found, list)
    return [(pool["start"], pool["end"], pool["name"]) for subnet in found for pool in subnet]


def subnets(cluster: Cluster, name: str = "net1") -> list[tuple[str, str | None, bool, str | None]]:
    """CIDR, gateway, DHCP and name of each subnet."""
    (found,) = fields(cluster, name, "subnets")
    assert isinstance(found, list)
    return [tuple(subnet.values()) for subnet in found]


def test_add_with_subnet_and_pool(cluster: Cluster) -> None:
    """A network is added with its subnet and pool, and what was added is printed."""
    printed = done(cluster, *NET1).splitlines()
    assert printed == [
        "+ network net1",
        "+ subnet 192.0.2.0/24 (gateway 192.0.2.1)",
        "+ subnet 192.0.2.0/24: pool 192.0.2.10-192.0.2.100 (name pool1)",
    ]
    assert subnets(cluster) == [("192.0.2.0/24", "192.0.2.1", False, None)]
    assert pools(cluster) == [("192.0.2.10", "192.0.2.100", "pool1")]


def test_add_in_the_deprecated_form(cluster: Cluster) -> None:
    """`--network` makes one subnet with one pool over all of it, and the deprecated fields show it."""
    old = ("--network6", "2001:db8::/64", "--gateway6", "2001:db8::1")
    done(cluster, "add", "--network", "192.0.2.0/28", "--gateway", "192.0.2.5", *old, "net1")
    names = ("network", "gateway", "network6", "gateway6", "map", "free_count", "reserved_count")
    assert fields(cluster, "net1", *names) == [
        "192.0.2.0/28",
        "192.0.2.5",
        "2001:db8::/64",
        "2001:db8::1",
        "X....X.........X",
        13,
        3,
    ]
    assert pools(cluster) == [("192.0.2.0", "192.0.2.15", None)]


def test_add_without_subnets(cluster: Cluster) -> None:
    """A network may be L2 only."""
    done(cluster, "add", "net-l2")
    assert subnets(cluster, "net-l2") == []


def test_add_with_everything(cluster: Cluster) -> None:
    """Several subnets and pools, reserved ranges, tags and a MAC prefix can be given at once."""
    done(
        cluster,
        *("add", "--subnet", "cidr=192.0.2.0/24,name=front", "--subnet", "cidr=2001:db8::/64,dhcp=true,pool"),
        *("--pool", "subnet=front,name=all", "--add-reserved-ips", "192.0.2.20-192.0.2.29,192.0.2.99"),
        *("--tags", "blue,test", "--mac-prefix", "AA:00:01", "Net_1"),
    )
    assert fields(cluster, "Net_1", "tags", "mac_prefix") == [["blue", "test"], "aa:00:01"]
    assert pools(cluster, "Net_1") == [
        ("192.0.2.0", "192.0.2.255", "all"),
        ("2001:db8::", "2001:db8::ffff:ffff:ffff:ffff", None),
    ]
    (external,) = fields(cluster, "Net_1", "external_reservations")
    assert external == ["192.0.2.0", "192.0.2.20-192.0.2.29", "192.0.2.99", "192.0.2.255", "2001:db8::"]


def test_modify_of_subnets(cluster: Cluster) -> None:
    """Subnets are added, renamed, resized, given another gateway and removed, named by CIDR or by name."""
    done(cluster, *NET1)
    done(cluster, "modify", "--subnet", "add:cidr=10.0.0.0/24,gateway=10.0.0.1,dhcp=true", "net1")
    done(cluster, "modify", "--subnet", "add:cidr=2001::/64,gateway=2001::1,dhcp=true", "net1")
    done(cluster, "modify", "--subnet", "10.0.0.0/24:modify,dhcp=false,name=foo", "net1")
    done(cluster, "modify", "--subnet", "foo:modify,gateway=10.0.0.40", "net1")
    resized = network(cluster, "modify", "--subnet", "192.0.2.0/24:modify,cidr=192.0.2.0/22", "net1")
    assert "Note: --subnet: 192.0.2.0/22 has host bits; it means 192.0.0.0/22" in resized.stderr
    assert subnets(cluster) == [
        ("192.0.0.0/22", "192.0.2.1", False, None),
        ("10.0.0.0/24", "10.0.0.40", False, "foo"),
        ("2001::/64", "2001::1", True, None),
    ]
    done(cluster, "modify", "--subnet", "foo:remove", "net1")
    done(cluster, "modify", "--subnet", "remove:2001::/64", "net1")
    assert [cidr for cidr, *_ in subnets(cluster)] == ["192.0.0.0/22"]


def test_modify_of_a_subnet_by_its_uuid(cluster: Cluster) -> None:
    """Each subnet has a UUID, which names it."""
    done(cluster, *NET1)
    (found,) = json.loads(done(cluster, "info", "--output", "json", "net1"))
    (uuid,) = found["subnet_uuids"]
    done(cluster, "modify", "--subnet", f"{uuid}:modify,name=foo", "net1")
    assert subnets(cluster) == [("192.0.2.0/24", "192.0.2.1", False, "foo")]


def test_modify_of_pools(cluster: Cluster) -> None:
    """Pools are added in each form, renamed and split; the parts keep their name."""
    done(cluster, *NET1)
    done(cluster, "modify", "--subnet", "add:cidr=10.0.0.0/24,name=ten", "net1")
    done(cluster, "modify", "--pool", "add:10.0.0.100", "net1")
    done(cluster, "modify", "--pool", "add:10.0.0.0/27", "net1")
    done(cluster, "modify", "--subnet", "add:cidr=10.0.1.0/27,pool", "net1")
    done(cluster, "modify", "--pool", "pool1:modify,name=bar", "net1")
    done(cluster, "modify", "--pool", "remove:192.0.2.20-192.0.2.50", "net1")
    assert pools(cluster) == [
        ("192.0.2.10", "192.0.2.19", "bar"),
        ("192.0.2.51", "192.0.2.100", "bar"),
        ("10.0.0.0", "10.0.0.31", None),
        ("10.0.0.100", "10.0.0.100", None),
        ("10.0.1.0", "10.0.1.31", None),
    ]
    ambiguous = network(cluster, "modify", "--pool", "bar:modify,name=x", "net1")
    assert ambiguous.exit_code == 1
    assert "192.0.2.10-192.0.2.19, 192.0.2.51-192.0.2.100" in ambiguous.stderr
    done(cluster, "modify", "--pool", "remove:10.0.0.0-10.0.0.255", "--pool", "add:subnet=ten", "net1")
    assert ("10.0.0.0", "10.0.0.255", None) in pools(cluster)


def test_modify_of_reserved_addresses(cluster: Cluster) -> None:
    """Ranges are reserved, which may overlap, and given back; what does nothing is noted."""
    done(cluster, *NET1)
    done(cluster, "modify", "--add-reserved-ips", "192.0.2.20-192.0.2.50", "net1")
    again = network(cluster, "modify", "--add-reserved-ips", "192.0.2.40-192.0.2.60", "net1")
    assert "Note: " in again.stderr
    done(cluster, "modify", "--remove-reserved-ips", "192.0.2.30-192.0.2.39", "net1")
    (external,) = fields(cluster, "net1", "external_reservations")
    assert external == [
        "192.0.2.0-192.0.2.1",
        "192.0.2.20-192.0.2.29",
        "192.0.2.40-192.0.2.60",
        "192.0.2.255",
    ]
    before = cluster.state()
    nothing = network(cluster, "modify", "--remove-reserved-ips", "192.0.2.99", "net1")
    assert (nothing.exit_code, nothing.stdout) == (0, "Network net1 is unchanged.\n")
    assert "nothing was removed" in nothing.stderr
    assert cluster.state() == before


def test_modify_with_ganetis_options(cluster: Cluster) -> None:
    """`--gateway`, `--network6` and `--gateway6` are about the first subnet of their version."""
    done(cluster, *NET1)
    done(cluster, "modify", "--gateway", "192.0.2.254", "--network6", "2001:db8::/64", "net1")
    done(cluster, "modify", "--gateway6", "2001:db8::1", "net1")
    assert fields(cluster, "net1", "gateway", "gateway6") == ["192.0.2.254", "2001:db8::1"]
    done(cluster, "modify", "--gateway", "none", "net1")
    assert fields(cluster, "net1", "gateway") == [None]


def test_connect_and_disconnect(cluster: Cluster) -> None:
    """Node groups are connected with mode, link and VLAN, in both forms, and disconnected one by one or all."""
    done(cluster, "add", "net1")
    done(cluster, "connect", "--nic-parameters", "mode=openvswitch,link=sw1,vlan=100", "net1", "a", "b")
    done(cluster, "connect", "net1", "bridged", "br0", "c")
    done(cluster, "connect", "-N", "link=br1", "net1", "d")
    assert fields(cluster, "net1", "group_list", "group_cnt") == [
        [
            ["a", "openvswitch", "sw1", "100"],
            ["b", "openvswitch", "sw1", "100"],
            ["c", "bridged", "br0", ""],
            ["d", "bridged", "br1", ""],
        ],
        4,
    ]
    done(cluster, "disconnect", "net1", "b")
    done(cluster, "disconnect", "net1")
    assert fields(cluster, "net1", "group_cnt") == [0]


def test_connect_looks_for_conflicts(cluster: Cluster) -> None:
    """Two networks with the same addresses are not put on one link, unless that is insisted on."""
    for name in ("one", "two"):
        done(cluster, "add", "--subnet", "cidr=192.0.2.0/24", name)
    done(cluster, "connect", "-N", "link=br0", "one", "default")
    refused = network(cluster, "connect", "-N", "link=br0", "two", "default")
    assert refused.exit_code == 1
    assert "overlaps subnet 192.0.2.0/24 of network one" in refused.stderr
    done(cluster, "connect", "-N", "link=br1", "two", "default")
    done(cluster, "disconnect", "two")
    done(cluster, "connect", "-N", "link=br0", "--no-conflicts-check", "two", "default")


def test_rename(cluster: Cluster) -> None:
    """A network gets another name, also one that no object could have, and the first one is free for another one."""
    done(cluster, *NET1)
    done(cluster, "rename", "net1", "Shop_1")
    assert done(cluster, "list", "-o", "name", "--no-headers").split() == ["Shop_1"]
    assert done(cluster, "list", "-o", "name", "--no-headers", "net1").split() == ["Shop_1"]
    done(cluster, "add", "net2")
    taken = network(cluster, "rename", "net2", "Shop_1")
    assert taken.exit_code == 1
    assert taken.stderr == "Error: there is a network Shop_1 already; choose another name\n"
    done(cluster, "add", "--dry-run", "net1")
    done(cluster, "rename", "net2", "net1")
    assert done(cluster, "list", "-o", "name", "--no-headers").split() == ["Shop_1", "net1"]


def test_changes_for_programs(cluster: Cluster) -> None:
    """With `--output` a change, or a dry run of it, is printed as data: what changes and what comes of it."""
    json_ = ("--output", "json")
    made = json.loads(done(cluster, *NET1, *json_))
    assert [change["sign"] for change in made["changes"]] == ["+", "+", "+"]
    (subnet,) = made["spec"]["subnets"]
    assert subnet["pools"] == [{"range": "192.0.2.10-192.0.2.100", "name": "pool1"}]
    before = cluster.state()
    printed = json.loads(done(cluster, "rename", "--dry-run", *json_, "net1", "Shop_1"))
    assert (printed["name"], printed["dry_run"], printed["spec"]["name"]) == ("Shop_1", True, "Shop_1")
    assert printed["changes"] == [{"sign": "~", "text": "name net1 → Shop_1"}]
    assert cluster.state() == before
    for words in (("tag", "add", "net1", "blue"), ("connect", "-N", "link=br0", "net1", "one")):
        assert len(json.loads(done(cluster, *words, *json_))["changes"]) == 1
    done(cluster, "disconnect", "net1")
    gone = yaml.safe_load(done(cluster, "remove", "net1", "--output", "yaml"))
    assert (gone["name"], gone["dry_run"], gone["spec"]) == ("net1", False, None)


def test_options_that_ganeti_has_as_well(cluster: Cluster) -> None:
    """`--mac-prefix none` takes the prefix away; a network may be added without a check of conflicts."""
    done(cluster, "add", "--no-conflicts-check", "--mac-prefix", "aa:00:01", "net1")
    assert done(cluster, "modify", "--mac-prefix", "none", "net1") == "- MAC prefix aa:00:01\n"
    assert fields(cluster, "net1", "mac_prefix") == [None]


def test_remove(cluster: Cluster) -> None:
    """A network goes when it is neither connected nor has NICs, with or without addresses."""
    done(cluster, *NET1)
    done(cluster, "connect", "-N", "link=br0", "net1", "default")
    assert "is connected to node groups: default" in network(cluster, "remove", "net1").stderr
    done(cluster, "disconnect", "net1")
    cluster.nic("nic0", "inst1", "net1")
    assert "default/nic0 of Instance inst1" in network(cluster, "remove", "net1").stderr
    assert network(cluster, "remove", "net1").exit_code == 1
    cluster.clear()
    done(cluster, *NET1)
    assert done(cluster, "remove", "net1").splitlines()[0] == "- network net1"
    assert not any(cluster.state().values())
