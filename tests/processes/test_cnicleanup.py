"""CNI programs go with an installation, and with nothing else that looks like its end."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random
from typing import Any, ClassVar

import pytest

from lanloom.api.core import CRDS, NAMESPACES
from lanloom.api.ipam import NETWORKS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS
from lanloom.kube.errors import Forbidden, Unreachable
from lanloom.processes.agent import CniCleanup, keep_programs
from lanloom.runtime.cni.programs import install, program
from tests.harness.cluster import Cluster, play
from tests.harness.interceptor import READS, ScriptedClient

NAME = "lanloom-agent"
OURS = ("lanloom-ipam", "macvtap")
SOCKET = Path("/run/lanloom/cni.sock")

BODY: dict[str, Any] = {
    "metadata": {"name": NAME},
    "spec": {
        "selector": {"matchLabels": {"a": "b"}},
        "template": {
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "agent", "image": "lanloom"}]},
        },
    },
}


class Installed(Cluster):
    """A cluster with the agent's DaemonSet, and the client of an agent."""

    kinds: ClassVar[tuple[Resource[Any], ...]] = (NETWORKS,)

    async def __aenter__(self) -> "Installed":
        await super().__aenter__()
        self.agent = ScriptedClient(self.client)
        await self.client.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
        await self.client.create(DAEMON_SETS, BODY, LANLOOM_NAMESPACE)
        return self

    async def remove(self) -> None:
        """Delete the DaemonSet."""
        await self.client.delete(DAEMON_SETS, NAME, LANLOOM_NAMESPACE)


Story = Callable[[Installed], Awaitable[None]]


async def an_upgrade(cluster: Installed) -> None:
    """The DaemonSet gets another image, and the agent ends."""
    template = {"template": {"metadata": {"annotations": {"new": "yes"}}}}
    await cluster.client.patch(DAEMON_SETS, NAME, {"spec": template}, LANLOOM_NAMESPACE)


async def a_restart(_cluster: Installed) -> None:
    """The agent ends, as when its node is drained."""


async def another_daemon_set_takes_the_pods(cluster: Installed) -> None:
    """The DaemonSet is replaced, as by `kubectl replace --force`, and the pod may live on."""
    await cluster.remove()
    await asyncio.sleep(5)
    await cluster.client.create(DAEMON_SETS, BODY, LANLOOM_NAMESPACE)


async def an_uninstallation(cluster: Installed) -> None:
    """The DaemonSet goes."""
    await cluster.remove()


async def a_deletion_in_the_foreground(cluster: Installed) -> None:
    """The DaemonSet is deleted, and waits for its pods."""
    held = {"metadata": {"finalizers": ["foregroundDeletion"]}}
    await cluster.client.patch(DAEMON_SETS, NAME, held, LANLOOM_NAMESPACE)
    await cluster.remove()


async def an_uninstallation_with_all_rights(cluster: Installed) -> None:
    """The agent's rights go right after its DaemonSet, as with Helm."""
    await cluster.remove()
    await asyncio.sleep(1)
    cluster.agent.fail(Forbidden(403, "Forbidden", "no"), *READS, of=NETWORKS)


async def with_the_kinds_first(cluster: Installed) -> None:
    """The kinds went before."""
    await cluster.client.delete(CRDS, NETWORKS.full_name)
    await asyncio.sleep(5)
    await cluster.remove()


async def with_a_network_left(cluster: Installed) -> None:
    """An operator uninstalls without deleting the networks."""
    await cluster.client.create(NETWORKS, {"metadata": {"name": "net"}})
    await cluster.remove()


async def with_a_network_made_meanwhile(cluster: Installed) -> None:
    """The pod lives on without a DaemonSet, and a tenant goes on to use it."""
    await cluster.remove()
    await asyncio.sleep(60)
    await cluster.client.create(NETWORKS, {"metadata": {"name": "net"}})


async def away_from_the_server(cluster: Installed) -> None:
    """What is left can't be known."""
    cluster.agent.fail(Unreachable("away"), *READS, of=NETWORKS)
    await cluster.remove()


STORIES: dict[Story, bool] = {
    an_upgrade: True,
    a_restart: True,
    another_daemon_set_takes_the_pods: True,
    an_uninstallation: False,
    a_deletion_in_the_foreground: False,
    an_uninstallation_with_all_rights: False,
    with_the_kinds_first: False,
    with_a_network_left: True,
    with_a_network_made_meanwhile: True,
    away_from_the_server: True,
}
"""What happens before the agent ends, and whether its programs stay."""


def names_in(directory: Path) -> set[str]:
    """The names of the files."""
    return {path.name for path in directory.iterdir()}


async def life(cluster: Installed, name: str, directory: Path, story: Story) -> None:
    """An agent's life, to its end."""
    cleanup = CniCleanup(cluster.agent, name, (NETWORKS,), Random(1))
    task = cluster.begin("agent", cleanup.run())
    await asyncio.sleep(5)
    assert not task.done()
    await story(cluster)
    await asyncio.sleep(5)
    await cluster.kill("agent")
    await cleanup.end(directory, OURS, SOCKET)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_programs_go_with_the_installation(story: Story, tmp_path: Path, shim: Path) -> None:
    """They go with the agent's DaemonSet if nothing is left that needs them; those of others stay always."""
    for name in OURS:
        install(tmp_path, name, program(SOCKET, shim))
    install(tmp_path, "k8slanveth", program(Path("/run/lanloom/cni-lan.sock"), shim))
    (tmp_path / "bridge").write_bytes(b"somebody's")
    play(lambda cluster: life(cluster, NAME, tmp_path, story), Installed)
    assert names_in(tmp_path) == {
        *(OURS if STORIES[story] else ()),
        "k8slanveth",
        "bridge",
    }


def test_a_program_of_somebody_else_of_the_same_name_stays(tmp_path: Path, shim: Path) -> None:
    """Another's program, and that of an agent that has another socket, is none of ours."""
    (tmp_path / "macvtap").write_bytes(b"somebody's")
    install(tmp_path, "lanloom-ipam", program(Path("/run/another.sock"), shim))
    play(lambda cluster: life(cluster, NAME, tmp_path, an_uninstallation), Installed)
    assert names_in(tmp_path) == {"macvtap", "lanloom-ipam"}


def test_a_daemon_set_that_was_never_there(tmp_path: Path, shim: Path) -> None:
    """A name that nothing has is no sign of an end."""
    install(tmp_path, "macvtap", program(SOCKET, shim))
    play(lambda cluster: life(cluster, "mistyped", tmp_path, a_restart), Installed)
    assert (tmp_path / "macvtap").exists()


def test_nothing_is_put_back(tmp_path: Path) -> None:
    """What an agent keeps installed is gone at its end, and not there again."""

    async def story(cluster: Installed) -> None:
        cleanup = CniCleanup(cluster.agent, NAME, (NETWORKS,), Random(1))
        there: list[bool] = []
        cluster.begin(
            "agent", keep_programs(OURS, SOCKET, tmp_path, lambda _, found: there.append(found), cleanup)
        )
        await asyncio.sleep(200)
        assert set(there) == {True} and names_in(tmp_path) == {*OURS}
        await cluster.remove()
        await asyncio.sleep(200)
        assert names_in(tmp_path) == {*OURS}
        await cluster.kill("agent")
        assert names_in(tmp_path) == set()

    play(story, Installed)


@pytest.fixture
def shim(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What stands for the shim: the place for the path is all that counts."""
    path = tmp_path_factory.mktemp("shim") / "shim"
    path.write_bytes(b"\x7fELF" + b"lanloom-cni-shim 1 ".ljust(128, b"\0"))
    return path
