"""Many NICs that ask for an address at the same moment."""

import asyncio
from ipaddress import IPv4Address
from pathlib import Path

import pytest

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.kube.ports import Client
from tests.cli.cluster import served
from tests.harness.servers.eventually import eventually

COUNT = 60


@pytest.mark.slow
def test_many_at_once(tmp_path: Path) -> None:
    """They get the lowest addresses of the pool, each another one, and never the network's own."""

    async def ask(client: Client) -> None:
        pools = [{"range": "192.168.101.0/24"}]
        subnets = [{"cidr": "192.168.101.0/24", "pools": pools}]
        await client.create(NETWORKS, {"metadata": {"name": "busy"}, "spec": {"subnets": subnets}})
        owners = [{"kind": "Instance", "name": f"web{number}"} for number in range(COUNT)]
        bodies = [
            {
                "metadata": {"name": f"{owner['name']}-0"},
                "spec": {"owner": owner, "network": "busy", "ips": ["pool"]},
            }
            for owner in owners
        ]
        await asyncio.gather(*(client.create(NICS, body, "default") for body in bodies))

    async def given(client: Client) -> list[str]:
        async def read() -> list[str]:
            return [address for nic in (await client.list(NICS)).items for address in nic.status.ips]

        return await eventually(read, lambda found: len(found) == COUNT)

    with served(tmp_path, manager=True) as cluster:
        cluster.do(ask)
        expected = [f"192.168.101.{last}" for last in range(1, COUNT + 1)]
        assert sorted(cluster.do(given), key=IPv4Address) == expected
