"""Shares of a server: turns of the decoding thread, and bytes of bodies, for each user."""

import asyncio
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.runtime.https.errors import TooManyRequests
from lanloom.runtime.https.shares import INLINE_BYTES, Share, Shares
from tests.embedded.front.browser import USERS, Answer, Browser, browsing

LONG = b"x" * (INLINE_BYTES + 1)


class Thread:
    """Readers that stop at a gate, and note in which order they ran."""

    def __init__(self) -> None:
        self.gate = threading.Event()
        self.ran: list[str] = []

    def reader(self, name: str) -> Callable[[bytes], str]:
        """A reader of that name."""

        def read(_body: bytes) -> str:
            self.gate.wait()
            self.ran.append(name)
            return name

        return read


async def decoding(share: Share, reader: Callable[[bytes], str]) -> "asyncio.Task[str]":
    """A task that has asked for its turn."""
    task = asyncio.create_task(share.decoded(reader, LONG))
    await asyncio.sleep(0)
    return task


async def test_another_user_waits_for_one_body() -> None:
    """However many long bodies of one user wait, another one's is decoded after the one that is in progress."""
    shares, thread = Shares(), Thread()
    tasks = [await decoding(Share(shares, "many"), thread.reader("many")) for _ in range(30)]
    tasks.append(await decoding(Share(shares, "few"), thread.reader("few")))
    thread.gate.set()
    await asyncio.gather(*tasks)
    assert thread.ran[:2] == ["many", "few"]


async def test_users_take_turns() -> None:
    """Each user that waits has one body decoded before any has a second one."""
    shares, thread = Shares(), Thread()
    names = [name for name in "abcd" for _ in range(5)]
    tasks = [await decoding(Share(shares, name), thread.reader(name)) for name in names]
    thread.gate.set()
    await asyncio.gather(*tasks)
    assert thread.ran == ["a", *"bcda" * 4, *"bcd"][: len(names)]


async def test_a_user_with_many_waiting_is_refused() -> None:
    """One body more than may wait is refused with the time to wait; other users are not, nor is it afterwards."""
    shares, thread = Shares(waiting=3), Thread()
    tasks = [await decoding(Share(shares, "many"), thread.reader("many")) for _ in range(4)]
    with pytest.raises(TooManyRequests, match="3 long bodies of this user wait") as refused:
        await Share(shares, "many").decoded(thread.reader("many"), LONG)
    assert refused.value.details == {"retryAfterSeconds": 1}
    tasks.append(await decoding(Share(shares, "few"), thread.reader("few")))
    thread.gate.set()
    await asyncio.gather(*tasks)
    assert await Share(shares, "many").decoded(thread.reader("many"), LONG) == "many"


async def test_errors_and_cancelled_requests_hold_nobody_up() -> None:
    """A body that can't be read fails for its request alone; one whose request was cancelled is not read."""
    shares, thread = Shares(), Thread()
    first = await decoding(Share(shares, "a"), thread.reader("first"))
    wrong = asyncio.create_task(Share(shares, "a").decoded(lambda body: body[len(body)], LONG))
    await asyncio.sleep(0)
    cancelled = await decoding(Share(shares, "a"), thread.reader("cancelled"))
    last = await decoding(Share(shares, "a"), thread.reader("last"))
    cancelled.cancel()
    thread.gate.set()
    assert (await first, await last) == ("first", "last")
    with pytest.raises(IndexError):
        await wrong
    assert thread.ran == ["first", "last"]


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(1, 3 << 20)), max_size=200))
def test_bytes_are_bounded_and_there_is_room_for_another(taken: list[tuple[str, int]]) -> None:
    """All users together stay in the bound, one alone has at most a third, and another always has room for a body."""
    total = 96 << 20
    shares, held = Shares(total), dict.fromkeys("abcdefgh", 0)
    for user, count in taken:
        try:
            shares.take(user, count)
            held[user] += count
        except TooManyRequests:
            assert held[user] + count > 3 << 20
    assert max(held.values()) <= total // 3
    assert sum(held.values()) <= total
    shares.take("another", 3 << 20)


def test_bytes_come_back_with_the_end_of_a_request() -> None:
    """What requests held is free when they ended, however they ended."""
    shares = Shares(9)
    for _ in range(10):
        with pytest.raises(TooManyRequests, match="too large together"), shares.of("a") as share:
            share.take(2)
            share.take(1)
            share.take(1)


YAML = b"apiVersion: authorization.k8s.io/v1\nkind: SelfSubjectAccessReview\nspec: {}\nstatus:\n" + b"".join(
    b"  a%d: b\n" % number for number in range(2000)
)


async def test_one_users_bodies_keep_no_other_write_waiting() -> None:
    """Of 120 long bodies of one user those beyond his share get 429, and another one's write comes right after."""
    reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    ended: list[str] = []

    def ask(browser: Browser, name: str, url: str, body: bytes) -> "asyncio.Task[None]":
        _answer, task, _ = browser.start("POST", url, body, token=name, content_type="application/yaml")
        answers.append(_answer)
        task.add_done_callback(lambda _: ended.append(f"{name} {_answer.status}"))
        return task

    async with browsing() as browser:
        answers: list[object] = []
        assert {"alice", "root"} <= set(USERS)
        tasks = [ask(browser, "alice", reviews, YAML) for _ in range(120)]
        await asyncio.sleep(0)
        write = b"metadata: {name: a}\ndata: {a: '%s'}" % LONG
        tasks.append(ask(browser, "root", "/api/v1/namespaces/default/configmaps", write))
        await asyncio.gather(*tasks)
    assert ended.index("root 201") - ended.count("alice 429") <= 3
    assert (ended.count("alice 429"), ended.count("alice 201")) == (120 - 33, 33)


@pytest.mark.parametrize("token", ["", "nobody", "alice"])
async def test_a_body_is_read_after_rights_are_asked(token: str) -> None:
    """Of an unknown user, or one that may not write, no byte of a body is read."""

    async def receive() -> None:
        raise AssertionError("the body was read")

    async with browsing() as browser:
        answer = Answer()
        scope = browser.scope("POST", "/api/v1/namespaces/default/configmaps", token=token)
        await browser.app(scope, receive, answer.take)
        assert answer.status in (401, 403)
