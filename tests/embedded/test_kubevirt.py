"""KubeVirt's kinds on the embedded server."""

import asyncio
from random import Random
from typing import Any

from lanloom.api.core import CRDS
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.kubevirt import definitions
from lanloom_embedded.local import LocalClient
from lanloom_lab.kubevirt.objects import VMIS, VMS
from tests.harness.virtual import run

BODY: dict[str, Any] = {
    "metadata": {"name": "vm1"},
    "spec": {"template": {"spec": {"unknown": [1], "networks": None}}},
    "status": {"phase": "Running"},
}


def test_fields_are_kept() -> None:
    """Fields that Lanloom does not know, and nulls, are kept; an instance's status is written with its spec."""

    async def main() -> None:
        engine = Engine(MemoryStorage(), now=asyncio.get_running_loop().time, rng=Random(1))
        await engine.start()
        client = LocalClient(engine)
        for definition in definitions():
            await client.create(CRDS, definition)
        await asyncio.sleep(1)
        vm, vmi = [await client.create(kind, BODY, "default") for kind in (VMS, VMIS)]
        assert vm.spec == vmi.spec == BODY["spec"]
        assert (vm.status, vmi.status) == ({}, BODY["status"])
        patched = await client.patch(VMIS, "vm1", {"status": {"nodeName": "n1"}}, "default")
        assert patched.status == {"phase": "Running", "nodeName": "n1"}
        written = await client.patch(VMS, "vm1", {"status": {"ready": True}}, "default", subresource="status")
        assert written.status == {"ready": True}
        await engine.close()

    run(main())
