"""A process with the webhooks of address management over HTTPS, on stores that hold many networks and NICs."""

import asyncio
import sys
import time
from random import Random
from typing import Any

from bench.webhookserver import Raw, Still
from lanloom.api.ipam import NETWORKS, NICS
from lanloom.api.resource import Resource
from lanloom.features.ipam.admission import IpamAdmission
from lanloom.features.ipam.reader import AddressReader, ipam_informers
from lanloom.kube.informer import all_synced
from lanloom.kube.informers import Informers
from lanloom.kube.store import freeze_memory
from lanloom.runtime.certificates import issue
from lanloom.runtime.webhooks import TlsServer, webhook_app


def network(number: int) -> Raw:
    """Return a network of 65,536 addresses."""
    pools = [{"range": f"10.{number}.0.0/16", "name": "main"}]
    return {
        "metadata": {"name": f"net{number}"},
        "spec": {"subnets": [{"cidr": f"10.{number}.0.0/16", "pools": pools}]},
    }


def nic(name: str, network: int, *ips: str) -> Raw:
    """Return a NIC of an instance."""
    spec = {"owner": {"kind": "Instance", "name": name}, "network": f"net{network}", "ips": list(ips)}
    return {"metadata": {"namespace": "default", "name": name}, "spec": spec}


def given(name: str, network: int, place: int) -> Raw:
    """Return a NIC that has its address, the one at that place of its network."""
    address = f"10.{network}.{place >> 8}.{place & 255}"
    since = {"lastTransitionTime": "2026-01-01T00:00:00Z", "lastUpdateTime": "2026-01-01T00:00:00Z"}
    said = {"status": "True", "observedGeneration": 1, "reason": "Allocated"} | since
    message = f"has {address} of network net{network}"
    status = {
        "observedGeneration": 1,
        "network": f"net{network}",
        "ips": [address],
        "address": address,
        "epoch": 1,
        "conditions": [{"type": "Allocated", "message": message} | said, {"type": "Ready"} | said],
    }
    return nic(name, network, "pool") | {"status": status}


async def serve(networks: int, nics: int) -> None:
    """Serve until killed; print the port when ready."""
    objects: dict[Resource[Any], list[Raw]] = {
        NETWORKS: [network(number) for number in range(networks)],
        NICS: [given(f"nic{number}", number % networks, number // networks + 1) for number in range(nics)],
    }
    client: Any = Still(objects)
    informers = ipam_informers(Informers(client, Random(0)))
    reader = AddressReader(informers)
    async with asyncio.TaskGroup() as group:
        for informer in informers.all():
            group.create_task(informer.run())
        await all_synced(informers.all())
        freeze_memory()
        admission = IpamAdmission(client, reader.context, lambda _user: None)
        server = TlsServer(
            webhook_app([admission], lambda: True), "127.0.0.1", 0, issue(("127.0.0.1",), time.time())
        )
        group.create_task(server.run())
        await server.started()
        print(server.port, flush=True)


if __name__ == "__main__":
    asyncio.run(serve(*map(int, sys.argv[1:])))
