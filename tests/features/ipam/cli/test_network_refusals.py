"""Everything that `lanloom network` does not do: malformed input exits with 2, what the state forbids with 1.

In both cases there is one line that says what is wrong, and the state stays identical, versions and times included.
"""

from collections.abc import Iterator

import pytest

from tests.cli.cluster import Cluster, served

NET1 = (
    "--subnet cidr=192.0.2.0/24,gateway=192.0.2.1,name=foo,dhcp=true --pool 192.0.2.10-192.0.2.100,name=pool1"
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A network net1 with two subnets and NICs, connected to a node group, and another network."""
    with served(tmp_path_factory.mktemp("cluster")) as made:
        for words in (
            f"add {NET1} --subnet cidr=2001:db8::/64 --add-reserved-ips 192.0.2.50-192.0.2.60 net1",
            "add net2",
            "connect -N link=br0 net1 default",
            "tag add net1 blue",
        ):
            assert made.lanloom("network", *words.split()).exit_code == 0
        made.nic("nic0", "inst1", "net1", "192.0.2.15", "192.0.2.200", "2001:db8::5")
        made.nic("nic1", "inst2", "net2")
        yield made


def refuse(cluster: Cluster, words: str, status: int) -> str:
    """Run a command that must end with a status and leave everything identical; the line that it said."""
    before = cluster.state()
    done = cluster.lanloom("network", *words.split())
    assert done.exit_code == status, done.output
    assert done.stdout == ""
    *usage, line = done.stderr.splitlines()
    assert all(text.startswith(("Usage: ", "Try ")) or not text for text in usage)
    assert line.startswith("Error: ")
    assert cluster.state() == before
    return line


MALFORMED = [
    # names
    "add",
    "add one two",
    "add a/b",
    "add pool",
    "add none",
    "add 192.0.2.0/24",
    "add 192.0.2.1",
    "add 192.0.2.1-192.0.2.9",
    "add 2001:db8::1",
    "add -- -x",
    "add f47ac10b-58cc-4372-a567-0e02b2c3d479",
    "rename net1 a/b",
    "rename net1 auto",
    "info a/b",
    "usage a,b",
    "list 192.0.2.0/24",
    "remove net1:",
    "disconnect a/b",
    "disconnect net1 default default",
    "tag list a/b",
    # subnets of add
    "add --subnet x net9",
    "add --subnet cidr net9",
    "add --subnet cidr= net9",
    "add --subnet cidr=192.0.2.0 net9",
    "add --subnet cidr=192.0.2.0/33 net9",
    "add --subnet cidr=192.0.2.0/024 net9",
    "add --subnet cidr=192.0.2.0/-1 net9",
    "add --subnet cidr=192.0.2/24 net9",
    "add --subnet cidr=2001:db8::/129 net9",
    "add --subnet cidr=2001:db8:::/64 net9",
    "add --subnet cidr=192.0.2.0/24,cidr=10.0.0.0/8 net9",
    "add --subnet cidr=192.0.2.0/24,nonsense=1 net9",
    "add --subnet cidr=192.0.2.0/24,gateway net9",
    "add --subnet cidr=192.0.2.0/24,gateway=x net9",
    "add --subnet cidr=192.0.2.0/24,gateway=10.0.0.1 net9",
    "add --subnet cidr=192.0.2.0/24,gateway=192.0.2.0 net9",
    "add --subnet cidr=192.0.2.0/24,gateway=192.0.2.255 net9",
    "add --subnet cidr=192.0.2.0/24,gateway=fe80::1 net9",
    "add --subnet cidr=192.0.2.0/24,dhcp=maybe net9",
    "add --subnet cidr=192.0.2.0/24,pool=maybe net9",
    "add --subnet cidr=192.0.2.0/24,name=pool net9",
    "add --subnet cidr=192.0.2.0/24,name=a/b net9",
    "add --subnet cidr=192.0.2.0/24,,pool net9",
    "add --subnet add:cidr=192.0.2.0/24 net9",
    # pools of add
    "add --subnet cidr=192.0.2.0/24 --pool x=1 net9",
    "add --subnet cidr=192.0.2.0/24 --pool 192.0.2.9-192.0.2.1 net9",
    "add --subnet cidr=192.0.2.0/24 --pool 192.0.2.9- net9",
    "add --subnet cidr=192.0.2.0/24 --pool 192.0.2.9-2001:db8::1 net9",
    "add --subnet cidr=192.0.2.0/24 --pool 192.0.2.9,subnet=foo net9",
    "add --subnet cidr=192.0.2.0/24 --pool 192.0.2.300 net9",
    "add --subnet cidr=192.0.2.0/24 --pool 192.0.2.9,name=pool4 net9",
    # the deprecated form
    "add --network 192.0.2.0/24 --subnet cidr=10.0.0.0/8 net9",
    "add --network 2001:db8::/64 net9",
    "add --network6 192.0.2.0/24 net9",
    "add --gateway 192.0.2.1 net9",
    "add --gateway6 2001:db8::1 net9",
    "add --network 192.0.2.0/24 --gateway x net9",
    "add --network 192.0.2.0/24 --gateway= net9",
    "add --network= net9",
    "add --network 192.0.2.0/24 --network 10.0.0.0/8 net9",
    # further options
    "add --mac-prefix x net9",
    "add --mac-prefix aa:00 net9",
    "add --mac-prefix 01:00:00 net9",
    "add --mac-prefix aa:00:00 --mac-prefix aa:00:01 net9",
    "add --tags a,,b net9",
    "add --tags a --tags b net9",
    "add --add-reserved-ips 192.0.2.1, net9",
    "add --add-reserved-ips 192.0.2.1 --add-reserved-ips 192.0.2.2 net9",
    "add --nonsense net9",
    # modify
    "modify net1",
    "modify --dry-run net1",
    "modify --subnet foo net1",
    "modify --subnet foo:modify net1",
    "modify --subnet foo:modify,dhcp=2 net1",
    "modify --subnet foo:modify,cidr=x net1",
    "modify --subnet foo:modify,nonsense=1 net1",
    "modify --subnet foo:remove,dhcp=false net1",
    "modify --subnet foo:add,cidr=10.0.0.0/8 net1",
    "modify --subnet foo:modify,remove net1",
    "modify --subnet add:cidr=10.0.0.0/8,modify net1",
    "modify --subnet add: net1",
    "modify --subnet :remove net1",
    "modify --subnet a/b:remove net1",
    "modify --subnet a+b:remove net1",
    "modify --pool pool1 net1",
    "modify --pool pool1:modify net1",
    "modify --pool pool1:modify,range=192.0.2.1 net1",
    "modify --pool pool1:remove,name=x net1",
    "modify --pool add: net1",
    "modify --pool add:name=x net1",
    "modify --pool add:192.0.2.0/33 net1",
    "modify --pool add:192.0.2.5-192.0.2.1 net1",
    "modify --pool a+b:remove net1",
    "modify --add-reserved-ips x net1",
    "modify --add-reserved-ips 192.0.2.5-192.0.2.1 net1",
    "modify --remove-reserved-ips 192.0.2 net1",
    "modify --add-reserved-ips 192.0.2.5 --add-reserved-ips 192.0.2.6 net1",
    "modify --gateway x net1",
    "modify --gateway 2001:db8::1 net1",
    "modify --gateway6 192.0.2.1 net1",
    "modify --network6 192.0.2.0/24 net1",
    "modify --network6 2001:db8::1 net1",
    "modify --mac-prefix gg:00:00 net1",
    # how groups are connected
    "connect net1",
    "connect net1 rack1",
    "connect net1 bridged br0",
    "connect -N mode=bridged net1 rack1",
    "connect -N mode=macvtap,link=br0 net1 rack1",
    "connect -N link=br0,vlan=4095 net1 rack1",
    "connect -N link=br0,vlan=x net1 rack1",
    "connect -N link=br0,nonsense=1 net1 rack1",
    "connect -N link=br0,link=br1 net1 rack1",
    "connect -N link=br0 -N link=br1 net1 rack1",
    "connect -N link=br0 net1 a/b",
    "connect -N link=é net1 rack1",
    "connect -N link=\udcff net1 rack1",
    "connect -N link=br0 net1 rack1 rack1",
    # tags, lists
    "tag add net1",
    "tag add net1 a,b",
    "tag remove net1 a,b",
    "list -o nonsense",
    "list --output csv",
    "list --output json --separator :",
    "list-fields nonsense",
    "info --output csv net1",
    "usage --output csv",
    "nonsense",
    "tag nonsense",
]


@pytest.mark.slow
@pytest.mark.parametrize("words", MALFORMED)
def test_malformed_input_exits_with_2(cluster: Cluster, words: str) -> None:
    """What can't be right, whatever the state is, is wrong usage with one clear line."""
    refuse(cluster, words, 2)


REFUSED = {
    "add net1": "there is a network net1 already",
    "add --subnet cidr=192.0.2.0/24 --subnet cidr=192.0.2.0/25 net9": "overlaps",
    "add --pool 192.0.2.1 net9": "no subnet contains",
    "add --subnet cidr=192.0.2.0/24 --add-reserved-ips 10.0.0.1 net9": "does not lie inside",
    "modify --pool add:192.0.2.10 net9": "network net9 does not exist",
    "modify --subnet bar:remove net1": 'has no subnet "bar"',
    "modify --subnet foo:remove net1": "192.0.2.15",
    "modify --subnet 2001:db8::/64:remove net1": "2001:db8::5",
    "modify --subnet add:cidr=192.0.2.0/25 net1": "overlaps",
    "modify --subnet add:cidr=10.0.0.0/8,name=foo net1": "foo",
    "modify --subnet add:cidr=10.0.0.0/8,dhcp=true net1": "dhcp=true already",
    "modify --subnet foo:modify,cidr=192.0.2.0/25 net1": "192.0.2.200",
    "modify --subnet foo:modify,cidr=2001:db8:1::/64 net1": "",
    "modify --subnet foo:modify,gateway=10.0.0.1 net1": "outside",
    "modify --subnet foo:modify,gateway=192.0.2.15 net1": "192.0.2.15",
    "modify --pool add:192.0.2.100-192.0.2.110 net1": "overlaps the pool",
    "modify --pool add:10.0.0.0/27 net1": "no subnet contains",
    "modify --pool remove:192.0.2.201-192.0.2.210 net1": "is in no pool",
    "modify --pool pool9:remove net1": "pool9",
    "modify --pool pool9:modify,name=x net1": "pool9",
    "modify --add-reserved-ips 10.0.0.1 net1": "does not lie inside",
    "modify --add-reserved-ips 192.0.2.7 --remove-reserved-ips 192.0.2.1 net1": "gateway",
    "modify --remove-reserved-ips 192.0.2.0-192.0.2.99 net1": "stays reserved",
    "modify --pool add:192.0.2.200 --add-reserved-ips 10.0.0.1 net1": "does not lie inside",
    "modify --gateway 192.0.2.7 net2": "no IPv4 subnet",
    "modify --gateway6 2001:db8::7 net2": "no IPv6 subnet",
    "rename net1 net1": "has that name already",
    "rename net1 net2": "there is a network net2 already",
    "rename net9 net8": "network net9 does not exist",
    "remove net1": "disconnect it first",
    "remove net2": "of Instance inst2",
    "remove net9": "network net9 does not exist",
    "connect -N link=br0 net1 default": "already",
    "connect -N link=br1 net1 rack1 default": "already",
    "disconnect net1 rack9": "is not connected to node group",
    "disconnect net2": "is connected to no node group",
    "tag remove net1 blue red": 'no tag "red"',
    "tag list net9": "network net9 does not exist",
    "list net1 net9": "network net9 does not exist; networks are: net1, net2",
    "info net9": "network net9 does not exist",
    "usage net9": "network net9 does not exist",
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_the_state_forbids_exits_with_1(cluster: Cluster, words: str) -> None:
    """A refusal says why, and nothing is done of an operation of which one step is refused."""
    assert REFUSED[words] in refuse(cluster, words, 1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "words", [words for words in REFUSED if words.partition(" ")[0] not in ("info", "usage", "list", "tag")]
)
def test_a_dry_run_refuses_what_the_change_would(cluster: Cluster, words: str) -> None:
    """Looking first gives the same answer."""
    assert REFUSED[words] in refuse(cluster, f"{words} --dry-run", 1)
