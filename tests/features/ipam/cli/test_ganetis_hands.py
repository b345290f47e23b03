"""What the hands of an administrator of Ganeti type, and his scripts, works."""

from pathlib import Path

import pytest

from lanloom.api import dummy, lan
from lanloom.api.ipam import NETWORKS
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster
from tests.features.ipam.cli.networks import NET1, done, fields, network
from tests.features.ipam.ganeti.formats.clusters import config, haskell_text, instance, nic
from tests.features.ipam.ganeti.formats.clusters import network as stored


def test_tags_as_ganeti_calls_them(cluster: Cluster, tmp_path: Path) -> None:
    """Tags are added, listed and removed by Ganeti's commands, also those of a file."""
    done(cluster, *NET1)
    file = tmp_path / "tags"
    file.write_text("blue\n\n  test \n")
    done(cluster, "add-tags", "net1", "red", "--from", str(file))
    assert done(cluster, "list-tags", "net1").split() == ["blue", "red", "test"]
    done(cluster, "remove-tags", "--from", str(file), "net1")
    assert done(cluster, "tag", "list", "net1").split() == ["red"]
    assert network(cluster, "add-tags", "net1").exit_code == 2
    done(cluster, "tag", "add", "net1", "--from", str(file))
    assert fields(cluster, "net1", "tags") == [["blue", "red", "test"]]


def test_connect_to_all_groups(cluster: Cluster) -> None:
    """Without a group, a network is connected to every group that a network is connected to."""
    for name in ("one", "two"):
        done(cluster, "add", name)
    refused = network(cluster, "connect", "-N", "link=br0", "one")
    assert (refused.exit_code, "name the groups" in refused.stderr) == (1, True)
    assert network(cluster, "connect", "one").exit_code == 2
    done(cluster, "connect", "-N", "link=br0", "one", "a", "b")
    done(cluster, "connect", "-N", "link=br1", "two")
    assert fields(cluster, "two", "group_list") == [
        [["a", "bridged", "br1", ""], ["b", "bridged", "br1", ""]]
    ]


def test_values_of_a_network_are_completed(cluster: Cluster) -> None:
    """A shell completes node groups, tags and names of fields."""
    done(cluster, *NET1)
    done(cluster, "connect", "-N", "link=br0", "net1", "rack1", "rack2")
    done(cluster, "tag", "add", "net1", "red")
    assert cluster.offered("lanloom network disconnect net1 rack") == ["plain,rack1", "plain,rack2"]
    assert cluster.offered("lanloom network tag remove net1 r") == ["plain,red"]
    assert cluster.offered("lanloom network list-fields mac") == ["plain,mac_prefix"]
    assert cluster.offered("lanloom install --distribution k") == ["plain,k3s"]
    assert cluster.offered("lanloom agent --feature ip") == ["plain,ipam"]
    assert cluster.offered("lanloom status --kubeconfig a") == ["file,a"]


@pytest.mark.parametrize(
    ("words", "note"),
    [
        (("add", "--submit", "net2"), "Note: --submit has no effect"),
        (
            ("modify", "--print-jobid", "--mac-prefix", "aa:00:01", "net1"),
            "Note: --print-jobid has no effect",
        ),
        (("rename", "--priority", "low", "net1", "net3"), "Note: --priority has no effect"),
        (("remove", "-f", "net1"), "Note: --force has no effect"),
        (("list", "-v"), "Note: --verbose has no effect"),
        (("tag", "add", "--submit", "net1", "a"), "Note: --submit has no effect"),
    ],
)
def test_options_that_mean_nothing(cluster: Cluster, words: tuple[str, ...], note: str) -> None:
    """Options of Ganeti's jobs are accepted, and a note says that they have no effect."""
    done(cluster, *NET1)
    result = network(cluster, *words)
    assert result.exit_code == 0, result.output
    assert result.stderr.startswith(note)


def test_force_of_instances(cluster: Cluster) -> None:
    """`-f` means at instances what it means to gnt-instance: nothing is asked here, and changes go by `--force`."""
    done(cluster, *NET1)
    for words, note in (
        (("add", "-f", "--no-wait", "--net", "0:ip=192.0.2.11,network=net1", "i1"), ""),
        (("modify", "-f", "--no-wait", "--net", "0:modify,ip=192.0.2.12", "i1"), ""),
        (("remove", "-f", "--no-wait", "i1"), "Note: --force has no effect: nothing is asked"),
    ):
        result = cluster.lanloom("instance", *words)
        assert result.exit_code == 0, result.output
        assert note in result.stderr


def test_the_old_columns(cluster: Cluster) -> None:
    """`-o ganeti` shows what gnt-network shows."""
    done(cluster, *NET1)
    lines = done(cluster, "list", "-o", "ganeti", "--separator", ":").splitlines()
    assert lines[0].split(":")[:4] == ["Network", "Subnet", "Gateway", "MacPrefix"]
    assert lines[1].split(":")[:3] == ["net1", "192.0.2.0/24", "192.0.2.1"]


ONE = stored("net1", "192.0.2.0/28", used=[2])
DATA = config([ONE], [instance("inst1", [nic(1, "192.0.2.2", ONE["uuid"])])], {})


async def _make_networks(client: Client) -> None:
    """Create the Networks of a LAN and of an isolated network, as their managers do."""
    for label in (lan.UID_LABEL, dummy.UID_LABEL):
        await client.create(NETWORKS, {"metadata": {"generateName": "made-", "labels": {label: "u1"}}})


def test_a_file_is_compared(cluster: Cluster, tmp_path: Path) -> None:
    """`ganeti diff` tells what only the file has, what only the cluster has, and what differs; it changes nothing."""
    path = tmp_path / "config.data"
    path.write_text(haskell_text(DATA))
    done(cluster, "add", "other")
    cluster.do(_make_networks)
    before = cluster.state()
    found = cluster.lanloom("ganeti", "diff", str(path))
    assert (found.exit_code, found.stdout.splitlines()) == (
        3,
        ["+ network net1", "- network other", "+ NIC 0 of instance inst1"],
    )
    assert cluster.state() == before
    imported = cluster.lanloom("ganeti", "import", "--no-wait", str(path))
    assert imported.exit_code == 0, imported.output + imported.stderr
    done(cluster, "remove", "other")
    same = cluster.lanloom("ganeti", "diff", str(path))
    assert (same.exit_code, same.stdout) == (0, "")
    done(cluster, "modify", "--add-reserved-ips", "192.0.2.9", "net1")
    assert (
        cluster.lanloom("instance", "add", "--no-wait", "--net", "0:network=net1,ip=pool", "inst2").exit_code
        == 0
    )
    differs = cluster.lanloom("ganeti", "diff", str(path))
    assert differs.exit_code == 3
    assert differs.stdout.splitlines() == [
        "~ network net1: - subnet 192.0.2.0/28: reserved 192.0.2.9",
        "- NIC 0 of instance inst2",
    ]


def test_a_network_of_the_same_name_is_another_one(cluster: Cluster, tmp_path: Path) -> None:
    """`ganeti diff` does not call a network new, nor missing, that an import refuses because of its name."""
    path = tmp_path / "config.data"
    path.write_text(haskell_text(DATA))
    done(cluster, "add", "net1")
    uuid = cluster.state()["networks"][0]["metadata"]["uid"]
    found = cluster.lanloom("ganeti", "diff", str(path))
    assert (found.exit_code, found.stdout.splitlines()) == (
        3,
        [
            f"~ network net1: another one has the name, with UUID {uuid} instead of {ONE['uuid']}; rename one of the "
            "two before an import",
            "+ NIC 0 of instance inst1",
        ],
    )


def test_an_import_of_what_verify_calls_wrong(cluster: Cluster, tmp_path: Path) -> None:
    """A file with errors is refused in verify's words, and imported by force."""
    path = tmp_path / "config.data"
    wrong = {**ONE, "ext_reservations": "0" * 16}
    lost = config([wrong], [], {})
    lost["networks"][ONE["uuid"]]["gateway"] = None
    lost["networks"][ONE["uuid"]]["mac_prefix"] = "zz"
    path.write_text(haskell_text(lost))
    refused = cluster.lanloom("ganeti", "import", "--no-wait", str(path))
    assert refused.exit_code == 1
    assert "mac_prefix" in refused.stderr and "--force" in refused.stderr
