"""What a client costs that is unknown, or that takes more than its share."""

import asyncio
import gc
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest

from lanloom_embedded.authz import MASTERS
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.front.app import ApiServer
from lanloom_embedded.front.authentication import user
from lanloom_embedded.front.exchange import Exchange
from lanloom_embedded.front.rendering import negotiate
from tests.embedded.engine.running import until
from tests.embedded.front.browser import Answer, Browser, browsing

MAPS = "/api/v1/namespaces/default/configmaps"


LONG = 50_000
ASKED = 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("url", "accept"),
    [
        ("/healthz?{text}", ""),
        ("/{text}", ""),
        (MAPS + "?{text}", ""),
        (MAPS + "/{text}", ""),
        ("/version", "application/json;{text}"),
    ],
    ids=["query", "path", "query of a resource", "name", "accept"],
)
async def test_nothing_of_a_stranger_is_kept(url: str, accept: str) -> None:
    """A client without credentials leaves nothing in the server's memory, whatever it asks for."""
    async with browsing() as browser:

        async def ask(number: int) -> None:
            text = f"{number}{'x' * LONG}"
            await browser.request("GET", url.format(text=text), token="", accept=accept.format(text=text))

        await ask(-1)
        tracemalloc.start()
        try:
            for number in range(ASKED):
                await ask(number)
            gc.collect()
            kept, _ = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert kept < ASKED * LONG / 10


async def test_a_query_is_not_parsed_for_whoever_may_not_come_in() -> None:
    """A request with a bad token is refused before its query is looked at; too many parameters are a bad request."""
    async with browsing() as browser:
        many = "&".join(f"a{number}=b" for number in range(300))
        assert (await browser.request("GET", f"{MAPS}?{many}", token="unknown")).status == 401
        refused = await browser.request("GET", f"{MAPS}?{many}")
        assert (refused.status, "more than 256 parameters" in refused.json["message"]) == (400, True)


def test_long_headers_are_read_like_short_ones() -> None:
    """The form of an answer does not depend on the length of the header that asks for it."""
    assert negotiate("application/yaml, " + "x" * 1000) == negotiate("application/yaml")


async def test_a_user_has_a_share_of_watches() -> None:
    """A user at the limit of open watches is refused, others are served, and an end makes room."""
    async with browsing() as browser:
        few = Few(browser.engine)
        first, second = (few.start("GET", f"{MAPS}?watch=1") for _ in range(2))
        await until(lambda: first[0].status == second[0].status == 200)
        refused = await few.request("GET", f"{MAPS}?watch=1")
        assert (refused.status, refused.json["reason"]) == (429, "TooManyRequests")
        assert 'user "root" has 2 watches open' in refused.json["message"]
        assert ("retry-after", "10") in refused.headers
        assert (await few.request("GET", MAPS)).status == 200
        other, other_task, other_left = few.start("GET", f"{MAPS}?watch=1", token="other")
        await until(lambda: other.status == 200)
        other_left.set()
        first[2].set()
        await asyncio.gather(first[1], other_task)
        third, task, left = few.start("GET", f"{MAPS}?watch=1")
        await until(lambda: third.status == 200)
        for event in (left, second[2]):
            event.set()
        await asyncio.gather(task, second[1])


class Few(Browser):
    """A browser of a server with two watches a user."""

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine)
        users = {name: user(name, "", (MASTERS,)) for name in ("root", "other")}
        self.app = ApiServer(
            engine, users.get, now=lambda: 0.0, rng=self.rng, version="test", watches_per_user=2
        )


async def test_a_body_that_breaks_off_is_not_taken_for_a_whole_one() -> None:
    """When a client leaves in the middle of a body, nothing is written, though what came would be an object."""
    async with browsing() as browser:
        messages: list[Mapping[str, Any]] = [
            {"type": "http.request", "body": b"metadata: {name: a}\ndata:\n  k: v\n", "more_body": True},
            {"type": "http.disconnect"},
        ]

        async def receive() -> Mapping[str, Any]:
            return messages.pop(0)

        answer = Answer()
        scope = browser.scope("POST", MAPS, content_type="application/yaml")
        await browser.app(scope, receive, answer.take)
        assert answer.status == 0
        assert (await browser.request("GET", MAPS)).json["items"] == []


async def test_large_answers_go_out_in_slices() -> None:
    """Between two slices of an answer the client is waited for, so that a slow one costs little memory."""
    sent: list[Mapping[str, Any]] = []

    async def take(message: Mapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.disconnect"}

    scope = {"method": "GET", "path": "/", "query_string": b"", "headers": []}
    body = bytes(range(256)) * 1000
    await Exchange(scope, receive, take).answer(body)
    assert b"".join(message["body"] for message in sent[1:]) == body
    assert max(len(message["body"]) for message in sent[1:]) == 64 * 1024
    assert [message.get("more_body", False) for message in sent[1:]] == [True, True, True, False]


async def test_events_are_not_made_for_a_client_that_is_gone() -> None:
    """A watch that ends in the middle of a large backlog makes no more of it."""
    async with browsing() as browser:
        for number in range(10):
            body = {"metadata": {"name": f"a{number}"}, "data": {"k": "x" * 100_000}}
            assert (await browser.request("POST", MAPS, body)).status == 201
        left, sent = asyncio.Event(), 0

        async def receive() -> Mapping[str, Any]:
            await left.wait()
            return {"type": "http.disconnect"}

        async def take(message: Mapping[str, Any]) -> None:
            nonlocal sent
            sent += len(message.get("body", b""))
            if sent:
                left.set()
                for _ in range(10):
                    await asyncio.sleep(0)

        await browser.app(browser.scope("GET", f"{MAPS}?watch=1&labelSelector=a!=b"), receive, take)
        assert 0 < sent < 300_000
