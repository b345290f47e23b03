"""`lanloom vm move` with namespace isolation, on an embedded server whose manager answers the webhooks."""

import re
from collections.abc import Iterator
from typing import Any

import pytest

from lanloom.api.core import NAMESPACES
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.liveupdate import NETWORK_SWAPS
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.multusconfig import NamespaceIsolation
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served
from tests.features.liveupdate import bodies
from tests.features.liveupdate.test_cli import install, nad_of, run_machine
from tests.features.liveupdate.whole import NODE_NAMES, report_ready

pytestmark = pytest.mark.slow

ISOLATION = NamespaceIsolation(enabled=True, global_namespaces=frozenset({"shared"}))


async def fill(client: Client) -> None:
    """A machine, and networks of its own, of a global, and of another namespace."""
    await client.create(CLUSTER_NETWORKS, {"metadata": {"name": "lan"}})
    await install(client)
    for node in NODE_NAMES:
        await report_ready(client, "lan", node)
    await client.create(NAMESPACES, {"metadata": {"name": "shared"}})
    await client.create(NADS, bodies.nad("vlan40", 40, "shared"), "shared")
    await run_machine(client, "web", on={"blue": "vlan10"})


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server whose manager has namespace isolation."""
    settings = LiveUpdateSettings(isolation=ISOLATION)
    with served(tmp_path_factory.mktemp("served"), manager=True, live_update=settings) as made:
        made.do(fill)
        yield made


def move(cluster: Cluster, to: str, *options: str) -> tuple[int, str]:
    """Move the machine's NIC; the exit status, and all that was said but for a generated name, in one line."""
    done = cluster.lanloom("vm", "move", "web", "blue", "--to", to, *options)
    return done.exit_code, re.sub(r"web-\w{5}\b", "web-…", " ".join(done.output.split()))


@pytest.mark.parametrize("options", [(), ("--dry-run",)], ids=["move", "dry run"])
@pytest.mark.parametrize("policy", ["migrate", "in-place", "prefer-in-place"])
def test_no_way_to_another_namespace(cluster: Cluster, policy: str, options: tuple[str, ...]) -> None:
    """Whatever the policy, the webhook's refusal is what the user reads, whether the NAD is there or not."""
    status, text = move(cluster, "other/vlan30", "--policy", policy, *options)
    assert status == 1
    assert ISOLATION.against("default", Key("other", "vlan30")) in text
    assert move(cluster, "other/none", "--policy", policy, *options) == (1, text.replace("vlan30", "none"))
    assert nad_of(cluster, "web") == "vlan10"

    async def swaps(client: Client) -> Any:
        return (await client.list(NETWORK_SWAPS)).items

    assert cluster.do(swaps) == ()


@pytest.mark.parametrize("to", ["vlan20", "default/vlan20", "shared/vlan40"])
@pytest.mark.parametrize("policy", ["migrate", "in-place"])
def test_the_own_and_global_namespaces(cluster: Cluster, to: str, policy: str) -> None:
    """Networks of the machine's and of global namespaces are open, and a dry run stores nothing."""
    before = cluster.do(lambda client: client.get(VIRTUAL_MACHINES, "web", "default"))
    status, text = move(cluster, to, "--policy", policy, "--dry-run")
    assert (status, "This was a dry run" in text) == (0, True)
    after = cluster.do(lambda client: client.get(VIRTUAL_MACHINES, "web", "default"))
    assert after.spec == before.spec
