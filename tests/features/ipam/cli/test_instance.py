"""`lanloom instance` as its users call it, on a served cluster with its manager."""

import json
from collections.abc import Iterator
from functools import partial

import pytest
import yaml
from click.testing import Result

from lanloom.api.ipam import FINALIZER, NETWORKS, NICS
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served
from tests.harness.servers.eventually import eventually

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One server for the module, with networks of every sort; each test has an instance name of its own."""
    with served(tmp_path_factory.mktemp("cluster"), manager=True) as made:
        for words in (
            "add --subnet cidr=192.0.2.0/24,gateway=192.0.2.1 --pool 192.0.2.10-192.0.2.100,name=pool1 "
            "--pool 192.0.2.200-192.0.2.210,name=some-pool-name --add-reserved-ips 192.0.2.150 net1",
            "add --subnet cidr=2001:db8::/64,gateway=2001:db8::1,pool --mac-prefix aa:bb:cc net6",
            "add --subnet cidr=10.0.0.0/30,pool tiny",
            "add net-l2",
        ):
            result = made.lanloom("network", *words.split())
            assert result.exit_code == 0, result.output
        made.do(networks_are_held)
        yield made


async def networks_are_held(client: Client) -> None:
    """Wait until the manager has seen to it that networks stay as long as they are used: it writes nothing then."""
    await eventually(
        partial(client.list, NETWORKS),
        lambda found: all(FINALIZER in item.metadata.finalizers for item in found.items),
    )


def instance(cluster: Cluster, words: str) -> Result:
    """Run `lanloom instance …`."""
    return cluster.lanloom("instance", *words.split())


def done(cluster: Cluster, words: str) -> str:
    """Run `lanloom instance …`, which must succeed; what it printed."""
    result = instance(cluster, words)
    assert (result.exit_code, result.stderr) == (0, ""), result.output
    return result.stdout


def ips(cluster: Cluster, name: str) -> list[list[str]]:
    """The addresses of an instance's NICs."""
    (found,) = json.loads(done(cluster, f"info {name} --output json"))
    return [nic["ips"] for nic in found["nics"]]


def test_the_specified_commands(cluster: Cluster) -> None:
    """The commands of the specification, one after the other."""
    printed = done(cluster, "add --net 0:ip0=192.0.2.4,ip1=pool,ip2=some-pool-name,network=net1 inst1")
    assert printed.startswith("+ NIC 0 on net1: 192.0.2.4, 192.0.2.10, 192.0.2.200, MAC aa:00:00:")
    printed = done(cluster, "modify --net 0:modify,ip1=192.0.2.11 inst1")
    assert " ".join(printed.split()) == (
        "~ NIC 0 on net1: addresses 192.0.2.4, 192.0.2.10, 192.0.2.200 → 192.0.2.4, 192.0.2.11, 192.0.2.200"
    )
    printed = done(cluster, "modify --net -1:add,ip0=pool,ip1=192.0.2.5,network=net1 inst1")
    assert printed.startswith("+ NIC 1 on net1: 192.0.2.10, 192.0.2.5, MAC ")
    printed = done(cluster, "modify --net 1:modify,ip1=none inst1")
    assert printed == "~ NIC 1 on net1: addresses 192.0.2.10, 192.0.2.5 → 192.0.2.10\n"
    assert ips(cluster, "inst1") == [["192.0.2.4", "192.0.2.11", "192.0.2.200"], ["192.0.2.10"]]
    assert done(cluster, "modify --net 0:modify,ip1=192.0.2.11 inst1") == "Instance inst1 is unchanged.\n"
    printed = done(cluster, "remove inst1")
    assert [line[:6] for line in printed.splitlines()] == ["- NIC ", "- NIC "]
    assert instance(cluster, "info inst1").exit_code == 1


def test_a_rename(cluster: Cluster) -> None:
    """An instance gets another name by Ganeti's command, with Ganeti's options, and keeps its addresses."""
    done(cluster, "add --net 0:ip=192.0.2.70,network=net1 old")
    printed = done(cluster, "rename --dry-run old new")
    assert printed == "~ name old → new\nThis was a dry run: nothing was changed.\n"
    result = instance(cluster, "rename --no-name-check --no-ip-check --submit old new")
    assert (result.exit_code, result.stdout) == (0, "~ name old → new\n")
    assert result.stderr.count("has no effect") == 3
    assert ips(cluster, "new") == [["192.0.2.70"]]
    assert done(cluster, "rename new new") == "Instance new is unchanged.\n"
    printed = json.loads(done(cluster, "rename new old --output json"))
    assert (printed["name"], printed["nics"][0]["ips"]) == ("old", ["192.0.2.70"])
    assert instance(cluster, "info new").exit_code == 1
    done(cluster, "remove old")


def test_fields_that_are_ganetis_alone(cluster: Cluster) -> None:
    """A list of what Lanloom does not manage says so."""
    result = instance(cluster, "list -o name,status,pnode,be/memory,disk.sizes")
    assert (
        "status, pnode, be/memory, disk.sizes: Lanloom manages networks and addresses only" in result.stderr
    )


def test_dry_runs(cluster: Cluster) -> None:
    """Each change has a dry run that shows what would be, and writes nothing."""
    before = cluster.state()
    printed = done(cluster, "add --net 0:ip=pool,network=tiny --dry-run dry")
    assert printed.startswith("+ NIC 0 on tiny: 10.0.0.1, MAC ")
    assert printed.endswith("This was a dry run: nothing was changed.\n")
    assert cluster.state() == before
    done(cluster, "add --net 0:ip=pool,network=tiny dry")
    before = cluster.state()
    assert "10.0.0.1 → 10.0.0.2" in done(cluster, "modify --net 0:ip=pool --dry-run dry")
    assert "- NIC 0 on tiny: 10.0.0.1" in done(cluster, "remove --dry-run dry")
    assert cluster.state() == before
    done(cluster, "remove dry")


def test_what_is_printed_for_programs(cluster: Cluster) -> None:
    """JSON and YAML say the same; changes print the NICs with what they were given."""
    printed = done(
        cluster, "add --net 0:ip=pool,network=net6,name=web --net 1:mode=bridged,link=br0 prog --output json"
    )
    found = json.loads(printed)
    web, loose = found["nics"]
    assert (web["ips"], web["network"], web["state"], web["name"]) == (
        ["2001:db8::2"],
        "net6",
        "ready",
        "web",
    )
    assert web["mac"].startswith("aa:bb:cc:")
    assert (loose["ips"], loose["network"], loose["mode"], loose["link"]) == ([], None, "bridged", "br0")
    (info,) = json.loads(done(cluster, "info prog --output json"))
    assert info["nics"] == found["nics"]
    assert yaml.safe_load(done(cluster, "info prog --output yaml")) == [info]
    assert (info["name"], info["namespace"], info["kind"]) == ("prog", "default", "Instance")


def test_info(cluster: Cluster) -> None:
    """People see each NIC with its addresses and its MAC address."""
    done(
        cluster,
        "add --net 0:ip=192.0.2.20,network=net1,name=web --net 1:vlan=5,mode=openvswitch,link=sw told",
    )
    lines = [line.strip() for line in done(cluster, "info told").splitlines()]
    assert lines[:4] == ["Instance default/told", "NIC 0 (web)", "Network: net1", "IPs: 192.0.2.20"]
    assert {"Mode: openvswitch", "Link: sw", "VLAN: 5", "Object: told-1"} <= set(lines)


def test_lists(cluster: Cluster) -> None:
    """Lists show chosen fields, with separators, without titles, and for programs; each field works."""
    done(cluster, "add --net 0:ip0=192.0.2.30,ip1=192.0.2.31,network=net1 --net 1 listed")
    done(cluster, "add --net 0:network=net-l2 plain")
    assert done(
        cluster, "list --no-headers --separator : -o name,nic.ips,nic.networks.names listed plain"
    ) == ("listed:192.0.2.30+192.0.2.31,-:net1,-\nplain:-:net-l2\n")
    head, row = done(cluster, "list listed").splitlines()
    assert head.split() == ["Instance", "Kind", "NICs", "NIC_networks", "NIC_IPs", "State"]
    assert row.split() == ["listed", "Instance", "2", "net1,-", "192.0.2.30+192.0.2.31,-", "ready"]
    names = [field["name"] for field in json.loads(done(cluster, "list-fields --output json"))]
    (found,) = json.loads(done(cluster, f"list -o {','.join(names)} --output json listed"))
    assert list(found) == names
    assert (found["nic.ips"], found["nic.count"]) == ([["192.0.2.30", "192.0.2.31"], []], 2)
    assert len(found["nic.uuids"]) == 2
    chosen = "name,nic.ip/0,nic.mac/1,nic.name/5,nic.networks.names"
    (one,) = json.loads(done(cluster, f"list -o {chosen} --output json listed"))
    assert list(one.values()) == [
        "listed",
        ["192.0.2.30", "192.0.2.31"],
        found["nic.macs"][1],
        None,
        ["net1", None],
    ]
    assert "MAC address of NIC 1" in done(cluster, "list-fields nic.mac/1")
    assert {"listed", "plain"} <= {
        item["name"] for item in json.loads(done(cluster, "list -A --output json"))
    }
    assert done(cluster, "list -n kube-system --no-headers") == ""
    assert done(cluster, "list-fields nic.ips").count("\n") == 2


def test_force(cluster: Cluster) -> None:
    """Externally reserved addresses need --force, or its old name; what a NIC has already needs neither."""
    assert "externally reserved" in instance(cluster, "add --net 0:ip=192.0.2.150,network=net1 forced").stderr
    done(cluster, "add --net 0:ip=192.0.2.150,network=net1 --no-conflicts-check forced")
    done(cluster, "modify --net 0:ip0=192.0.2.150,ip1=192.0.2.151 forced")
    done(cluster, "modify --net 0:ip2=192.0.2.1 --force forced")
    assert ips(cluster, "forced") == [["192.0.2.150", "192.0.2.151", "192.0.2.1"]]


def test_nobody_is_waited_for(cluster: Cluster) -> None:
    """With --no-wait a command ends at once; what was asked for is given nevertheless."""
    printed = done(cluster, "add --net 0:ip=192.0.2.40,network=net1 --no-wait quick")
    assert "192.0.2.40" in printed
    done(cluster, "modify --net 0:name=x quick")
    assert ips(cluster, "quick") == [["192.0.2.40"]]
    done(cluster, "remove --no-wait quick")

    async def is_gone(client: Client) -> None:
        await eventually(
            partial(client.list, NICS, "default"),
            lambda found: all(item.spec.owner.name != "quick" for item in found.items),
        )

    cluster.do(is_gone)


def test_a_nic_that_waits(cluster: Cluster) -> None:
    """A NIC without its addresses is shown with what it asks for, and is put right or removed."""

    async def create(client: Client) -> None:
        spec = {"owner": {"kind": "Instance", "name": "early"}, "network": "later", "ips": ["pool"]}
        await client.create(NICS, {"metadata": {"name": "early-0"}, "spec": spec}, "default")
        await eventually(
            partial(client.get, NICS, "early-0", "default"), lambda item: bool(item.status.conditions)
        )

    cluster.do(create)
    lines = [line.strip() for line in done(cluster, "info early").splitlines()]
    assert lines[3:6] == [
        "IPs: -",
        "Asks for: pool, refused",
        "network later does not exist; create it, or name another one",
    ]
    assert done(cluster, "list --no-headers -o state early") == "refused\n"
    assert "network later does not exist" in instance(cluster, "modify --net 0:name=x early").stderr
    printed = done(cluster, "modify --net 0:network=net1,ip=192.0.2.70 early")
    assert "no address; refused, wants pool → 192.0.2.70" in " ".join(printed.split())
    done(cluster, "remove early")


def test_a_gap_closes(cluster: Cluster) -> None:
    """NICs are numbered again when one before them goes, and removing the last one removes the instance."""
    done(cluster, "add --net 0:ip=192.0.2.50,network=net1 --net 1:ip=192.0.2.51,network=net1 gap")
    moved, gone = done(cluster, "modify --net 0:remove gap").splitlines()
    assert moved == "~ NIC 1 on net1: number 1 → 0"
    assert gone.startswith("- NIC 0 on net1: 192.0.2.50")
    last = instance(cluster, "modify --net 0:remove gap")
    assert (last.exit_code, last.stderr) == (0, "Note: instance gap has no NIC left and is removed\n")
    assert instance(cluster, "info gap").exit_code == 1


MALFORMED = [
    "add",
    "add none",
    "add --net 0:ip=pool,network=net1 a/b",
    "add --net 0:ip=pool,network=net1 -- -x",
    "add --net 0:ip=pool,network=net1 -n A_B new",
    "add --net 0:ip=pool,network=net1 one two",
    "add --net 0:ip=pool,ip0=pool,network=net1 new",
    "add --net 0:ip0=pool,ip2=pool,network=net1 new",
    "add --net 0:ip0=none,ip1=pool,network=net1 new",
    "add --net 0:ip=pool new",
    "add --net 0:ip=192.0.2.300,network=net1 new",
    "add --net 0:ip=192.0.2.0/24,network=net1 new",
    "add --net 0:ip0=192.0.2.9,ip1=192.0.2.9,network=net1 new",
    "add --net 0:ip=pool,network1 new",
    "add --net 0:ip=pool,network=net1,ip=pool new",
    "add --net 0:network=net1,mac=zz new",
    "add --net 0:network=net1,name=pool new",
    "add --net 0:network=net1,link=br0 new",
    "add --net 0:vlan=5000 new",
    "add --net 0 --net 2 new",
    "add --net 0 --net 0 new",
    "add --net 0:remove new",
    "add --net -1:add,ip=pool,network=net1 new",
    "add --net new",
    "modify there",
    "modify --net 0: there",
    "modify --net 0:modify there",
    "modify --net 0:add,remove there",
    "modify --net 0:remove,ip=none there",
    "modify --net 0:modify,colour=red there",
    "modify --net x:add there",
    "modify --net 0:ip=pool",
    "remove",
    "remove a/b",
    "info a/b",
    "info --output xml there",
    "list -o nothing",
    "list -o nic.colour/0",
    "list -o nic.mac/x",
    "list -A there",
    "list -o name,status,pnode,os",
    "rename there -web",
    "list --separator : --output json",
    "list-fields nothing",
    "nothing",
]
REFUSED = [
    "add --net 0:ip=pool,network=net1 there",
    "add --net 0:ip=pool,network=nowhere new",
    "add --net 0:ip=nowhere,network=net1 new",
    "add --net 0:ip=pool,network=net-l2 new",
    "add --net 0:ip=10.9.9.9,network=net1 new",
    "add --net 0:ip=192.0.2.60,network=net1 new",
    "add --net 0:ip=192.0.2.60,network=net1 --force new",
    "add --net 0:ip=192.0.2.255,network=net1 new",
    "add --net 0:ip=pool4,network=net6 new",
    "add --net 0:ip0=pool,ip1=pool,ip2=pool,network=tiny new",
    "add --net 0:ip=pool,network=net1 --net 1:ip=192.0.2.60,network=net1 new",
    "add --net 0:ip=pool,network=net1 -n nowhere new",
    "modify --net 0:ip=pool nobody",
    "modify --net 3:ip=pool there",
    "modify --net 0:ip2=pool there",
    "modify --net 0:ip1=none there",
    "modify --net 0:network=net6 there",
    "modify --net 0:network=none there",
    "modify --net 0:mode=bridged there",
    "modify --net 0:name=x --net 0:ip9=pool there",
    "remove nobody",
    "rename nobody somebody",
    "rename there second",
    "info nobody",
    "list nobody",
]


@pytest.fixture(scope="module")
def there(cluster: Cluster) -> Cluster:
    """With an instance, and everything at rest."""
    for name, address in (("there", "192.0.2.60"), ("second", "192.0.2.61")):
        done(cluster, f"add --net 0:ip={address},network=net1 {name}")
    return cluster


@pytest.mark.parametrize(
    ("words", "status"), [(words, 2) for words in MALFORMED] + [(words, 1) for words in REFUSED]
)
def test_what_is_refused(there: Cluster, words: str, status: int) -> None:
    """Malformed input ends with 2, what the state forbids with 1: one line, and every object is as it was."""
    before = {**there.state(), "networks": None}
    result = instance(there, words)
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    *usage, line = result.stderr.splitlines()
    assert all(not text or text.startswith(("Usage: ", "Try ")) for text in usage)
    assert line.startswith("Error: ")
    assert {**there.state(), "networks": None} == before


def test_completion(there: Cluster) -> None:
    """A shell completes names of instances, and only of the namespace."""
    assert there.offered("lanloom instance info the") == ["plain,there"]
    assert there.offered("lanloom instance info -n kube-system the") == []
