"""What users do to networks and NICs, from a seed; nothing stops them from doing what they should not."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.kube.errors import AlreadyExists, KubeError
from tests.features.ipam.cluster import PLACE
from tests.sim.ipam import IpamCluster

NAMES = ("red", "blue")
HOLD = "example.org/hold"
"""A finalizer of another controller, which lets go some time later."""

_PREFIX = {"red": "192.0.2", "blue": "198.51.100"}

_POOLS: tuple[tuple[dict[str, Any], ...], ...] = (
    ({"range": "{}.8-{}.15"},),
    ({"range": "{}.8-{}.10", "name": "a"}, {"range": "{}.12-{}.14", "name": "b"}),
    ({"range": "{}.8-{}.10", "name": "b"}, {"range": "{}.12-{}.14", "name": "a"}),
    ({"range": "{}.9-{}.10", "name": "a"},),
    ({"range": "{}.4-{}.20", "name": "a", "disabled": True}, {"range": "{}.24-{}.26"}),
    (),
)
_REQUESTS = (*["pool"] * 8, "pool4", "a", "b", "{}.9", "{}.12", "{}.25", "{}.1", "nonsense!", "203.0.113.9")


class Users:
    """All users of addresses."""

    def __init__(self, cluster: IpamCluster, rng: Random) -> None:
        self._cluster = cluster
        self._admin = cluster.admin
        self._rng = rng
        self._count = 0

    async def begin(self) -> None:
        """The networks, and some NICs."""
        for name in NAMES:
            await self._add_network(name)
        for _ in range(3):
            with suppress(AlreadyExists):
                await self._add_nic()

    async def act(self, times: int) -> None:
        """Does so many things, one after the other."""
        acts: dict[Callable[[], Coroutine[Any, Any, None]], int] = {
            self._add_nic: 10,
            self._change_nic: 10,
            self._delete_nic: 7,
            self._move_nic: 4,
            self._label_nic: 2,
            self._change_network: 5,
            self._replace_network: 1,
        }
        happenings, weights = list(acts), list(acts.values())
        for _ in range(times):
            await asyncio.sleep(self._rng.choice((0.01, 0.1, 1.0)) * self._rng.expovariate(1.0))
            with suppress(KubeError):
                await self._rng.choices(happenings, weights)[0]()

    async def let_go(self) -> None:
        """Takes the other finalizer away wherever it holds something that is to be deleted."""
        for nic in (await self._admin.list(NICS)).items:
            if nic.metadata.deletion_timestamp is not None:
                with suppress(KubeError):
                    await self._admin.patch(
                        NICS, nic.metadata.name, {"metadata": {"finalizers": None}}, PLACE
                    )

    async def _add_network(self, name: str) -> None:
        self._cluster.note(f"users: add network {name}")
        await self._admin.create(NETWORKS, {"metadata": {"name": name}, "spec": self._network(name)})

    async def _change_network(self) -> None:
        name = self._rng.choice(NAMES)
        spec = self._network(name)
        self._cluster.note(f"users: network {name} is {spec}")
        await self._admin.patch(NETWORKS, name, {"spec": spec})

    async def _replace_network(self) -> None:
        name = self._rng.choice(NAMES)
        self._cluster.note(f"users: delete network {name}")
        await self._admin.delete(NETWORKS, name)
        for _ in range(5):
            await asyncio.sleep(self._rng.random() * 2)
            with suppress(KubeError):
                await self._add_network(name)
                return

    async def _add_nic(self) -> None:
        self._count += 1
        network = self._rng.choice((*NAMES, *NAMES, *NAMES, ""))
        name = f"nic{self._rng.randrange(7)}"
        meta = {"name": name, "finalizers": [HOLD] if self._rng.random() < 0.3 else []}
        spec = {
            "owner": {"kind": "Instance", "name": name},
            "network": network,
            "ips": self._requests(network),
        }
        self._cluster.note(f"users: add {name}: {network} {spec['ips']}")
        await self._admin.create(NICS, {"metadata": meta, "spec": spec}, PLACE)

    async def _change_nic(self) -> None:
        nic = await self._nic()
        spec: dict[str, Any] = {"ips": self._requests(nic.spec.network), "force": self._rng.random() < 0.2}
        if self._rng.random() < 0.3:
            spec["release"] = list(nic.status.ips[:1])
        self._cluster.note(f"users: {nic.metadata.name} asks for {spec}")
        await self._admin.patch(NICS, nic.metadata.name, {"spec": spec}, PLACE)

    async def _move_nic(self) -> None:
        nic = await self._nic()
        network = self._rng.choice((*NAMES, ""))
        self._cluster.note(f"users: move {nic.metadata.name} to {network}")
        spec = {"network": network, "ips": self._requests(network)}
        await self._admin.patch(NICS, nic.metadata.name, {"spec": spec}, PLACE)

    async def _label_nic(self) -> None:
        """The NIC's version moves, and nothing else does."""
        nic = await self._nic()
        labels = {"example.org/seen": str(self._rng.random())}
        await self._admin.patch(NICS, nic.metadata.name, {"metadata": {"labels": labels}}, PLACE)

    async def _delete_nic(self) -> None:
        nic = await self._nic()
        self._cluster.note(f"users: delete {nic.metadata.name}")
        await self._admin.delete(NICS, nic.metadata.name, PLACE)
        if self._rng.random() < 0.5:
            await asyncio.sleep(self._rng.random())
            await self.let_go()

    async def _nic(self) -> Any:
        nics = (await self._admin.list(NICS)).items
        if not nics:
            await self._add_nic()
            nics = (await self._admin.list(NICS)).items
        return self._rng.choice(nics)

    def _network(self, name: str) -> dict[str, Any]:
        prefix = _PREFIX[name]
        pools = [{**pool, "range": pool["range"].format(prefix, prefix)} for pool in self._rng.choice(_POOLS)]
        subnet: dict[str, Any] = {"cidr": f"{prefix}.0/24", "gateway": f"{prefix}.1", "pools": pools}
        if self._rng.random() < 0.2:
            subnet["external"] = [f"{prefix}.9"]
        if self._rng.random() < 0.1:
            subnet["cidr"] = "nonsense"
        return {"subnets": [subnet]}

    def _requests(self, network: str) -> list[str]:
        prefix = _PREFIX.get(network, "192.0.2")
        count = self._rng.choice((0, 1, 1, 1, 2, 2, 3))
        return [self._rng.choice(_REQUESTS).format(prefix) for _ in range(count)]
