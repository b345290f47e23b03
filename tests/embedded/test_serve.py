"""`lanloom serve` from the inside: what it brings along, and what outlives a restart."""

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from lanloom.api.core import (
    MUTATING_WEBHOOKS,
    NAMESPACES,
    SECRETS,
    VALIDATING_WEBHOOKS,
)
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.lan import LANS
from lanloom.api.names import AGENTS_GROUP, NODE_USER_PREFIX
from lanloom.features.lan.rules.permits import Permits
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import (
    Forbidden,
    Invalid,
    KubeError,
    Unauthorized,
)
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom_embedded.engine.calls import Call
from lanloom_embedded.kubevirt import definitions
from lanloom_embedded.local import LocalClient
from lanloom_embedded.serve import ServeSettings, apply_foundation, serve
from tests.embedded.engine.running import kind_of, running_engine
from tests.harness.harvester import install
from tests.harness.servers.real import free_ports
from tests.runtime.metrics.probing import Watched

pytestmark = pytest.mark.slow


@asynccontextmanager
async def serving(directory: Path, **settings: object) -> AsyncIterator[ClusterConfig]:
    """A server in this process; yields the administrator's configuration."""
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    chosen = ServeSettings(data=directory / "data", kubeconfig=directory / "kubeconfig", **settings)  # type: ignore[arg-type]
    task = asyncio.create_task(serve(chosen, ready.set_result))
    try:
        await asyncio.wait((task, asyncio.shield(ready)), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield load(str(directory / "kubeconfig"))
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def test_new_server_has_our_kinds_our_namespace_and_our_webhooks(tmp_path: Path) -> None:
    """When the server is ready, Lanloom's kinds are served and its webhooks refuse what is wrong."""
    async with serving(tmp_path) as config, HttpClient(config) as client:
        assert (await client.list(CLUSTER_NETWORKS)).items == ()
        await client.get(NAMESPACES, "lanloom-system")
        await client.get(MUTATING_WEBHOOKS, "lanloom")
        await client.get(VALIDATING_WEBHOOKS, "lanloom")
        with pytest.raises((Invalid, Forbidden), match="cluster-with-a-long-name"):
            await client.create(CLUSTER_NETWORKS, {"metadata": {"name": "cluster-with-a-long-name"}})


async def test_limits_of_lans_are_those_of_the_manager(tmp_path: Path) -> None:
    """A server with limits of LANs refuses a namespace the LAN that is one too many."""
    spec = {"ns": "a", "bridge": "br0", "vxlan": "vx0", "vni": 5, "defaultVxlanDev": "eth0", "spokes": ["a1"]}
    first = {"metadata": {"name": "a"}, "spec": spec}
    more = {"ns": "b", "vni": 6, "spokes": ["b1"]}
    second = {"metadata": {"name": "b"}, "spec": spec | more}
    async with serving(tmp_path, lan=Permits(lans=1)) as config, HttpClient(config) as client:
        await client.create(LANS, first, "default")
        with pytest.raises((Invalid, Forbidden), match=r"one namespace may have 1; .* raise --lan-max-lans"):
            await client.create(LANS, second, "default")


async def test_kubeconfig_is_for_its_owner_only_and_outlives_a_restart(tmp_path: Path) -> None:
    """The kubeconfig has mode 0600, and a copy of it is good after a restart at the same port and a further address."""
    (port,) = free_ports(1)
    async with serving(tmp_path, port=port, manager=False) as former:
        assert (tmp_path / "kubeconfig").stat().st_mode & 0o777 == 0o600
    again = serving(tmp_path, port=port, listen=("127.0.0.2:0",), manager=False)
    async with again as config, HttpClient(former) as client:
        assert config == former
        await client.get(SECRETS, "lanloom-serve", "kube-system")


async def test_agents_have_their_rights_and_no_others(tmp_path: Path) -> None:
    """A token of the agents' group reads networks and no secrets; a token that was never given is refused."""
    tokens = tmp_path / "tokens"
    async with serving(tmp_path, tokens=tokens, manager=False) as config:
        tokens.write_text(f'agent-token,{NODE_USER_PREFIX}node1,node1,"{AGENTS_GROUP}"\n')
        agent = ClusterConfig(server=config.server, ca=config.ca, token="agent-token")
        async with HttpClient(agent) as client:
            assert (await client.list(CLUSTER_NETWORKS)).items == ()
            with pytest.raises(Forbidden):
                await client.list(SECRETS)
        stranger = ClusterConfig(server=config.server, ca=config.ca, token="guessed")
        async with HttpClient(stranger) as client:
            with pytest.raises(Unauthorized):
                await client.list(CLUSTER_NETWORKS)


BROKEN = {
    "metadata": {"name": "policy"},
    "webhooks": [
        {
            "name": "policy.example.com",
            "clientConfig": {"url": "https://127.0.0.1:9/deny"},
            "rules": [
                {
                    "apiGroups": ["*"],
                    "apiVersions": ["*"],
                    "resources": ["*/*"],
                    "operations": ["*"],
                    "scope": "*",
                }
            ],
            "failurePolicy": "Fail",
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
        }
    ],
}


@pytest.mark.slow
async def test_a_webhook_that_is_down_does_not_keep_the_server_down(tmp_path: Path) -> None:
    """With a failing webhook for everything the server starts again, and the webhook can be removed through it."""
    async with serving(tmp_path) as config, HttpClient(config) as client:
        await client.create(VALIDATING_WEBHOOKS, BROKEN)
        await client.create(MUTATING_WEBHOOKS, BROKEN)
    async with serving(tmp_path, listen=("127.0.0.2:0",)) as config, HttpClient(config) as client:
        with pytest.raises(KubeError, match=r"policy\.example\.com"):
            await client.create(NAMESPACES, {"metadata": {"name": "refused"}})
        await client.delete(VALIDATING_WEBHOOKS, "policy")
        await client.delete(MUTATING_WEBHOOKS, "policy")
        await client.create(NAMESPACES, {"metadata": {"name": "allowed"}})


async def test_a_restart_writes_only_what_differs() -> None:
    """The server's own objects keep their versions, unless a user changed them: then they are as they should be."""
    async with running_engine() as engine:
        await apply_foundation(engine)
        before = engine.ledger.version
        await apply_foundation(engine)
        assert engine.ledger.version == before
        role = kind_of(engine, "clusterroles", "rbac.authorization.k8s.io")
        await engine.patch(role, "", "system:basic-user", lambda old: {**old, "rules": []}, Call())
        await apply_foundation(engine)
        assert engine.ledger.version == before + 2
        assert engine.get(role, "", "system:basic-user").raw()["rules"]


async def test_definitions_of_others_stay_on_a_restart() -> None:
    """Harvester's and KubeVirt's definitions that a user applied are there as they were after the next start."""
    async with running_engine() as engine:
        await apply_foundation(engine, definitions())
        await install(LocalClient(engine))
        before = engine.ledger.version
        await apply_foundation(engine, definitions())
        assert engine.ledger.version == before


async def test_further_addresses_and_sockets_are_served(tmp_path: Path) -> None:
    """The server answers at every address that it is given and on sockets that it inherits, under its certificate."""
    inherited = socket.create_server(("127.0.0.2", 0))
    port = inherited.getsockname()[1]
    async with serving(
        tmp_path, listen=("127.0.0.3:0",), sockets=(inherited.detach(),), manager=False
    ) as config:
        other = ClusterConfig(server=f"https://127.0.0.2:{port}", ca=config.ca, token=config.token)
        async with HttpClient(other) as client:
            assert (await client.list(CLUSTER_NETWORKS)).items == ()


@pytest.mark.slow
async def test_the_server_shows_how_it_fares(tmp_path: Path) -> None:
    """At the address that is named the server says that it is ready, and counts what it answers; its manager too."""
    (port,) = free_ports(1)
    async with serving(tmp_path, metrics=(f"127.0.0.1:{port}",)) as config, HttpClient(config) as client:
        shown = Watched(port)
        assert await shown.missing() == []
        labels = {"method": "GET", "code": "200"}
        before = await shown.value("lanloom_apiserver_requests_total", **labels)
        await client.list(CLUSTER_NETWORKS)
        await shown.until_value(before + 1, "lanloom_apiserver_requests_total", **labels)
        assert await shown.value("lanloom_leader") == 1


async def test_address_that_is_none_is_an_error_before_anything_runs(tmp_path: Path) -> None:
    """An address without a port is refused by name."""
    with pytest.raises(ValueError, match="nonsense is not an address of the form HOST:PORT"):
        async with serving(tmp_path, listen=("nonsense",), manager=False):
            pass


async def test_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """A port that another process has is an error that names it."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(OSError, match=f"can't listen on 127.0.0.1:{port}: Address already in use"):
            async with serving(tmp_path, port=port, manager=False):
                pass
