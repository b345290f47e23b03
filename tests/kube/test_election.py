"""Elections in virtual time, among replicas whose clocks and networks are as bad as can be."""

import asyncio
from collections.abc import Coroutine
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import pytest
from msgspec import Struct

from lanloom.kube.election import Elector
from lanloom.kube.errors import Forbidden
from tests.harness.examples import seeds
from tests.harness.virtual import run
from tests.kube.leases import FaultyClient, LeaseServer


class Times(NamedTuple):
    """Settings of an elector, in seconds."""

    lease: float
    renew: float
    retry: float


DEFAULT = Times(15.0, 10.0, 2.0)


class Term(Struct):
    """A replica's time as leader; `end` is when what it led had ended, None while it lasts."""

    replica: str
    start: float
    end: float | None = None


class Replica:
    """A candidate that takes its time to stop, as long as the elector allows, and notes its terms."""

    def __init__(
        self,
        name: str,
        server: LeaseServer,
        terms: list[Term],
        elected: asyncio.Event,
        times: Times,
        rng: Random,
    ) -> None:
        self.name = name
        self._elected = elected
        self.client = FaultyClient(server, rng)
        self._terms = terms
        self._rng = rng
        self._cleanup = (times.lease - times.renew) * 0.99
        skew = rng.uniform(-1e6, 1e6)
        self.elector = Elector(
            self.client,
            "default",
            "leader",
            name,
            now=lambda: asyncio.get_running_loop().time() + skew,
            rng=rng,
            lease=times.lease,
            renew=times.renew,
            retry=times.retry,
        )

    async def lead(self) -> None:
        """Leads until cancelled."""
        now = asyncio.get_running_loop().time
        term = Term(self.name, now())
        self._terms.append(term)
        self._elected.set()
        self._elected.clear()
        try:
            await asyncio.Event().wait()
        finally:
            try:
                await asyncio.sleep(self._rng.uniform(0, self._cleanup))
            finally:
                term.end = now()


class Election:
    """Some replicas of one lease."""

    def __init__(self, count: int, rng: Random, times: Times = DEFAULT) -> None:
        self.server = LeaseServer()
        self.terms: list[Term] = []
        self._elected = asyncio.Event()
        self.replicas = [
            Replica(f"r{number}", self.server, self.terms, self._elected, times, rng)
            for number in range(count)
        ]
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, *names: str) -> None:
        """Lets every replica run that doesn't, or those of these names."""
        for replica in self.replicas:
            task = self._tasks.get(replica.name)
            if (not names or replica.name in names) and (task is None or task.done()):
                self._tasks[replica.name] = asyncio.create_task(replica.elector.run(replica.lead))

    def stop(self, name: str) -> asyncio.Task[None]:
        """Asks a replica to end, as SIGTERM does."""
        self._tasks[name].cancel()
        return self._tasks[name]

    def leaders(self) -> list[str]:
        """Who leads now."""
        return [term.replica for term in self.terms if term.end is None]

    async def leader(self) -> str:
        """The leader, waiting for one."""
        if not self.leaders():
            await self._elected.wait()
        [name] = self.leaders()
        return name


def _assert_no_overlap(terms: list[Term]) -> None:
    for before, after in pairwise(terms):
        assert before.end is not None, f"{after} began while {before} went on"
        assert before.end <= after.start, f"{after} began before the end of {before}"


async def _trouble(election: Election, rng: Random, seconds: float) -> None:
    """Partitions, slow and failing requests, stops and restarts, in random order."""
    now = asyncio.get_running_loop().time
    end = now() + seconds
    while now() < end:
        await asyncio.sleep(rng.expovariate(1 / 8))
        replica = rng.choice(election.replicas)
        match rng.randrange(4):
            case 0:
                replica.client.partitioned = not replica.client.partitioned
            case 1:
                replica.client.trouble = rng.random()
            case 2:
                election.stop(replica.name)
            case 3:
                election.start()


@pytest.mark.slow
@pytest.mark.parametrize(
    "times", [DEFAULT, Times(15.0, 14.0, 2.0), Times(3.5, 3.2, 0.5), Times(2.2, 2.1, 2.0)], ids=str
)
@pytest.mark.parametrize("seed", seeds(5))
def test_never_two_leaders(seed: int, times: Times) -> None:
    """Whatever happens to clocks, networks and processes, a term begins only after the one before has ended."""
    rng = Random(seed)

    async def main() -> list[Term]:
        election = Election(4, rng, times)
        election.start()
        await _trouble(election, rng, 1200)
        return election.terms

    terms = run(main(), rng=rng)
    assert len(terms) > 5
    _assert_no_overlap(terms)


@pytest.mark.parametrize("seed", seeds(5))
def test_a_leader_is_found_again(seed: int) -> None:
    """Once requests get through, there is a leader within a lease and a few tries, and it stays."""
    rng = Random(seed)

    async def main() -> None:
        election = Election(3, rng)
        election.start()
        await _trouble(election, rng, 300)
        for replica in election.replicas:
            replica.client.partitioned, replica.client.trouble = False, 0.0
        election.start()
        await asyncio.sleep(60)  # what was sent before may land for half of that
        leader = await asyncio.wait_for(election.leader(), 15 + 4 * 2)
        election.start()
        await asyncio.sleep(3600)
        assert election.leaders() == [leader]

    run(main(), rng=rng)


def _scene(main: Coroutine[Any, Any, None]) -> None:
    run(main, rng=Random(1))


def test_partition_ends_leadership_before_the_next_begins() -> None:
    """A leader without a network stops by itself, and another one takes over when its lease has run out."""

    async def main() -> None:
        election = Election(2, Random(5))
        election.start()
        first = await election.leader()
        cut = asyncio.get_running_loop().time()
        next(item for item in election.replicas if item.name == first).client.partitioned = True
        await asyncio.sleep(15 + 3 * 2 + 1)
        assert election.leaders() == [name for name in ("r0", "r1") if name != first]
        old, new = election.terms
        assert old.end is not None
        assert old.end - cut <= 15
        assert old.end <= new.start

    _scene(main())


@pytest.mark.parametrize("seed", seeds(5))
@pytest.mark.parametrize(
    ("times", "seconds"), [(Times(15.0, 14.0, 2.0), 3.5), (Times(3.0, 2.9, 2.5), 4.5)], ids=str
)
def test_leadership_counts_from_before_the_request(seed: int, times: Times, seconds: float) -> None:
    """A lease whose answer comes late is held for as much shorter, or not at all."""

    async def main() -> list[Term]:
        election = Election(6, Random(seed), times)
        slow = election.replicas[0]
        slow.client.answer_after = seconds
        election.start(slow.name)
        await asyncio.sleep(0.5)
        assert election.server.get().spec.holder_identity == slow.name
        election.start()
        await asyncio.sleep(seconds)
        slow.client.partitioned = True
        await asyncio.sleep(2 * times.lease + 4 * times.retry)
        return election.terms

    terms = run(main(), rng=Random(seed))
    assert terms
    _assert_no_overlap(terms)


@pytest.mark.parametrize("seed", seeds(5))
def test_leadership_counts_from_before_a_renewal(seed: int) -> None:
    """A renewal whose answer comes late is good for as much shorter."""

    async def main() -> list[Term]:
        election = Election(6, Random(seed), Times(15.0, 14.0, 2.0))
        election.start()
        name = await election.leader()
        leader = next(item for item in election.replicas if item.name == name)
        leader.client.answer_after = 5.0
        await asyncio.sleep(2 + 2 * 5.0 + 0.2)
        leader.client.partitioned = True
        await asyncio.sleep(40)
        return election.terms

    terms = run(main(), rng=Random(seed))
    assert len(terms) == 2
    _assert_no_overlap(terms)


def test_a_stolen_lease_is_given_up_at_once() -> None:
    """A leader that finds another holder in the lease stops at its next renewal, and leaves the lease alone."""

    async def main() -> None:
        election = Election(1, Random(3))
        election.start()
        await election.leader()
        election.server.steal("thief")
        stolen = asyncio.get_running_loop().time()
        await asyncio.sleep(10)
        [term] = election.terms
        assert term.end is not None
        assert term.end - stolen < 2.2 + 5
        assert election.server.get().spec.holder_identity == "thief"

    _scene(main())


def test_clean_stop_hands_over_at_once() -> None:
    """A leader that is stopped releases the lease when its work has ended, and no replica waits for it to run out."""

    async def main() -> None:
        election = Election(3, Random(3))
        election.start()
        first = await election.leader()
        stopped = election.stop(first)
        with pytest.raises(asyncio.CancelledError):
            await stopped
        ended = asyncio.get_running_loop().time()
        second = await election.leader()
        assert second != first
        assert asyncio.get_running_loop().time() - ended <= 2 * 2 + 0.5
        assert election.server.get().spec.lease_transitions == 1
        _assert_no_overlap(election.terms)

    _scene(main())


def test_the_same_replica_keeps_its_lease() -> None:
    """A replica that restarts under its name goes on with its lease without counting a transition."""

    async def main() -> None:
        election = Election(1, Random(3))
        election.start()
        await election.leader()
        election.replicas[0].client.partitioned = True
        election.stop("r0")
        await asyncio.sleep(10)
        election.replicas[0].client.partitioned = False
        election.start()
        await asyncio.wait_for(election.leader(), 1)
        spec = election.server.get().spec
        assert (spec.holder_identity, spec.lease_transitions) == ("r0", 0)

    _scene(main())


class _Failure(Exception):
    pass


def test_only_one_of_many_creates_the_lease() -> None:
    """Of candidates that find no lease at the same moment one creates it, and the others wait."""

    async def main() -> None:
        election = Election(20, Random(3))
        election.start()
        await election.leader()
        await asyncio.sleep(300)
        assert len(election.terms) == 1
        assert election.server.get().spec.lease_transitions == 0

    _scene(main())


def test_errors_of_what_is_led_surface() -> None:
    """An error of `lead` ends the candidate with that error, after the lease is released."""

    async def main() -> None:
        election = Election(1, Random(3))

        async def lead() -> None:
            raise _Failure

        with pytest.raises(_Failure):
            await election.replicas[0].elector.run(lead)
        assert not election.server.get().spec.holder_identity

    _scene(main())


def test_work_that_ends_is_led_again() -> None:
    """When `lead` returns, the lease goes back to the others and the candidate stands again."""

    async def main() -> None:
        election = Election(1, Random(3))
        terms = 0

        async def lead() -> None:
            nonlocal terms
            terms += 1
            if terms == 3:
                raise _Failure

        with pytest.raises(_Failure):
            await election.replicas[0].elector.run(lead)
        assert terms == 3

    _scene(main())


def test_refusals_are_waited_out() -> None:
    """A candidate that may not read the lease stays a candidate."""

    async def main() -> None:
        election = Election(1, Random(3))
        allowed = election.server.get

        def refuse() -> Any:
            raise Forbidden(403, "Forbidden", "not yet")

        election.server.get = refuse  # type: ignore[method-assign]
        election.start()
        await asyncio.sleep(30)
        assert election.leaders() == []
        election.server.get = allowed  # type: ignore[method-assign]
        assert await asyncio.wait_for(election.leader(), 5) == "r0"

    _scene(main())


@pytest.mark.parametrize("times", [(10, 10, 2), (15, 2, 2), (15, 10, 0), (15, 16, 2)])
def test_settings_that_can_not_be_safe(times: tuple[float, float, float]) -> None:
    """Times under which two could lead, or none could renew, are refused."""
    with pytest.raises(ValueError, match="lease > renew > retry > 0"):
        Replica("r", LeaseServer(), [], asyncio.Event(), Times(*times), Random(0))
