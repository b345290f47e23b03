"""A new feature is one object: kinds, rights, webhooks, controllers, commands and CNI programs follow from it."""

import asyncio
import os
import random
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from lanloom.api.core import CRDS, NAMESPACES
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.command import command_line
from lanloom.features import FEATURES
from lanloom.kube.errors import ApiError
from lanloom.kube.informer import Informer
from lanloom.processes.agent import run_agent
from lanloom.processes.blockers import Kinds, Target, explain
from lanloom.processes.checks import check_cluster
from lanloom.processes.definitions import install
from lanloom.processes.manager import Manager, ManagerSettings
from lanloom.processes.metrics import AgentMetrics
from lanloom.processes.rbac import agent_roles, manager_roles
from lanloom.runtime.cni.programs import CniSettings, socket_in
from lanloom.runtime.feature import Feature, cni_socket
from lanloom_embedded.local import LocalClient
from tests.fakes.host import FakeHost
from tests.fakes.switch import FakeSwitch
from tests.features.hello import FEATURE, FINALIZER, GREETINGS
from tests.harness.cniruntime import CniRuntime
from tests.harness.installing import install_webhooks
from tests.harness.managers import asking_engine

WITH_HELLO = (*FEATURES, FEATURE)


class RecordingMetrics(AgentMetrics):
    """Metrics that tell when the CNI programs are in their place."""

    def __init__(self, features: tuple[Feature, ...]) -> None:
        super().__init__(features)
        self.installed = asyncio.Event()

    def cni_part(self, part: str, there: bool) -> None:
        """As of every agent."""
        super().cni_part(part, there)
        if part == "plugin" and there:
            self.installed.set()


@asynccontextmanager
async def _running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Something that runs until the block ends."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@asynccontextmanager
async def cluster() -> AsyncIterator[LocalClient]:
    """An embedded server with the kinds of all features, which asks webhooks over HTTPS."""
    async with asking_engine() as engine:
        client = LocalClient(engine)
        await install(client, features=WITH_HELLO)
        await client.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
        await install_webhooks(client)
        yield client


async def test_a_manager_runs_a_new_feature() -> None:
    """The kind is installed, the webhook refuses with the feature's words, and the controller reconciles."""
    async with cluster() as client:
        assert GREETINGS.full_name in {item.metadata.name for item in (await client.list(CRDS)).items}
        settings = ManagerSettings(identity="test", host="127.0.0.1", port=0, local=True)
        manager = Manager(client, settings, now=time.time, rng=random.Random(1), features=WITH_HELLO)
        greeted = asyncio.Event()
        followed = Informer(client, GREETINGS, rng=random.Random(2))
        followed.on_change(lambda _old, new: greeted.set() if new and new.status.said else None)
        async with asyncio.timeout(60), _running(manager.run()), _running(followed.run()):
            await manager.ready.wait()
            with pytest.raises(ApiError, match="whom is empty; say whom to greet"):
                await client.create(GREETINGS, {"metadata": {"name": "nobody"}, "spec": {"whom": ""}})
            await client.create(GREETINGS, {"metadata": {"name": "world"}, "spec": {"whom": "world"}})
            await greeted.wait()
            assert (await client.get(GREETINGS, "world")).status.said == "Hello, world."


def test_the_rights_of_a_new_feature_follow() -> None:
    """Manager and agents may do what the feature's rights say, and nothing else is added."""
    for roles in (manager_roles, agent_roles):
        rules, before = (roles(features)[0]["rules"] for features in (WITH_HELLO, FEATURES))
        added = [rule for rule in rules if rule not in before]
        assert {rule["apiGroups"][0] for rule in added} == {GREETINGS.group}
        assert all(rule in rules for rule in before)


async def test_deletions_of_a_new_kind_are_explained() -> None:
    """`lanloom why-not-deleted` asks the feature about its kind; a finalizer of another controller is shown by name."""
    async with cluster() as client:
        finalizers = [FINALIZER, "example.com/hold"]
        await client.create(
            GREETINGS, {"metadata": {"name": "world", "finalizers": finalizers}, "spec": {"whom": "world"}}
        )
        await client.delete(GREETINGS, "world")
        target = Kinds(WITH_HELLO).target("greeting/world", "default")
        found = await explain(client, target, _no_trial, features=WITH_HELLO)
    assert found.state == "leaving"
    assert [blocker.what for blocker in found.blockers] == [
        "finalizer example.com/hold",
        f"finalizer {FINALIZER}",
    ]
    assert found.blockers[1].why == "world has not answered"


async def _no_trial(_target: Target) -> str:
    raise AssertionError("what is being deleted needs no dry run")


def test_the_command_knows_a_new_kind() -> None:
    """The command names a new feature's kind where a kind is unknown."""
    output = CliRunner().invoke(command_line(WITH_HELLO), ["why-not-deleted", "pod/web"]).output
    assert "Greeting (greeting)" in output
    output = CliRunner().invoke(command_line(FEATURES), ["why-not-deleted", "greeting/world"]).output
    assert '"greeting" is not a kind' in output


async def test_doctor_checks_a_new_kind() -> None:
    """`lanloom doctor` finds the new kind where it is installed, and says how to install it where it is not."""
    async with cluster() as client:
        found = {check.name: check for check in await check_cluster(client, WITH_HELLO)}
        assert found[GREETINGS.full_name].result == "ok"
        await client.delete(CRDS, GREETINGS.full_name)
        found = {check.name: check for check in await check_cluster(client, WITH_HELLO)}
        assert found[GREETINGS.full_name].result == "failed"
        assert "lanloom crds --apply" in found[GREETINGS.full_name].remedy
        assert GREETINGS.full_name not in {check.name for check in await check_cluster(client, FEATURES)}


def test_the_agent_has_the_options_of_a_new_feature() -> None:
    """`lanloom agent --help` lists the feature's option, and not without the feature."""
    outputs = [
        CliRunner().invoke(command_line(features), ["agent", "--help"]).output
        for features in (WITH_HELLO, FEATURES)
    ]
    assert ["--hello-tone" in output for output in outputs] == [True, False]


def test_the_command_of_a_new_feature_runs() -> None:
    """`lanloom hello` runs, and `lanloom --help` lists it."""
    cli = command_line(WITH_HELLO)
    assert CliRunner().invoke(cli, ["hello"]).output == "Hello.\n"
    assert "hello            Greet." in CliRunner().invoke(cli, ["--help"]).output


async def test_an_agent_offers_the_cni_program_of_a_new_feature(tmp_path: Path) -> None:
    """The agent puts the program into the runtime's directory, next to those of the other features, and answers it."""
    async with cluster() as client:
        cni = CniSettings(socket=tmp_path / "cni.sock", programs=tmp_path / "bin")
        host = FakeHost("node1", ("eth0",), switch=FakeSwitch({}), now=time.time)
        metrics = RecordingMetrics(WITH_HELLO)
        agent = run_agent(
            client,
            host.host,
            cluster="test",
            now=time.time,
            rng=random.Random(1),
            metrics=metrics,
            cni=cni,
            features=WITH_HELLO,
        )
        async with asyncio.timeout(60), _running(agent):
            await metrics.installed.wait()
            given = {"cniVersion": "1.1.0", "name": "world", "type": "hello"}
            outcome = await CniRuntime(tmp_path / "bin").call("hello", "ADD", given)
            assert outcome.result == {"greeting": "hello"}
    assert socket_in((tmp_path / "bin/hello").read_bytes()) == cni.socket
    assert (tmp_path / "bin/lanloom-ipam").exists()


async def test_an_agent_offers_no_cni_program_that_it_does_not_serve(tmp_path: Path) -> None:
    """Programs of a feature whose part does not run stay out of the runtime's directory: LANs without devices."""
    async with cluster() as client:
        cni = CniSettings(socket=tmp_path / "cni.sock", programs=tmp_path / "bin")
        host = FakeHost("node1", ("eth0",), switch=FakeSwitch({}), now=time.time)
        metrics = RecordingMetrics(FEATURES)
        agent = run_agent(
            client, host.host, cluster="test", now=time.time, rng=random.Random(1), metrics=metrics, cni=cni
        )
        async with asyncio.timeout(60), _running(agent):
            await metrics.installed.wait()
    assert os.listdir(tmp_path / "bin") == ["lanloom-ipam"]


@pytest.mark.parametrize(
    ("names", "socket"),
    [
        (("ipam",), "cni.sock"),
        (("vlan", "ipam", "dummy"), "cni.sock"),
        (("lan", "liveupdate"), "cni-lan.sock"),
        (("ipam", "lan"), "cni.sock"),
        (("lan", "hello"), "cni.sock"),
        (("vlan",), "cni.sock"),
    ],
)
def test_each_agent_has_one_socket(names: tuple[str, ...], socket: str) -> None:
    """An agent of LANs has a socket of its own next to another agent's, and one that has more does not need it."""
    serving = [feature for feature in WITH_HELLO if feature.name in names]
    assert cni_socket(serving, Path("/run/lanloom/cni.sock")) == Path("/run/lanloom") / socket
