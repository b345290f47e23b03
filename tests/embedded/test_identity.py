"""The embedded server's certificate: renewed under a CA that stays."""

import asyncio
import base64
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from msgspec.structs import replace

from lanloom.api.core import SECRETS
from lanloom.runtime.certificates import (
    DAY,
    LIFETIME_DAYS,
    RENEWAL_DAYS,
    Bundle,
    due,
    expires,
    is_whole,
    issue,
    validity,
    wait_for_check,
)
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.identity import (
    AUTHORITY_DAYS,
    CHECK_SECONDS,
    NAME,
    NAMESPACE,
    SUCCESSION_DAYS,
    Identity,
    IdentityReconciler,
    renewed,
)
from lanloom_embedded.local import LocalClient
from tests.embedded.engine.running import running_engine
from tests.harness.virtual import run

NOW = 1_800_000_000.0
NAMES = ("127.0.0.1", "localhost")
EMPTY = Identity((), b"", b"", (), "token")
FIRST = renewed(EMPTY, NAMES, NOW)


def trusted(identity: Identity, kubeconfig: Identity) -> bool:
    """Whether a client with the CAs of a kubeconfig accepts what a server presents."""
    return any(
        is_whole(Bundle(each.certificate, identity.certificate, identity.key))
        for each in kubeconfig.authorities
    )


@pytest.mark.parametrize("days", [0, 1, 200])
def test_nothing_changes_without_need(days: int) -> None:
    """An identity that is good for long is the very same one."""
    assert renewed(FIRST, NAMES, NOW + days * DAY) is FIRST


@pytest.mark.parametrize(
    ("days", "names"),
    [(310, NAMES), (364, NAMES), (400, NAMES), (2000, NAMES), (0, ("127.0.0.1", "localhost", "192.0.2.1"))],
    ids=["due", "last day", "ended", "ended long ago", "another address"],
)
def test_a_new_certificate_is_of_the_same_ca(days: int, names: tuple[str, ...]) -> None:
    """A certificate that is due, or for other names, is made under the CA that every kubeconfig has."""
    after = renewed(FIRST, names, NOW + days * DAY)
    assert (after.certificate != FIRST.certificate, after.authorities) == (True, FIRST.authorities)
    assert trusted(after, FIRST)
    assert not due(after.certificate, NOW + days * DAY)
    assert after.token == FIRST.token


def test_kubeconfigs_name_the_next_ca_long_before_it_signs() -> None:
    """Over 30 years, what the server presents is trusted by each kubeconfig of the last year, and is in its time."""
    identity, former = FIRST, {0: FIRST}
    for day in range(0, 30 * 365, 91):
        now = NOW + day * DAY
        identity = former[day] = renewed(identity, NAMES, now)
        start, end = validity(identity.certificate)
        assert start <= now < end
        assert all(trusted(identity, former[past]) for past in former if day - past <= LIFETIME_DAYS)
    assert trusted(former[(AUTHORITY_DAYS - SUCCESSION_DAYS) // 91 * 91], FIRST)


@pytest.mark.parametrize("days", [-20_000, -30, 400, AUTHORITY_DAYS + 400])
def test_a_wrong_clock_costs_no_kubeconfig(days: int) -> None:
    """After the clock was wrong for a while, the certificate is in its time and the first CA's."""
    wrong = renewed(FIRST, NAMES, NOW + days * DAY)
    after = renewed(wrong, NAMES, NOW)
    assert trusted(after, FIRST)
    assert not due(after.certificate, NOW)
    if days < 0:
        assert wrong is FIRST


@pytest.mark.parametrize("part", ["certificate", "key", "names"])
def test_a_spoilt_part_is_made_again(part: str) -> None:
    """What is damaged in the Secret is replaced, under the same CA."""
    after = renewed(replace(FIRST, **{part: () if part == "names" else b"rubbish"}), NAMES, NOW)
    assert (after.is_signed, after.authorities) == (True, FIRST.authorities)


class Clock:
    """A clock next to the loop's, which a test sets."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def __call__(self) -> float:
        """Seconds since the epoch."""
        return NOW + self.ahead + asyncio.get_running_loop().time()


class Server:
    """A server that presents an identity."""

    def __init__(self, engine: Engine, names: tuple[str, ...] = NAMES) -> None:
        self.clock = Clock()
        self.shown: list[Identity] = []
        self.published: list[Identity] = []
        self.identity = IdentityReconciler(
            LocalClient(engine), names, now=self.clock, new_token=lambda: "new", present=self.shown.append
        )

    async def start(self) -> asyncio.Task[None]:
        """Load the identity, and renew it from then on."""
        await self.identity.load()
        task = asyncio.create_task(self.identity.run(self.published.append))
        await asyncio.sleep(0)
        return task


def virtually(main: Callable[[Engine], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """A test in virtual time on an engine of its own."""

    async def whole() -> None:
        async with running_engine() as engine:
            await main(engine)

    def test() -> None:
        run(whole())

    test.__name__, test.__doc__ = main.__name__, main.__doc__
    return test


@virtually
async def test_a_certificate_is_renewed_while_the_server_runs(engine: Engine) -> None:
    """A certificate that comes near its end is replaced in time, and kubeconfigs stay as they are."""
    server = Server(engine)
    await server.identity.load()
    server.clock.ahead = (LIFETIME_DAYS - RENEWAL_DAYS) * DAY - 1800
    task = await server.start()
    await asyncio.sleep(CHECK_SECONDS + 1)
    first, _again, after = server.shown
    assert (after.certificate != first.certificate, trusted(after, first)) == (True, True)
    assert not due(after.certificate, server.clock())
    assert server.published == []
    task.cancel()


@pytest.mark.parametrize("days", [400, -400])
def test_a_clock_that_jumps_is_seen_at_once(days: int) -> None:
    """Two seconds after the clock is set the server presents a certificate that is in its time."""

    @virtually
    async def main(engine: Engine) -> None:
        server = Server(engine)
        await server.identity.load()
        server.clock.ahead = 1000 * DAY
        task = await server.start()
        assert len(server.shown) == 2
        server.clock.ahead += days * DAY
        await asyncio.sleep(2)
        assert len(server.shown) == 3
        assert trusted(server.shown[-1], server.shown[0])
        assert not due(server.shown[-1].certificate, server.clock())
        task.cancel()

    main()


@virtually
async def test_a_restart_keeps_the_ca(engine: Engine) -> None:
    """A server that starts again, later or at other addresses, presents what older kubeconfigs trust."""
    first = Server(engine)
    await first.identity.load()
    again = Server(engine)
    await again.identity.load()
    assert again.shown == [first.shown[0]]
    later = Server(engine, (*NAMES, "192.0.2.1"))
    later.clock.ahead = 400 * DAY
    await later.identity.load()
    assert trusted(later.shown[0], first.shown[0])
    assert later.shown[0].token == first.shown[0].token


@virtually
async def test_data_of_an_older_version_keep_what_can_be_kept(engine: Engine) -> None:
    """Without a CA key the certificate stays to its end, while new kubeconfigs already name the CA of the next."""
    old = issue(NAMES, NOW + asyncio.get_running_loop().time())
    parts = {"ca.crt": old.ca, "tls.crt": old.certificate, "tls.key": old.key, "token": b"known"}
    parts["names"] = b'["127.0.0.1","localhost"]'
    data = {name: base64.b64encode(value).decode() for name, value in parts.items()}
    await LocalClient(engine).create(SECRETS, {"metadata": {"name": NAME}, "data": data}, NAMESPACE)
    server = Server(engine)
    task = await server.start()
    (first,) = server.shown
    assert (first.certificate, first.token) == (old.certificate, "known")
    assert first.authority.startswith(old.ca)
    server.clock.ahead = 330 * DAY
    await asyncio.sleep(2)
    assert server.shown[-1].certificate != old.certificate
    assert trusted(server.shown[-1], first)
    task.cancel()


@virtually
async def test_a_new_ca_reaches_the_kubeconfig(engine: Engine) -> None:
    """The kubeconfig is written again when the server adds a CA, once, and has the former one too."""
    server = Server(engine)
    task = await server.start()
    server.clock.ahead = (AUTHORITY_DAYS - SUCCESSION_DAYS + 1) * DAY
    await asyncio.sleep(2)
    (published,) = server.published
    assert len(published.authorities) == 2
    assert published.authorities[0] == server.shown[0].authorities[0]
    task.cancel()


def test_waiting_ends_after_its_time() -> None:
    """While the clock is not set, a check waits for its time, and no longer."""

    async def main() -> float:
        loop, clock = asyncio.get_running_loop(), Clock()
        began = loop.time()
        await wait_for_check(60.5, clock)
        return loop.time() - began

    assert run(main()) == 60.5
    assert expires(FIRST.certificate) == NOW + LIFETIME_DAYS * DAY
