"""The program `lanloom-ipam` from a runtime's call to the NIC, over the agent's socket."""

import asyncio
from pathlib import Path
from random import Random
from typing import Any

import pytest

from lanloom.api.core import PODS
from lanloom.features.ipam.agent import PROGRAM, LateService
from lanloom.kube.events import Recorder
from lanloom.runtime.cni.calls import VERSIONS
from lanloom.runtime.cni.server import CniService
from tests.features.ipam.agent.cluster import AgentCluster
from tests.features.ipam.agent.objects import args, config
from tests.harness.cluster import installed
from tests.harness.cniagent import install_programs, served
from tests.harness.cniruntime import CniRuntime, Outcome

ENTRY = {"address": "192.0.2.10/24", "gateway": "192.0.2.1"}


@pytest.mark.slow
async def test_from_the_runtime_to_the_nic(tmp_path: Path) -> None:
    """A runtime's call reaches the API by program and agent; the addresses come in the form of each version."""
    storage = await asyncio.to_thread(installed, *AgentCluster.kinds)
    async with AgentCluster(storage) as cluster:
        uid = await cluster.pod()
        recorder = Recorder(cluster.client, "lanloom-agent", "node1", now=lambda: 0.0, rng=Random(1))
        late = LateService(cluster.client, "node1", recorder, Random(1))
        install_programs((PROGRAM,), tmp_path / "bin", tmp_path / "cni.sock")
        runtime = CniRuntime(tmp_path / "bin")

        async def call(command: str, version: str = "", pod: str = "web", **more: Any) -> Outcome:
            given = {**config(), **more, "cniVersion": version}
            if not version:
                del given["cniVersion"]
            return await runtime.call(
                PROGRAM, command, given, CNI_ARGS=args(pod, uid if pod == "web" else "")
            )

        service = CniService(answer=late.answer, unversioned=VERSIONS[0])
        async with served(tmp_path / "cni.sock", {PROGRAM: service}):
            for version in VERSIONS:
                result = (await call("ADD", version)).result
                ips = [ENTRY | ({"version": "4"} if version < "1.0.0" else {})]
                assert (result["ips"], result["cniVersion"]) == (ips, version)
            assert (await call("ADD")).result["cniVersion"] == "0.3.0"
            (nic,) = await cluster.nics()
            assert nic.status.ips == ("192.0.2.10",)
            assert (await call("CHECK", "1.1.0", prevResult={"ips": [ENTRY]})).output == b""
            assert (await call("CHECK", "1.1.0", prevResult={"ips": []})).error["code"] == 101
            assert (await call("ADD", "1.0.0", pod="nobody")).error["code"] == 3
            await cluster.client.delete(PODS, "web", "default")
            assert (await call("DEL", "1.0.0")).output == b""
        assert (await call("ADD", "1.0.0")).error["code"] == 11
        assert (await call("DEL", "1.0.0")).status == 0
