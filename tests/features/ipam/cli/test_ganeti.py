"""`lanloom ganeti` as its users call it."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from lanloom.command import cli
from tests.cli.cluster import Cluster, served
from tests.features.ipam.ganeti.formats.clusters import (
    config,
    haskell_text,
    instance,
    network,
    nic,
)

ONE = network("net1", "192.0.2.0/28", used=[2, 3], network6="2001:db8::/64", tags=["public"])
LINK = {"link": "br100", "mode": "bridged", "vlan": ""}
FIRST = instance("inst1", [nic(1, "192.0.2.2", ONE["uuid"])])
SECOND = instance("inst2", [nic(2, "192.0.2.3", ONE["uuid"]), nic(3)])
DATA = config([ONE], [FIRST, SECOND], {"net1": LINK})
TEXT = haskell_text(DATA)


def lanloom(*words: str | Path) -> Result:
    """Run `lanloom ganeti …` without a cluster."""
    return CliRunner().invoke(cli, ["ganeti", *map(str, words)], prog_name="lanloom")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A configuration."""
    path = tmp_path / "config.data"
    path.write_text(TEXT)
    return path


def test_there_and_back(path: Path) -> None:
    """An upgrade and a downgrade tell what they do, and give back the file; a dry run writes nothing."""
    dry = lanloom("upgrade", "--dry-run", path)
    assert dry.exit_code == 0
    assert dry.stdout.splitlines() == [
        f"{path}: network net1: 192.0.2.0/28 becomes a subnet with a pool of 16 addresses, 2 of them used and "
        "3 externally reserved, 2001:db8::/64 another one without a pool",
        f"{path}: would upgrade 1 network and 2 NICs",
    ]
    assert path.read_text() == TEXT
    done = lanloom("upgrade", path)
    assert done.stdout.startswith(f"{path}: upgraded 1 network and 2 NICs; the previous file is {path}.bak-")
    assert lanloom("upgrade", path).stdout == f"{path}: nothing to do\n"
    assert lanloom("verify", path).exit_code == 0
    steps = lanloom("downgrade", "--dry-run", path).stdout
    assert f"{path}: network net1: 192.0.2.0/28 becomes its network, 2001:db8::/64 its network6\n" in steps
    assert lanloom("downgrade", path).exit_code == 0
    assert path.read_text() == TEXT


def test_verify(path: Path) -> None:
    """What is wrong is reported, a line each, with exit status 1."""
    path.write_text(TEXT.replace('"192.0.2.3"', '"192.0.2.2"'))
    done = lanloom("verify", path)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        f"{path}: network net1: 192.0.2.2 of NIC 0 of instance inst2 is also owned by NIC 0 of instance inst1",
        f"{path}: network net1: 192.0.2.3 is reserved, but no NIC has it",
    ]


def test_what_verify_calls_wrong_is_not_upgraded(path: Path) -> None:
    """A file with something wrong that an upgrade does not correct is refused and stays as it is, unless forced."""
    wrong = TEXT.replace('"192.0.2.3"', '"192.0.2.2"')
    path.write_text(wrong)
    for words in (("upgrade", path), ("upgrade", "--dry-run", path)):
        done = lanloom(*words)
        assert (done.exit_code, path.read_text()) == (1, wrong)
        first, second = done.stderr.splitlines()
        assert first.startswith(f"Error: {path}: the file has errors")
        assert "--force" in first
        assert second.endswith("is also owned by NIC 0 of instance inst1")
    done = lanloom("upgrade", "--force", path)
    assert done.exit_code == 0
    assert (
        f"{path}: is incorrect and was not changed: network net1: 192.0.2.2 of NIC 0 of instance inst2"
        in done.stderr
    )
    assert lanloom("verify", path).exit_code == 1


def test_reservations_that_are_wrong_are_corrected(path: Path) -> None:
    """Reservations that do not fit the NICs refuse no upgrade, because it counts them again and says so."""
    path.write_text(TEXT.replace('"0011', '"0111'))
    assert lanloom("verify", path).exit_code == 1
    done = lanloom("upgrade", path)
    assert done.exit_code == 0
    assert "192.0.2.1 was reserved, but no NIC has it" in done.stderr
    assert lanloom("verify", path).exit_code == 0


def test_a_running_machine_with_something_wrong(tmp_path: Path) -> None:
    """A KVM runtime file that `verify` calls wrong is refused like a configuration."""
    runtime = tmp_path / "inst1.runtime"
    runtime.write_text('[["kvm"], [{"ips": ["192.0.2.2", "192.0.2.2"]}], {}]')
    done = lanloom("upgrade", runtime)
    assert (done.exit_code, "NIC 0 has an address more than once" in done.stderr) == (1, True)
    assert lanloom("upgrade", "--force", runtime).exit_code == 0


@pytest.mark.parametrize(
    "version", ['"version":2060000', '"version":9990000', '"version":"3.1"', '"versions":1']
)
def test_a_version_that_is_not_known(path: Path, version: str) -> None:
    """A file of another version of Ganeti is reported by verify, and not rewritten nor imported, by force either."""
    text = TEXT.replace('"version":2160000', version)
    assert text != TEXT
    path.write_text(text)
    assert lanloom("verify", path).exit_code == 1
    for words in (("upgrade", path), ("upgrade", "--force", path), ("downgrade", path)):
        done = lanloom(*words)
        assert (done.exit_code, "2070000 to 3010000" in done.stderr) == (1, True)
    assert path.read_text() == text


@pytest.mark.parametrize("command", ["upgrade", "downgrade", "verify", "import"])
@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"cluster": {}}', '{"cluster": {}, "instances": 5}', "\ud800"]
)
def test_malformed(path: Path, command: str, text: str) -> None:
    """What is no file of Ganeti's gives one clear line and exit status 2, and stays as it is."""
    content = text.encode("utf-8", "surrogatepass")
    path.write_bytes(content)
    done = lanloom(command, path)
    assert done.exit_code == 2
    assert done.stderr.startswith("Error: ") and str(path) in done.stderr and done.stderr.count("\n") == 1
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


def test_half_done(tmp_path: Path) -> None:
    """Where a file can't be written after others were, the message says how many are done, and to run it again."""
    for name in "ab":
        (tmp_path / f"{name}.runtime").write_text('[["kvm"], [{"ip": null}], {}]')
    blocked = tmp_path / f".b.runtime.{os.getpid()}.new"
    blocked.mkdir()
    done = lanloom("upgrade", tmp_path)
    assert done.exit_code == 1
    assert "1 of 2 files are converted, the others are unchanged; run the command again" in done.stderr
    blocked.rmdir()
    assert lanloom("upgrade", tmp_path).stdout.count("nothing to do") == 1


@pytest.mark.parametrize("command", ["upgrade", "downgrade", "verify"])
def test_node_without_machines(tmp_path: Path, command: str) -> None:
    """A directory without runtime files is no error, but said."""
    done = lanloom(command, tmp_path)
    assert (done.exit_code, done.stdout) == (0, "")
    assert done.stderr.startswith("there are no files *.runtime: nothing to ")


def test_refused_downgrade(path: Path) -> None:
    """What the old form can't say is reported with exit status 1, and the file stays as it is."""
    lanloom("upgrade", path)
    data = json.loads(path.read_text())
    data["networks"][ONE["uuid"]]["subnets"][0]["dhcp"] = True
    path.write_text(json.dumps(data))
    done = lanloom("downgrade", path)
    assert (done.exit_code, "subnet 192.0.2.0/28 has dhcp" in done.stderr) == (1, True)
    assert json.loads(path.read_text()) == data


def test_environment_of_a_file(path: Path) -> None:
    """Both forms of a file give the same environment, which a POSIX shell can evaluate."""
    old = lanloom("env", "inst1", "--config", path).stdout
    assert "INSTANCE_NIC0_NETWORK_SUBNET=192.0.2.0/28\n" in old
    assert not [line for line in old.splitlines() if ":" in line.partition("=")[0]]
    lanloom("upgrade", path)
    assert lanloom("env", "inst1", "--config", path).stdout == old
    shell = lanloom("env", "inst1", "--config", path, "--plain", "--output", "shell").stdout
    done = subprocess.run(
        ["sh", "-c", f'{shell}\necho "$INSTANCE $IP $NETWORK_TAGS"'], capture_output=True, check=True
    )
    assert done.stdout == b"inst1 192.0.2.2 public\n"
    of_network = json.loads(lanloom("env", "--network", "net1", "--config", path, "--output", "json").stdout)
    assert of_network["NETWORK_SUBNET6"] == "2001:db8::/64"


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        (["env"], 2, "name an instance, or a network"),
        (["env", "inst1", "--network", "net1"], 2, "name an instance, or a network"),
        (["env", "inst2", "--plain"], 2, "inst2 has 2 NICs; choose one with --nic"),
        (["env", "inst2", "--plain", "--nic", "2"], 2, "inst2 has no NIC 2; it has 2"),
        (["env", "inst2", "--nic", "0"], 2, "--nic is allowed only with --plain"),
        (["env", "gone"], 1, 'instance "gone" does not exist in the file'),
        (["env", "--network", "gone"], 1, 'network "gone" does not exist in the file'),
    ],
)
def test_wrong_usage(path: Path, words: list[str], status: int, message: str) -> None:
    """What can't be printed says why."""
    done = lanloom(*words, "--config", path)
    assert done.exit_code == status
    assert message in done.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with a manager."""
    with served(tmp_path_factory.mktemp("cluster"), manager=True) as made:
        yield made


@pytest.mark.slow
def test_import(cluster: Cluster, path: Path) -> None:
    """An import shows first what it would do, does it once, and the environment is what it was in Ganeti."""
    before = cluster.state()
    dry = cluster.lanloom("ganeti", "import", "--dry-run", str(path))
    assert (dry.exit_code, cluster.state()) == (0, before)
    assert "Networks: 1 to be created, 0 there already. NICs: 3 to be created, 0 there already." in dry.stdout
    assert cluster.lanloom("ganeti", "import", str(path), "--namespace", "nowhere").exit_code == 1
    assert cluster.state() == before
    done = cluster.lanloom("ganeti", "import", str(path))
    assert done.exit_code == 0, done.output
    row = next(line for line in done.stdout.splitlines() if line.startswith("net1"))
    assert row.split() == ["net1", "net1", "192.0.2.0/28,2001:db8::/64", "2", "2", "created"]
    after = cluster.state()
    lanloom("upgrade", path)
    again = cluster.lanloom("ganeti", "import", str(path))
    assert (again.exit_code, cluster.state()) == (0, after)
    assert "there already" in again.stdout
    for words in (["inst1"], ["inst2"], ["inst1", "--plain"], ["--network", "net1"]):
        ours = cluster.lanloom("ganeti", "env", *words, "--output", "json")
        assert ours.exit_code == 0, ours.output
        assert ours.stdout == lanloom("env", *words, "--output", "json", "--config", path).stdout
    assert cluster.lanloom("network", "modify", "--add-reserved-ips", "192.0.2.9", "net1").exit_code == 0
    changed = cluster.state()
    refused = cluster.lanloom("ganeti", "import", str(path))
    assert (refused.exit_code, cluster.state()) == (1, changed)
    assert "- subnet 192.0.2.0/28: reserved 192.0.2.9. Change it, or keep it with --keep" in refused.stderr
    kept = cluster.lanloom("ganeti", "import", "--keep", str(path))
    assert (kept.exit_code, cluster.state()) == (0, changed)
    assert "network net1 remains unchanged; in the file: - subnet 192.0.2.0/28: reserved" in kept.stderr
    assert cluster.lanloom("ganeti", "env", "gone").exit_code == 1
    assert cluster.lanloom("ganeti", "env", "no instance").exit_code == 2
