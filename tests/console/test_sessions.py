"""Sessions and one-time links."""

import asyncio
import base64

import msgspec
import pytest
from msgspec.structs import replace

from lanloom.api.lan import LANS
from lanloom.api.multus import NADS
from lanloom.console import sessions as module
from lanloom.console.sessions import IDLE_SECONDS, LONGEST_SECONDS, ONCE_SECONDS, Sessions
from lanloom.kube.config import ClusterConfig
from lanloom.kube.errors import KubeError, Unauthorized

CONFIG = ClusterConfig(server="http://127.0.0.1:1", token="secret")


class Clock:
    """A clock that a test moves."""

    def __init__(self) -> None:
        self.at = 1000.0

    def __call__(self) -> float:
        return self.at


def test_a_link_works_once_and_soon() -> None:
    """A link is good for one session, and for no other after its time."""
    clock = Clock()
    made = Sessions(clock)
    first, second = made.link(CONFIG), made.link(CONFIG)
    assert made.redeem(first) == CONFIG
    assert made.redeem(first) is None and made.redeem("guessed") is None
    clock.at += ONCE_SECONDS + 1
    assert made.redeem(second) is None


async def test_a_session_ends_when_it_is_idle_or_old() -> None:
    """A session ends an hour after its last use, not while a stream follows a page, and after half a day at all."""
    clock = Clock()
    made = Sessions(clock)
    idle, watching = await made.open(CONFIG), await made.open(CONFIG)
    session = made.find(watching)
    assert session is not None
    session.streams = 1
    clock.at += IDLE_SECONDS + 1
    assert made.find(idle) is None and made.find(watching) is not None
    clock.at += LONGEST_SECONDS
    await made.expire()
    assert made.find(watching) is None


async def test_the_session_idle_longest_makes_room() -> None:
    """There is a limit to sessions; the one that was used least recently ends for a new one."""
    clock = Clock()
    made = Sessions(clock)
    opened = []
    for _ in range(module.MOST_SESSIONS):
        clock.at += 1
        opened.append(await made.open(CONFIG))
    clock.at += 1
    assert made.find(opened[0]) is not None
    await made.open(CONFIG)
    assert made.find(opened[0]) is not None and made.find(opened[1]) is None
    await made.close_all()
    assert made.find(opened[0]) is None


def _token(user: str, number: int) -> ClusterConfig:
    payload = msgspec.json.encode({"iss": "cluster", "sub": user, "jti": str(number)})
    return replace(CONFIG, token=f"e30.{base64.urlsafe_b64encode(payload).decode().rstrip('=')}.sig")


async def test_a_user_with_many_tokens_ends_no_session_of_others() -> None:
    """Of more sessions than there may be, those of the user with the most end, by whatever tokens they began."""
    clock = Clock()
    made = Sessions(clock)
    others = [
        await made.open(config) for config in (CONFIG, _token("alice", 1), replace(CONFIG, token="a.b.c"))
    ]
    for number in range(2 * module.MOST_SESSIONS):
        clock.at += 1
        last = await made.open(_token("mallory", number))
    assert all(made.find(name) is not None for name in (*others, last))


@pytest.mark.parametrize(
    ("token", "user"),
    [
        (_token("bob", 1).token, "cluster bob"),
        ("opaque", "opaque"),
        ("", ""),
        ("a.b.c", "a.b.c"),
        ("e30.e30.e30", "e30.e30.e30"),
        ("a.\u00e4.c", "a.\u00e4.c"),
    ],
)
def test_whose_a_token_is(token: str, user: str) -> None:
    """The user of a token is the one that it names; of one that names none, itself."""
    assert module.user_of(replace(CONFIG, token=token)) == user


async def test_what_is_under_way_ends_with_its_session() -> None:
    """A page that waits for a server when its session ends gets an error, and nothing is followed for it any more."""
    silent = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    async with silent:
        made = Sessions(Clock())
        port = silent.sockets[0].getsockname()[1]
        identifier = await made.open(ClusterConfig(server=f"http://127.0.0.1:{port}", token="secret"))
        session = made.find(identifier)
        assert session is not None
        waiting = asyncio.create_task(session.reader.list(LANS))
        await asyncio.sleep(0)
        await made.close(identifier)
        with pytest.raises(KubeError, match="not followed any more"):
            await asyncio.wait_for(waiting, 20)
        with pytest.raises(Unauthorized):
            await session.reader.list(NADS)
