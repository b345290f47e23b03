"""Questions that are passed on to pods: to which ones, to which ports, and who may ask."""

import pytest
from aiohttp import web

from lanloom.kube.errors import TransportError
from lanloom_embedded import client
from lanloom_embedded.client import fetch
from lanloom_embedded.front.app import ApiServer
from lanloom_embedded.front.proxy import Answer
from tests.embedded.engine.running import NOW
from tests.embedded.front.browser import Browser, browsing

PODS = "/api/v1/namespaces/default/pods"
ROLES = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
MERGE = "application/merge-patch+json"
POD = {"metadata": {"name": "agent"}}
PORTS = [{"containerPort": 9811}, {"containerPort": 9812}]


class Wire:
    """What pods were asked; they answer, or none does."""

    def __init__(self, browser: Browser) -> None:
        self.asked: list[str] = []
        self.error: Exception | None = None
        browser.app = ApiServer(
            browser.engine, browser.users.get, now=lambda: NOW, rng=browser.rng, version="test", get=self.get
        )

    async def get(self, url: str) -> Answer:
        """Answer with another code than 200."""
        self.asked.append(url)
        if self.error is not None:
            raise self.error
        return Answer(203, "text/plain", b"a 1\n")


async def wired(browser: Browser, address: str = "10.9.8.7") -> Wire:
    """A pod with an address and two ports."""
    spec = {"containers": [{"name": "a", "image": "i"}, {"name": "b", "image": "i", "ports": PORTS}]}
    assert (await browser.request("POST", PODS, POD | {"spec": spec})).status == 201
    status = {"status": {"podIP": address}}
    assert (await browser.request("PATCH", f"{PODS}/agent/status", status, content_type=MERGE)).status == 200
    return Wire(browser)


async def test_a_pod_is_asked() -> None:
    """The answer is the pod's, with its code; the port is one that the pod names, or else its first one."""
    async with browsing() as browser:
        wire = await wired(browser)
        answer = await browser.request("GET", f"{PODS}/agent:9812/proxy/metrics?x=1", authorization2="x")
        assert (answer.status, answer.text, dict(answer.headers)["content-type"]) == (
            203,
            "a 1\n",
            "text/plain",
        )
        await browser.request("GET", f"{PODS}/agent/proxy/a%20b/c?d")
        await browser.request("GET", f"{PODS}/agent/proxy")
        assert wire.asked == [
            "http://10.9.8.7:9812/metrics",
            "http://10.9.8.7:9811/a%20b/c",
            "http://10.9.8.7:9811/",
        ]


@pytest.mark.parametrize(
    "address",
    [
        "",
        "127.0.0.1",
        "::1",
        "::ffff:127.0.0.1",
        "169.254.169.254",
        "fe80::1",
        "224.0.0.1",
        "ff02::1",
        "0.0.0.0",
        "::",
        "255.255.255.255",
    ],
)
async def test_addresses_that_nobody_may_be_sent_to(address: str) -> None:
    """A pod can't make the server ask its own machine, its link or a group."""
    async with browsing() as browser:
        wire = await wired(browser, address)
        answer = await browser.request("GET", f"{PODS}/agent/proxy/metrics")
        assert (answer.status, answer.json["message"], wire.asked) == (400, "address not allowed", [])


@pytest.mark.parametrize("port", ["1", "9811@host", "09811", "9811:1", "http"])
async def test_ports_that_the_pod_does_not_name(port: str) -> None:
    """Only ports that a container names are asked."""
    async with browsing() as browser:
        wire = await wired(browser)
        answer = await browser.request("GET", f"{PODS}/agent:{port}/proxy/metrics")
        assert (answer.status, wire.asked) == (400, [])


async def test_what_can_not_be_asked() -> None:
    """Other verbs, kinds and pods that are not there are refused; a pod that does not answer is a 503."""
    async with browsing() as browser:
        wire = await wired(browser)
        for method, path, status in (
            ("POST", f"{PODS}/agent/proxy/metrics", 405),
            ("DELETE", f"{PODS}/agent/proxy/metrics", 405),
            ("GET", f"{PODS}/none/proxy/metrics", 404),
            ("GET", "/api/v1/nodes/n1/proxy/metrics", 404),
            ("GET", "/api/v1/namespaces/default/services/s/proxy/x", 404),
        ):
            assert (await browser.request(method, path)).status == status, path
        assert wire.asked == []
        wire.error = TransportError("refused")
        answer = await browser.request("GET", f"{PODS}/agent/proxy/metrics")
        assert (answer.status, answer.json["reason"]) == (503, "ServiceUnavailable")
        assert answer.json["message"] == "error trying to reach service: refused"


async def test_who_may_ask() -> None:
    """It takes the right to get pods/proxy, and that to read pods is not enough; no token goes on to the pod."""
    async with browsing() as browser:
        wire = await wired(browser)
        subject = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "r"}
        binding = {"metadata": {"name": "r"}, "roleRef": role, "subjects": [subject]}
        rule = {"apiGroups": [""], "resources": ["pods", "pods/status"], "verbs": ["*"]}
        await browser.request("POST", f"{ROLES}/roles", {"metadata": {"name": "r"}, "rules": [rule]})
        await browser.request("POST", f"{ROLES}/rolebindings", binding)
        path = f"{PODS}/agent:9811/proxy/metrics"
        assert (await browser.request("GET", path, token="alice")).status == 403
        assert wire.asked == []
        rule["resources"] = ["pods/proxy"]
        await browser.request("PATCH", f"{ROLES}/roles/r", {"rules": [rule]}, content_type=MERGE)
        assert (await browser.request("GET", path, token="alice")).status == 203
        assert (await browser.request("GET", f"{PODS}/agent", token="alice")).status == 403


async def test_over_the_wire(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is sent has no credentials, a redirection is not followed, and a long answer is refused."""
    heard: list[set[str]] = []

    async def answer(request: web.Request) -> web.Response:
        heard.append({name.lower() for name in request.headers})
        if request.path == "/away":
            return web.Response(status=302, headers={"location": "/long"})
        return web.Response(text="x" * 100)

    app = web.Application()
    app.router.add_get("/{path}", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        server = f"http://127.0.0.1:{runner.addresses[0][1]}"
        assert await fetch(f"{server}/long") == Answer(200, "text/plain", b"x" * 100)
        assert (await fetch(f"{server}/away")).code == 302
        assert len(heard) == 2 and "authorization" not in heard[0]
        monkeypatch.setattr(client, "MOST_BYTES", 99)
        with pytest.raises(TransportError, match="more than"):
            await fetch(f"{server}/long")
    finally:
        await runner.cleanup()
    with pytest.raises(TransportError):
        await fetch(f"{server}/long")
