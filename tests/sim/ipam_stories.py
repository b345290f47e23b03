"""One course of events with addresses, from a seed to its end."""

from random import Random

from lanloom.api.ipam import NETWORKS, NICS
from lanloom.kube.errors import NotFound
from lanloom_embedded.engine.storage import MemoryStorage
from tests.features.ipam.cluster import PLACE
from tests.harness.cluster import installed
from tests.harness.virtual import run
from tests.sim.course import check, check_processes, disturb, ending, rest
from tests.sim.ipam import IpamCluster
from tests.sim.ipam_judge import Verifier, complaints
from tests.sim.ipam_users import NAMES, Users

ACTS = 60


def play(seed: int, *, unfenced: tuple[str, ...] = ()) -> int:
    """Plays a seed; how many statuses were written. Raises Harm, and AssertionError for whatever else is wrong."""
    return run(_play(seed, installed(NETWORKS, NICS), unfenced), rng=Random(f"order {seed}"))


async def _play(seed: int, storage: MemoryStorage, unfenced: tuple[str, ...]) -> int:
    cluster = IpamCluster(seed, storage, unfenced=unfenced)
    witness = Verifier(cluster)
    async with ending(cluster):
        await cluster.start()
        users = Users(cluster, Random(f"users {seed}"))
        await users.begin()
        await disturb(cluster, users.act(ACTS))
        check(witness.harm)
        await users.let_go()
        await _rest(cluster, users)
        await _start_over(cluster, users)
        check(witness.harm)
        check_processes(cluster.processes.values())
    return witness.given


async def _rest(cluster: IpamCluster, users: Users) -> None:
    async def look() -> list[str]:
        await users.let_go()
        return await complaints(cluster) + ([] if cluster.leaders else ["no manager leads"])

    await rest(look, (), [10] * 30)


async def _start_over(cluster: IpamCluster, users: Users) -> None:
    """Everything that was ever given can be given again."""
    for nic in (await cluster.admin.list(NICS)).items:
        await cluster.admin.patch(NICS, nic.metadata.name, {"metadata": {"finalizers": None}}, PLACE)
        await cluster.admin.delete(NICS, nic.metadata.name, PLACE)
    await _rest(cluster, users)
    for name in NAMES:
        body = {"spec": {"subnets": [{"cidr": "192.0.2.0/24", "pools": [{"range": "192.0.2.8-192.0.2.26"}]}]}}
        try:
            await cluster.admin.patch(NETWORKS, name, body)
        except NotFound:
            await cluster.admin.create(NETWORKS, {"metadata": {"name": name}, **body})
        spec = {"owner": {"kind": "Instance", "name": "all"}, "network": name, "ips": ["pool"] * 19}
        await cluster.admin.create(NICS, {"metadata": {"name": f"all-of-{name}"}, "spec": spec}, PLACE)
    await _rest(cluster, users)
    for name in NAMES:
        nic = await cluster.admin.get(NICS, f"all-of-{name}", PLACE)
        assert len(nic.status.ips) == 19, f"{nic.metadata.name} got {nic.status}"
