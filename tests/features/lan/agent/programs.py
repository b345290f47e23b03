"""A node with the CNI programs of LANs in its directory, and agents behind their socket."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

from lanloom.features.lan import FEATURE
from lanloom.features.lan.agent.cni import LanCni
from lanloom.runtime.cni.server import CniServer, CniService
from tests.harness.cniagent import install_programs, served
from tests.harness.cniruntime import CniRuntime, Raw

DEVICES = {"macvtap": {"deviceID": "redM0"}, "k8slanveth": {"veth": "red", "deviceID": "redV0"}}


def config(program: str = "macvtap", version: str = "1.1.0", **more: Any) -> Raw:
    """A configuration as Multus passes it on, for the spoke `red`."""
    return {"cniVersion": version, "name": f"lan-{program}", "type": program, **DEVICES[program], **more}


class Node:
    """Both programs, which wait for `seconds`."""

    def __init__(self, directory: Path, seconds: int = 45) -> None:
        self.socket = directory / "cni.sock"
        self.programs = directory / "bin"
        install_programs(FEATURE.cni, self.programs, self.socket, seconds)
        self.runtime = CniRuntime(self.programs)


def services(cni: LanCni, **options: Any) -> dict[str, CniService]:
    """What an agent answers the programs; `options` are those of CniService."""
    return dict.fromkeys(FEATURE.cni, CniService(answer=cni.answer, **options))


def serving(path: Path, cni: LanCni, **options: Any) -> AbstractAsyncContextManager[CniServer]:
    """An agent that answers until the block ends."""
    return served(path, services(cni, **options))
