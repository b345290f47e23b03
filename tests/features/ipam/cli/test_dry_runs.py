"""A dry run of `lanloom network`, `instance` and `ganeti import` passes if and only if the command does.

A manager runs meanwhile. Seeds choose commands, many of which the state of the cluster forbids; each meets what those
before it left.
"""

import json
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import pytest
from click.testing import Result

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.meta import Object
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served
from tests.features.ipam.ganeti.formats.clusters import config, instance, network, nic
from tests.harness.examples import seeds
from tests.harness.servers.eventually import eventually

pytestmark = pytest.mark.slow

COMMANDS = 25
NETS, MACHINES = ("net1", "net2", "net3"), ("web", "db")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with a manager."""
    with served(tmp_path_factory.mktemp("cluster"), manager=True) as made:
        yield made


def _address(rng: Random) -> str:
    return f"192.0.2.{rng.randrange(0, 24)}"


def _network(rng: Random) -> list[str]:
    """A command for a network."""
    name, low = rng.choice(NETS), rng.randrange(0, 16)
    span = f"192.0.2.{low}-192.0.2.{low + rng.randrange(0, 6)}"
    subnet = f"cidr={rng.choice(('192.0.2.0/28', '192.0.2.8/29', '192.0.2.1/28', '10.0.0.0/30'))}"
    return rng.choice(
        (
            ["add", "--subnet", f"{subnet},pool", name],
            ["add", "--subnet", f"{subnet},gateway={_address(rng)}", "--pool", span, name],
            ["modify", "--pool", f"add:{span}", name],
            ["modify", "--pool", f"remove:{span}", name],
            ["modify", "--add-reserved-ips", _address(rng), name],
            ["modify", "--remove-reserved-ips", _address(rng), name],
            ["modify", "--gateway", rng.choice((_address(rng), "none")), name],
            ["modify", "--namespaces", rng.choice(("default", "other", "*")), name],
            ["remove", name],
        )
    )


def _instance(rng: Random) -> list[str]:
    """A command for an instance."""
    name, net = rng.choice(MACHINES), f"network={rng.choice(NETS)}"
    ip = rng.choice(("pool", "pool", _address(rng), "none"))
    return rng.choice(
        (
            ["add", "--net", f"0:ip={ip},{net}", name],
            ["add", "--net", f"0:ip0={ip},ip1=pool,{net}", name],
            ["modify", "--net", f"-1:add,ip={ip},{net}", name],
            ["modify", "--net", f"0:modify,ip={ip}", name],
            ["modify", "--net", "0:modify,ip1=none", name],
            ["modify", "--net", "0:modify,mac=auto", name],
            ["modify", "--net", f"0:modify,{net}", name],
            ["modify", "--net", "0:remove", name],
            ["remove", name],
        )
    )


def _ganeti(rng: Random, file: Path) -> list[str]:
    """An import of a cluster of Ganeti."""
    used = sorted(rng.sample(range(2, 14), 2))
    net = network(rng.choice(NETS), "192.0.2.0/28", used=used, external=used[:1])
    ips = rng.sample([f"192.0.2.{number}" for number in used], 1)
    machines = [instance(rng.choice(MACHINES), [nic(1, ips[0], net["uuid"])])]
    file.write_text(json.dumps(config([net], machines)))
    return ["import", *rng.choice(([], ["--keep"])), str(file)]


async def nothing_is_going(client: Client) -> None:
    """Wait until what was deleted is gone."""
    await eventually(partial(client.list, NETWORKS), lambda found: not _going(found.items))
    await eventually(partial(client.list, NICS), lambda found: not _going(found.items))


def _going(items: Iterable[Object]) -> bool:
    return any(item.metadata.is_deleting for item in items)


def _words(kind: str, rng: Random, file: Path) -> list[str]:
    if kind == "ganeti":
        return _ganeti(rng, file)
    return _network(rng) if kind == "network" else _instance(rng)


def _outcome(done: Result) -> tuple[bool, str]:
    """Whether a command succeeded, and why not if it did not."""
    return done.exit_code == 0, done.stderr if done.exit_code else ""


GOING = (
    ("instance add --net 0:ip=pool,network=going new", 1),
    ("instance add --net 0:network=going new", 1),
    ("instance modify --net -1:add,network=going old", 1),
    ("instance modify --net 0:modify,ip2=pool old", 1),
    ("instance modify --net 0:modify,ip0=192.0.2.99 old", 1),
    ("instance modify --net 0:modify,mac=auto old", 0),
    ("instance modify --net 0:modify,ip1=none old", 0),
    ("network modify --pool remove:192.0.2.99 going", 0),
    ("network remove going", 1),
    ("instance remove old", 0),
)


def test_a_network_that_is_being_deleted(server: Cluster) -> None:
    """What a network in deletion still allows, dry runs allow; all that shows it says so."""

    async def delete(client: Client) -> None:
        await client.delete(NETWORKS, "going")

    assert server.lanloom("network", "add", "--subnet", "cidr=192.0.2.0/24,pool", "going").exit_code == 0
    added = server.lanloom("instance", "add", "--net", "0:ip0=pool,ip1=pool,network=going", "old")
    assert added.exit_code == 0, added.output
    server.do(delete)
    for shown in ("info", "usage"):
        assert "Being deleted since 2" in server.lanloom("network", shown, "going").stdout
        assert '"deleted": "2' in server.lanloom("network", shown, "-o", "json", "going").stdout
    for line, code in GOING:
        kind, verb, *words = line.split()
        foreseen = server.lanloom(kind, verb, "--dry-run", *words)
        run = server.lanloom(kind, verb, *words)
        assert (foreseen.exit_code, run.exit_code) == (code, code), (line, foreseen.output, run.output)
        assert foreseen.stderr == run.stderr
    server.do(nothing_is_going)


@pytest.mark.parametrize("seed", seeds(4))
def test_a_dry_run_is_the_run(server: Cluster, tmp_path: Path, seed: int) -> None:
    """What the dry run lets pass is done, and what it refuses is refused in the same words."""
    rng, done = Random(seed), 0
    for _ in range(COMMANDS):
        kind = rng.choice(("network", "network", "instance", "instance", "ganeti"))
        words = _words(kind, rng, tmp_path / "config.data")
        foreseen = server.lanloom(kind, words[0], "--dry-run", *words[1:])
        run = server.lanloom(kind, *words)
        assert _outcome(foreseen) == _outcome(run), (kind, words, foreseen.output, run.output)
        done += run.exit_code == 0
        server.do(nothing_is_going)
    assert 0 < done < COMMANDS
