"""One leader among several replicas, by a Lease (coordination.k8s.io), as Kubernetes' own components elect theirs.

Clocks of different machines are never compared: a replica measures on its own clock how long the record has
not changed. A leader that can't renew stops leading `lease - renew` seconds before the others' patience ends:
so long may what it leads take to end. Times of a leader count from before a request was sent, those of the
others from after the answer came, and every write carries the resourceVersion that was read, so that a
request that arrives late (its sender gave up long ago) can't take the lease from a later leader.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping
from random import Random
from typing import Any

import structlog

from lanloom.api.core import LEASES, Lease, LeaseSpec
from lanloom.api.meta import rfc3339_micro
from lanloom.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from lanloom.kube.ports import Client

log = structlog.get_logger(__name__)


class LeaseAges:
    """Tell whether the holders of Leases may still rely on them, by this process's own clock."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[LeaseSpec, float]] = {}

    def observe(self, lease: Lease) -> float:
        """Return since when the record has not changed, in seconds of the loop's clock."""
        known = self._seen.get(lease.metadata.uid)
        if known is None or known[0] != lease.spec:
            known = self._seen[lease.metadata.uid] = (lease.spec, asyncio.get_running_loop().time())
        return known[1]

    def has_ended(self, lease: Lease, duration: float) -> bool:
        """Return whether a Lease is released, or was not renewed for its duration; `duration` if it names none."""
        since, spec = self.observe(lease), lease.spec
        patience = spec.lease_duration_seconds or duration
        return not spec.holder_identity or asyncio.get_running_loop().time() - since > patience

    def retain(self, leases: Iterable[Lease]) -> None:
        """Forget all other Leases."""
        uids = {lease.metadata.uid for lease in leases}
        self._seen = {uid: each for uid, each in self._seen.items() if uid in uids}


class Elector:
    """A candidate; `identity` must be its own. `lease`, `renew` and `retry` are seconds, each smaller than the last.

    The Lease has the `labels` while the candidate holds it.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        name: str,
        identity: str,
        *,
        now: Callable[[], float],
        rng: Random,
        lease: float = 15.0,
        renew: float = 10.0,
        retry: float = 2.0,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        if not lease > renew > retry > 0:
            raise ValueError(
                f"an election needs lease > renew > retry > 0, not {lease:g}, {renew:g}, {retry:g}"
            )
        self._client = client
        self._namespace = namespace
        self._name = name
        self._identity = identity
        self._now = now
        self._rng = rng
        self._lease = lease
        self._renew = renew
        self._retry = retry
        self._labels = dict(labels or {})
        self._ages = LeaseAges()
        self._observed: Lease | None = None

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Run `lead` whenever this replica is the leader, until cancelled or until `lead` raises.

        `lead` is cancelled when leadership is lost, and must then end within `lease - renew` seconds. The
        lease is released once it has ended.
        """
        while True:
            acquired = await self._acquire()
            log.info("became leader", lease=self._name, identity=self._identity)
            try:
                await self._hold(lead, acquired)
            finally:
                log.info("no longer leader", lease=self._name, identity=self._identity)

    async def _acquire(self) -> float:
        """Wait for the lease; the loop time from before the request that got it."""
        while True:
            started = asyncio.get_running_loop().time()
            if await self._try(min(self._retry * 2, self._renew)):
                return started
            await asyncio.sleep(self._retry * (1 + self._rng.random()))

    async def _hold(self, lead: Callable[[], Awaitable[None]], acquired: float) -> None:
        leading = asyncio.ensure_future(lead())
        renewing = asyncio.ensure_future(self._keep(acquired))
        try:
            await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
        finally:
            renewing.cancel()
            leading.cancel()
            results = await asyncio.gather(leading, renewing, return_exceptions=True)
            # Not reached if cancelled again meanwhile: who may still be leading must not release.
            await asyncio.shield(self._release())
        error = results[0]
        if isinstance(error, Exception):
            raise error

    async def _keep(self, renewed: float) -> None:
        """Renew; returns when `renew` seconds have passed since the last renewal that is known to hold.

        Also when another process holds the lease: that is so after this machine slept, which its clock may not show.
        """
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(self._retry, renewed + self._renew - loop.time()))
            started = loop.time()
            left = renewed + self._renew - started
            if left <= 0:
                return
            if await self._try(left):
                renewed = started
            elif self._is_taken():
                return

    async def _try(self, seconds: float) -> bool:
        """Try once to get or renew the lease, for at most `seconds`; return False whenever that is not certain."""
        try:
            async with asyncio.timeout(seconds):
                return await self._attempt()
        except TimeoutError:
            return False
        except KubeError as error:
            report = log.debug if error.reported else log.info
            report("lease not renewed", lease=self._name, error=str(error))
            return False

    async def _attempt(self) -> bool:
        try:
            lease = await self._client.get(LEASES, self._name, self._namespace)
        except NotFound:
            return await self._create()
        self._observe(lease)
        is_own = lease.spec.holder_identity == self._identity
        if not is_own and not self._ages.has_ended(lease, self._lease):
            return False
        spec, metadata = self._spec(), {"resourceVersion": lease.metadata.resource_version}
        if not is_own:
            transitions = (lease.spec.lease_transitions or 0) + 1
            spec |= {"acquireTime": rfc3339_micro(self._now()), "leaseTransitions": transitions}
            metadata |= self._own_labels()
        try:
            patch = {"metadata": metadata, "spec": spec}
            self._observe(await self._client.patch(LEASES, self._name, patch, self._namespace))
        except Conflict:
            return False
        return True

    async def _create(self) -> bool:
        spec = self._spec() | {"acquireTime": rfc3339_micro(self._now()), "leaseTransitions": 0}
        metadata = {"name": self._name, "namespace": self._namespace, **self._own_labels()}
        body = {"metadata": metadata, "spec": spec}
        try:
            self._observe(await self._client.create(LEASES, body, self._namespace))
        except AlreadyExists:
            return False
        return True

    def _spec(self) -> dict[str, Any]:
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": math.ceil(self._lease),
            "renewTime": rfc3339_micro(self._now()),
        }

    def _own_labels(self) -> dict[str, Any]:
        return {"labels": self._labels} if self._labels else {}

    def _observe(self, lease: Lease) -> None:
        self._observed = lease
        self._ages.retain((lease,))
        self._ages.observe(lease)

    def _is_taken(self) -> bool:
        """Return whether the record that was seen last is another replica's."""
        holder = self._observed.spec.holder_identity if self._observed else None
        return bool(holder) and holder != self._identity

    async def _release(self) -> None:
        """Let the others take over at once. Best effort: they wait for the lease to run out otherwise."""
        observed = self._observed
        if observed is None or observed.spec.holder_identity != self._identity:
            return
        patch = {
            "metadata": {"resourceVersion": observed.metadata.resource_version},
            "spec": {
                "holderIdentity": "",
                "leaseDurationSeconds": 1,
                "renewTime": rfc3339_micro(self._now()),
            },
        }
        try:
            async with asyncio.timeout(self._retry):
                await self._client.patch(LEASES, self._name, patch, self._namespace)
        except (KubeError, TimeoutError) as error:
            log.info("lease not released", lease=self._name, error=str(error))
