"""What the log says of an API server that is away: one line when it goes and one when it is back."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterator, MutableMapping
from contextlib import aclosing
from random import Random
from typing import Any

import pytest
import structlog
from structlog.testing import capture_logs

from lanloom.kube.controller import Controller
from lanloom.kube.election import Elector
from lanloom.kube.errors import (
    Forbidden,
    KubeError,
    SilentWatch,
    TransportError,
    Unauthorized,
    Unreachable,
    from_status,
)
from lanloom.kube.http import HttpClient
from lanloom.kube.informer import Informer
from lanloom.kube.outage import Outage
from lanloom.kube.ports import Listing, WatchEvent
from tests.harness.virtual import run
from tests.kube.feed import ThingServer
from tests.kube.server import always, serving, status_object
from tests.kube.things import THINGS, Thing

Logs = list[MutableMapping[str, Any]]
KINDS = 20


@pytest.fixture(autouse=True, scope="module")
def quiet_logs() -> Iterator[None]:
    """Lets this module's logs through, unlike those of the other modules: it is about them."""
    before = structlog.get_config()
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG))
    yield
    structlog.configure(**before)


def said(logs: Logs) -> list[tuple[str, str]]:
    """Level and event of all that is not for debugging."""
    return [(line["log_level"], line["event"]) for line in logs if line["log_level"] != "debug"]


AWAY, BACK = ("warning", "api-server-away"), ("info", "api-server-back")
STUCK = ("warning", "can't follow the resource; retrying")
FOLLOWING = ("info", "following the resource again")


def test_one_line_for_a_server() -> None:
    """However many requests fail, the log says once that the server is away, and once that it is back."""

    async def main() -> None:
        outage = Outage("https://example.org")
        outage.answered()
        for _ in range(100):
            await asyncio.sleep(0.2)
            error = Unreachable("connection refused")
            outage.failed(error, asyncio.get_running_loop().time())
            assert error.reported
        outage.answered()
        outage.answered()

    with capture_logs() as logs:
        run(main())
    assert said(logs) == [AWAY, BACK]
    assert logs[0]["server"] == logs[1]["server"] == "https://example.org"
    assert logs[0]["error"] == "connection refused"
    assert logs[1]["seconds"] == pytest.approx(19.8)


def test_a_request_that_hangs_beside_others() -> None:
    """A request that gets no answer while another one got one is no sign of a server that is away."""

    async def main() -> bool:
        outage = Outage("https://example.org")
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(10)
        outage.answered()
        await asyncio.sleep(20)
        error = Unreachable("no answer in time")
        outage.failed(error, began)
        return error.reported

    with capture_logs() as logs:
        assert not run(main())
    assert logs == []


@pytest.mark.parametrize("code", [401, 502, 503, 504])
def test_a_server_that_refuses_everything(code: int) -> None:
    """Refusals that every request gets count as an outage when nothing else was answered for some seconds."""

    async def main() -> list[bool]:
        outage, reported = Outage("https://example.org"), []
        outage.answered()
        for _ in range(5):
            await asyncio.sleep(1)
            error = from_status(code, {"message": "not now"})
            outage.refused(error, asyncio.get_running_loop().time())
            reported.append(error.reported)
        return reported

    with capture_logs() as logs:
        assert run(main()) == [False, False, True, True, True]
    assert said(logs) == [AWAY]


@pytest.mark.parametrize("code", [400, 403, 404, 409, 410, 422, 429, 500])
def test_refusals_of_one_request(code: int) -> None:
    """Any other refusal is an answer: the server is there."""

    async def main() -> bool:
        outage = Outage("https://example.org")
        outage.failed(Unreachable("refused"), asyncio.get_running_loop().time())
        error = from_status(code, {})
        outage.refused(error, asyncio.get_running_loop().time())
        return error.reported or outage.lasts

    with capture_logs() as logs:
        assert not run(main())
    assert said(logs) == [AWAY, BACK]


class Connection:
    """What HttpClient is for several informers: one server that is there or not; one kind may be refused."""

    def __init__(self, server: ThingServer) -> None:
        self.up = True
        self.refusing: Exception | None = None
        self.outage = Outage("https://example.org")
        self._server = server

    async def list(self, *arguments: Any, **options: Any) -> Listing[Thing]:
        """As the port says."""
        await self._send(options.get("labels", ""))
        return await self._server.list(*arguments, **options)

    async def watch(
        self, *arguments: Any, resource_version: str, **options: Any
    ) -> AsyncGenerator[WatchEvent[Thing], None]:
        """As the port says."""
        await self._send(options.get("labels", ""))
        stream = self._server.watch(*arguments, resource_version=resource_version, **options)
        async with aclosing(stream) as events:
            async for event in events:
                yield event

    async def get(self, *_arguments: Any, **_options: Any) -> Any:
        """As the port says; there is nothing."""
        await self._send("")
        raise Forbidden(403, "Forbidden", "no")

    create = patch = delete = get

    async def _send(self, labels: str) -> None:
        began = asyncio.get_running_loop().time()
        await asyncio.sleep(0.01)
        if not self.up:
            error = Unreachable("connection refused")
            self.outage.failed(error, began)
            raise error
        self.outage.answered()
        if labels and self.refusing is not None:
            raise self.refusing

    def down(self) -> None:
        """The server ends, and with it all watches."""
        self.up = False
        self._server.end_watches(Unreachable("connection reset"))


class Scene:
    """Informers of many kinds at one connection; the kind with labels is the one that may be refused."""

    def __init__(self) -> None:
        self.server = ThingServer(Random(1))
        self.server.put("a", "red")
        self.connection = Connection(self.server)
        self.informers: list[Informer[Thing]] = [
            Informer(
                self.connection,  # type: ignore[arg-type]
                THINGS,
                rng=Random(number),
                labels="" if number else "one=kind",
            )
            for number in range(KINDS)
        ]
        self.tasks = [asyncio.create_task(informer.run()) for informer in self.informers]


def test_many_kinds_on_a_server_that_restarts() -> None:
    """Twenty seconds without a server are two lines, whatever is followed, led and reconciled."""

    async def main() -> None:
        scene = Scene()

        async def reconcile(_key: str) -> None:
            await scene.connection.list()

        async def lead() -> None:
            raise AssertionError("nobody may lead")

        controller = Controller("test", reconcile, rng=Random(1))
        elector = Elector(
            scene.connection,  # type: ignore[arg-type]
            "default",
            "leader",
            "me",
            now=asyncio.get_running_loop().time,
            rng=Random(1),
        )
        await asyncio.sleep(70)
        scene.connection.down()
        await asyncio.sleep(0.5)
        others = [asyncio.create_task(controller.run()), asyncio.create_task(elector.run(lead))]
        controller.enqueue("a")
        await asyncio.sleep(19)
        others[1].cancel()
        scene.connection.up = True
        scene.server.put("b", "blue")
        await asyncio.sleep(60)
        assert all(len(informer.store) == 2 for informer in scene.informers)
        assert scene.server.lists == KINDS + 1

    with capture_logs() as logs:
        run(main())
    assert said(logs) == [AWAY, BACK]


@pytest.mark.parametrize(
    "refusing",
    [Forbidden(403, "Forbidden", "no"), TransportError("the server sent a list that can't be read")],
    ids=repr,
)
def test_one_kind_in_trouble(refusing: Exception) -> None:
    """What one kind alone meets is said once, not at every try, and so is its end."""

    async def main() -> None:
        scene = Scene()
        await asyncio.sleep(70)
        for _ in range(2):
            scene.connection.refusing = refusing
            scene.server.end_watches(Unreachable("connection reset"))
            await asyncio.sleep(3600)
            scene.connection.refusing = None
            await asyncio.sleep(300)

    with capture_logs() as logs:
        run(main())
    assert said(logs) == [STUCK, FOLLOWING, STUCK, FOLLOWING]


def test_another_trouble_of_one_kind() -> None:
    """A kind that is refused for another reason is said again, with that reason."""

    async def main() -> None:
        scene = Scene()
        scene.connection.refusing = Forbidden(403, "Forbidden", "no role")
        await asyncio.sleep(600)
        scene.connection.refusing = Unauthorized(401, "Unauthorized", "no user")
        await asyncio.sleep(600)

    with capture_logs() as logs:
        run(main())
    assert said(logs) == [STUCK, STUCK]
    assert [str(line["error"])[:7] for line in logs if line["log_level"] == "warning"] == [
        "no role",
        "no user",
    ]


def test_watches_that_are_cut() -> None:
    """A watch that breaks now and then, and goes on at the next try, is nothing to warn about."""

    async def main() -> None:
        scene = Scene()
        for _ in range(30):
            await asyncio.sleep(20)
            scene.server.end_watches(Unreachable("connection reset"))

    with capture_logs() as logs:
        run(main())
    assert said(logs) == []


class Mute(ThingServer):
    """A server without bookmarks, whose watches end after `lasting` seconds of silence: by itself, or by the client."""

    def __init__(self, lasting: float, error: KubeError | None) -> None:
        super().__init__(Random(1))
        self._lasting = lasting
        self._error = error

    async def watch(
        self, *_resource: Any, resource_version: str, **_selectors: Any
    ) -> AsyncGenerator[WatchEvent[Thing], None]:
        """As the port says."""
        stream = super().watch(resource_version=resource_version)
        async with aclosing(stream) as events:
            try:
                while True:
                    event = await asyncio.wait_for(anext(events), self._lasting)
                    if event.type != "BOOKMARK":
                        yield event
            except TimeoutError:
                if self._error is not None:
                    raise self._error from None


@pytest.mark.parametrize("error", [None, SilentWatch("silent")], ids=["ended", "given up"])
def test_a_silent_kind(error: KubeError | None) -> None:
    """A kind without events and bookmarks is listed once; its watch is resumed at once, without a warning."""

    async def main() -> None:
        server = Mute(50, error)
        server.put("a", "red")
        informer: Informer[Thing] = Informer(server, THINGS, rng=Random(1))  # type: ignore[arg-type]
        task = asyncio.create_task(informer.run())
        await asyncio.sleep(7200)
        assert server.lists == 1
        assert 7200 / 52 < len(server.watches) < 7200 / 50 + 1
        assert len(set(server.watches)) == 1
        assert error is not None or informer.silence < 60
        server.put("a", "green")
        await asyncio.sleep(2)
        assert [item.colour for item in informer.store.items()] == ["green"]
        task.cancel()

    with capture_logs() as logs:
        run(main())
    assert said(logs) == []


async def test_http_tells_of_an_outage() -> None:
    """A client over HTTP reports a server that is not there once, and that it is back with its next answer."""
    with capture_logs() as logs:
        async with serving(always({"metadata": {}, "items": []})) as server:
            config = server.config()
            outage = Outage(config.server)
            client = HttpClient(config, outage=outage)
            await client.list(THINGS)
        for _ in range(3):
            with pytest.raises(Unreachable) as failure:
                await client.list(THINGS)
            assert failure.value.reported
        assert outage.lasts
        assert said(logs) == [AWAY]
        await client.close()


async def test_http_tells_of_an_answer() -> None:
    """Any answer that is for one request ends an outage, a refusal too."""
    with capture_logs() as logs:
        async with serving(always(status_object(403, "Forbidden"), 403)) as server:
            outage = Outage(server.url)
            outage.failed(Unreachable("refused"), asyncio.get_running_loop().time())
            async with HttpClient(server.config(), outage=outage) as client:
                with pytest.raises(Forbidden):
                    await client.list(THINGS)
    assert said(logs) == [AWAY, BACK]


async def test_http_without_an_outage_says_nothing() -> None:
    """The client of a command leaves it to the command to say that there is no server."""
    async with serving(always({})) as server:
        config = server.config()
    with capture_logs() as logs:
        async with HttpClient(config) as client:
            with pytest.raises(Unreachable) as failure:
                await client.list(THINGS)
    assert not failure.value.reported
    assert logs == []
