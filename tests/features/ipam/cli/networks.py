"""Commands about a network: run, and what they print read."""

import json

from click.testing import Result

from tests.cli.cluster import Cluster


def network(cluster: Cluster, *words: str) -> Result:
    """Run `lanloom network …`."""
    return cluster.lanloom("network", *words)


def done(cluster: Cluster, *words: str) -> str:
    """Run `lanloom network …`, which must succeed; what it printed."""
    result = network(cluster, *words)
    assert result.exit_code == 0, result.output
    return result.stdout


def fields(cluster: Cluster, name: str, *wanted: str) -> list[object]:
    """The values of a network's fields."""
    (found,) = json.loads(done(cluster, "list", "-o", ",".join(wanted), "--output", "json", name))
    return [found[field] for field in wanted]


NET1 = (
    "add",
    "--subnet",
    "cidr=192.0.2.0/24,gateway=192.0.2.1",
    "--pool",
    "192.0.2.10-192.0.2.100,name=pool1",
    "net1",
)
