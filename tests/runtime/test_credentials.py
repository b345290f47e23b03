"""The Secret with the webhooks' certificate, from its first day to the end of a renewal, in virtual time."""

import asyncio
import base64
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from structlog.testing import capture_logs

from lanloom.api.core import NAMESPACES, SECRETS, Secret
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.kube.errors import Invalid
from lanloom.kube.ports import Client
from lanloom.runtime.certificates import (
    DAY,
    LIFETIME_DAYS,
    RENEWAL_DAYS,
    SECRET_NAME,
    SPREAD_SECONDS,
    Credentials,
    bundle_of,
    covers,
    due,
    is_whole,
    path_of,
)
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import MemoryStorage
from lanloom_embedded.local import LocalClient
from tests.harness.interceptor import ScriptedClient
from tests.harness.virtual import run

NAME = "lanloom-webhook.lanloom-system.svc"
CHECK_SECONDS = 60.0
UNTIL_DUE = (LIFETIME_DAYS - RENEWAL_DAYS) * DAY + 1.0


def clock() -> float:
    """Virtual time, as that of the world, too."""
    return asyncio.get_running_loop().time()


def credentials(client: Client, name: str = NAME) -> Credentials:
    """Those of one replica."""
    return Credentials(client, (name,), now=clock)


@asynccontextmanager
async def cluster() -> AsyncIterator[LocalClient]:
    """A server with Lanloom's namespace."""
    engine = Engine(MemoryStorage(), now=clock, rng=random.Random(1))
    await engine.start()
    client = LocalClient(engine)
    await client.create(NAMESPACES, {"metadata": {"name": LANLOOM_NAMESPACE}})
    try:
        yield client
    finally:
        await engine.close()


async def kept(client: Client) -> Secret:
    """The Secret as it is."""
    return await client.get(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)


def trusts(authorities: bytes, certificate: bytes) -> bool:
    """Whether a client that knows these CAs accepts a certificate."""
    read = x509.load_pem_x509_certificate(certificate)
    for each in x509.load_pem_x509_certificates(authorities):
        try:
            read.verify_directly_issued_by(each)
        except (ValueError, InvalidSignature):
            continue
        return True
    return False


def play(story: Callable[[LocalClient], Awaitable[None]]) -> None:
    """Play a story in virtual time."""

    async def main() -> None:
        async with cluster() as client:
            await story(client)

    run(main())


@pytest.mark.parametrize("seed", range(20))
def test_no_certificate_is_presented_before_its_authority_is_known(seed: int) -> None:
    """Through renewals, with leaders that end and registrations that fail, API servers trust what replicas present."""
    rng = random.Random(seed)

    async def story(client: LocalClient) -> None:
        leader = credentials(client)
        first = await leader.keep()
        known = bundle_of(first).ca
        await asyncio.sleep(UNTIL_DUE)
        for _ in range(12):
            bundle = bundle_of(await leader.keep())
            assert trusts(known, bundle.certificate)
            if rng.random() < 0.3:
                leader = credentials(client)
            elif rng.random() < 0.7:
                known = bundle.ca
                leader.registered(known)
            if rng.random() < 0.2:
                await credentials(client).at_last()  # another replica starts
            await asyncio.sleep(rng.choice((1.0, SPREAD_SECONDS, CHECK_SECONDS)))
        while due((bundle := bundle_of(await leader.keep())).certificate, clock()):
            assert trusts(known, bundle.certificate)
            leader.registered(known := bundle.ca)
            await asyncio.sleep(CHECK_SECONDS)
        assert trusts(known, bundle.certificate)
        assert is_whole(bundle)
        assert path_of(await kept(client)) == path_of(first)

    play(story)


def test_a_registration_has_time_to_spread() -> None:
    """The next certificate is not in use before API servers had its CA for a while, however often the leader looks."""

    async def story(client: LocalClient) -> None:
        leader = credentials(client)
        await leader.keep()
        await asyncio.sleep(UNTIL_DUE)
        first = bundle_of(await leader.keep())
        leader.registered(first.ca)
        began = clock()
        while (found := bundle_of(await leader.keep())).certificate == first.certificate:
            leader.registered(found.ca)
            await asyncio.sleep(1.0)
        assert clock() - began >= SPREAD_SECONDS

    play(story)


def test_what_has_ended_is_replaced_at_once() -> None:
    """A certificate that no API server accepts any more, or a Secret that is gone, is replaced at the next look."""

    async def story(client: LocalClient) -> None:
        await credentials(client).keep()
        await asyncio.sleep((LIFETIME_DAYS + 1) * DAY)
        assert not due((await credentials(client).at_last()).certificate, clock())
        await client.delete(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
        assert is_whole(bundle_of(await credentials(client).keep()))

    play(story)


def test_a_certificate_for_another_name_is_the_leaders_to_replace() -> None:
    """A certificate for another name, such as one of another program, is replaced by the leader, and by no start."""

    async def story(client: LocalClient) -> None:
        await credentials(client, "other.example.com").keep()
        assert not covers((await credentials(client).at_last()).certificate, NAME)
        assert covers(bundle_of(await credentials(client).keep()).certificate, NAME)

    play(story)


def test_a_renewal_that_is_refused_leaves_the_certificate_in_use() -> None:
    """An immutable Secret serves until its end, also at the start of a replica; one warning names the remedy."""
    refusal = Invalid(422, "Invalid", "data: Forbidden: field is immutable when `immutable` is set")

    async def story(client: LocalClient) -> None:
        first = await credentials(client).keep()
        await client.patch(SECRETS, SECRET_NAME, {"immutable": True}, LANLOOM_NAMESPACE)
        await asyncio.sleep(UNTIL_DUE)
        refused = ScriptedClient(client)
        refused.fail(refusal, "patch", of=SECRETS)
        leader = credentials(refused)
        with capture_logs() as logs:
            assert await leader.at_last() == bundle_of(first)
            for _ in range(3):
                assert bundle_of(await leader.keep()) == bundle_of(first)
        (warning,) = [each for each in logs if each["log_level"] == "warning"]
        assert warning["event"] == "webhook-certificate-not-renewed"
        assert "it is immutable: delete it, and a manager makes another one" in warning["error"]
        await client.delete(SECRETS, SECRET_NAME, LANLOOM_NAMESPACE)
        assert not due(bundle_of(await leader.keep()).certificate, clock())

    play(story)


def test_a_lost_path_is_made_anew() -> None:
    """A Secret without a path keeps its certificate and gets another path."""

    async def story(client: LocalClient) -> None:
        first = await credentials(client).keep()
        spoilt = {"data": {"path": base64.b64encode(b"..").decode()}}
        await client.patch(SECRETS, SECRET_NAME, spoilt, LANLOOM_NAMESPACE)
        found = await credentials(client).keep()
        assert bundle_of(found) == bundle_of(first)
        assert path_of(found) not in ("", path_of(first))

    play(story)
