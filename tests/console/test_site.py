"""The console in front of a cluster: who sees what, what a browser is sent, and what changes by itself."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from lanloom.api.clusternetworknode import CLUSTER_NETWORK_NODES
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINES
from lanloom.api.lan import LANS
from lanloom.console.sessions import MOST_STREAMS
from lanloom.features.vlan.rules.rollout.stages import PROGRESSING, ROLLED_OUT, STOPPED
from tests.console.site import TENANT, Site, read, read_until, site

pytestmark = pytest.mark.slow

MENU = (
    "/",
    "/nodes",
    "/cluster-networks",
    "/networks",
    "/pools",
    "/isolated",
    "/lans",
    "/machines",
    "/changes",
    "/plan",
)
HOSTILE = "<script>alert(1)</script>"


async def lan(made: Site, namespace: str, name: str, vni: int) -> None:
    """Makes a LAN."""
    spec = {"ns": name, "bridge": "br0", "vxlan": "vx0", "vni": vni, "grp": "ff05::100", "port": 8472}
    spec |= {"defaultVxlanDev": "eth1", "spokes": ["web"]}
    body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
    await made.admin.create(LANS, body, namespace)


async def test_every_page_is_there_and_names_its_command(tmp_path: Path) -> None:
    """Every page of the menu answers in an empty cluster, and names the command that prints the same."""
    async with site(tmp_path) as made, made.browser() as browser:
        for path in MENU:
            assert "<code>" in await read(browser, path)
        assert "There is no network yet" in await read(browser, "/")
        for path in ("/nowhere", "/lans/ours/none", "/pools/none", "/isolated/none", "/networks/ours/none"):
            assert "There is nothing here" in await read(browser, path, 404)
        for path in ("/lans/ours/..%2f..", "/pools/A", "/lans?namespace=../x"):
            await read(browser, path, 404)


async def test_a_network_that_cannot_be_read_hides_no_other(tmp_path: Path) -> None:
    """A network that was written past the webhooks is named with its fault next to the others, and has a page."""
    async with site(tmp_path) as made, made.browser() as browser:
        for name, cidr in (("good", "192.0.2.0/24"), ("broken", "192.0.2.0/33")):
            body = {"metadata": {"name": name}, "spec": {"subnets": [{"cidr": cidr}]}}
            await made.admin.create(NETWORKS, body)
        page = await read(browser, "/pools")
        assert 'href="/pools/good"' in page and "Network broken: spec.subnets[0].cidr" in page
        assert "broken" in await read(browser, "/pools/broken")


async def test_what_is_not_ready_comes_first_with_its_reason(tmp_path: Path) -> None:
    """The first page shows what no manager has looked at, with reason and remedy, and links to its page."""
    async with site(tmp_path) as made, made.browser() as browser:
        await made.admin.create(CLUSTER_NETWORKS, {"metadata": {"name": "cluster-1"}})
        await lan(made, "ours", "blue", 4711)
        page = await read(browser, "/")
        assert "2 things are not ready" in page and "check that one runs" in page
        assert 'href="/cluster-networks/cluster-1"' in page and 'href="/lans/ours/blue"' in page
        assert "blue" in await read(browser, "/lans/ours/blue")
        assert "Nothing here has the words “green”" in await read(browser, "/lans?q=green")


async def test_roll_outs_are_on_the_first_page(tmp_path: Path) -> None:
    """A roll-out that goes on is under way, one that has stopped is not ready and says why; neither hides a fault."""
    async with site(tmp_path) as made, made.browser() as browser:
        for name, reason, fault in (
            ("goes-on", PROGRESSING, ""),
            ("stopped", STOPPED, "NoCarrier"),
            ("beside-a-fault", PROGRESSING, "NoCarrier"),
            ("beside-a-change", PROGRESSING, "Configuring"),
        ):
            finding = {
                "type": ROLLED_OUT,
                "status": "False",
                "reason": reason,
                "message": f"at node 1: {name}",
            }
            body = {"metadata": {"name": name}, "status": {"conditions": [finding]}}
            await made.admin.create(CLUSTER_NETWORKS, body)
            if fault:
                ready = {"type": "ready", "status": "False", "reason": fault, "message": "because"}
                status = {"node": "node1", "clusterNetwork": name, "conditions": [ready]}
                await made.admin.create(CLUSTER_NETWORK_NODES, {"metadata": {"name": name}})
                await made.admin.patch(CLUSTER_NETWORK_NODES, name, {"status": status}, subresource="status")
        page = await read_until(browser, "/", "Under way")
        bad, _, busy = page.partition("Under way")
        assert "2 things are not ready" in bad and "Stopped</span> at node 1: stopped" in bad
        assert "NoCarrier</span> beside-a-fault on node1: because" in bad
        assert "at node 1: goes-on" in busy and "at node 1: beside-a-change" in busy


async def machine(made: Site, namespace: str, name: str) -> None:
    """Makes a machine."""
    spec = {"template": {"spec": {"domain": {"devices": {}}, "networks": []}}}
    body = {"metadata": {"name": name, "namespace": namespace}, "spec": spec}
    await made.admin.create(VIRTUAL_MACHINES, body, namespace)


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
async def test_a_user_sees_what_he_may_read_and_nothing_else(tmp_path: Path, shared: bool) -> None:
    """A user of one namespace sees its objects, and of others neither names nor numbers, by page and by stream."""
    async with site(tmp_path, shared=shared) as made, made.browser(TENANT) as browser:
        if shared:
            async with made.browser() as other:
                await read(other, "/")  # the console follows all of it for the administrator
        await machine(made, "ours", "web")
        await machine(made, "theirs", "secret")
        await lan(made, "theirs", "secret", 4712)
        for path in (
            "/lans",
            "/lans/theirs/secret",
            "/machines",
            "/machines?namespace=theirs",
            "/machines/theirs/secret",
        ):
            page = await read(browser, path, 403)
            assert "You may not see this" in page and page.count("secret") == path.count("secret")
        assert "for that right, or enter one of your namespaces in the filter<" in await read(
            browser, "/lans", 403
        )
        assert "for that right<" in await read(browser, "/pools", 403)
        page = await read_until(browser, "/machines?namespace=ours", "web")
        assert "secret" not in page
        assert "web" in await read(browser, "/machines/ours/web")
        for path in ("/", "/?namespace=ours", "/?namespace=theirs"):
            assert "secret" not in await read(browser, path)
        async with browser.get("/live", params={"page": "/machines?namespace=ours"}) as answer:
            first = (await asyncio.wait_for(answer.content.readuntil(b"\n\n"), 20)).decode()
        assert "web" in first and "secret" not in first


async def test_nobody_is_let_in_without_rights(tmp_path: Path) -> None:
    """Without a session there is a form; a wrong token, a used link, and another site's form are refused."""
    async with site(tmp_path) as made, made.browser() as browser:
        secret = made.sessions.link(made.config)
        browser.cookie_jar.clear()
        assert "<h1>Log in</h1>" in await read(browser, "/lans")
        async with browser.get("/live", params={"page": "/"}) as answer:
            assert answer.status == 401
        async with browser.post("/login", data={"token": "guessed"}) as answer:
            assert answer.status == 403 and "does not know this token" in await answer.text()
        async with browser.post(
            "/login", data={"token": TENANT}, headers={"origin": "http://other"}
        ) as answer:
            assert answer.status == 403
        async with browser.get("/", headers={"host": "attacker.example"}) as answer:
            assert answer.status == 403
        for status in (200, 403):
            browser.cookie_jar.clear()
            async with browser.get("/login", params={"once": secret}) as answer:
                assert answer.status == status
        async with made.browser() as other:
            await read(other, "/lans")
            async with other.post("/logout") as answer:
                assert "<h1>Log in</h1>" in await answer.text()
            assert "<h1>Log in</h1>" in await read(other, "/lans")


@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
async def test_a_stream_ends_with_its_session(tmp_path: Path, shared: bool) -> None:
    """Who has logged out gets no more of a page that is open, by whatever identity its kinds are followed."""
    async with (
        site(tmp_path, shared=shared) as made,
        made.browser() as browser,
        browser.get("/live", params={"page": "/lans"}) as answer,
    ):
        await asyncio.wait_for(answer.content.readuntil(b"\n\n"), 20)
        async with browser.post("/logout"):
            await lan(made, "ours", "blue", 4711)
        assert await asyncio.wait_for(answer.content.read(), 20) == b""


async def test_a_session_has_a_limit_of_streams(tmp_path: Path) -> None:
    """However many pages a browser opens at the same moment, few of them are followed."""
    async with site(tmp_path) as made, made.browser() as browser, AsyncExitStack() as stack:
        (cookie,) = browser.cookie_jar
        session = made.sessions.find(cookie.value)
        assert session is not None

        async def follow() -> bytes:
            answer = await stack.enter_async_context(browser.get("/live", params={"page": "/lans"}))
            return await answer.content.readany()

        found = await asyncio.gather(*(follow() for _ in range(3 * MOST_STREAMS)))
        assert sum(b"event: page" in first for first in found) == session.streams == MOST_STREAMS


async def test_a_browser_is_told_to_run_nothing_else(tmp_path: Path) -> None:
    """Every answer forbids scripts, frames and forms of others and is kept by no cache; the cookie is no script's."""
    async with site(tmp_path) as made, made.browser() as browser:
        (cookie,) = browser.cookie_jar
        assert cookie["httponly"] and cookie["samesite"] == "strict"
        for path in (*MENU, "/nowhere", "/static/console.js", "/static/console.css"):
            async with browser.get(path) as answer:
                policy = answer.headers["content-security-policy"]
                assert "default-src 'self'" in policy and "unsafe" not in policy
                assert answer.headers["x-content-type-options"] == "nosniff"
                text = await answer.text()
                assert "<style" not in text and " style=" not in text and " onclick=" not in text


async def test_names_that_hate_us_are_text(tmp_path: Path) -> None:
    """Markup in messages, names and words to look for is shown as text."""
    async with site(tmp_path) as made, made.browser() as browser:
        await machine(made, "ours", "web")
        condition = {"type": "RestartRequired", "status": "True", "reason": "X", "message": HOSTILE}
        await made.admin.patch(
            VIRTUAL_MACHINES, "web", {"status": {"conditions": [condition]}}, "ours", subresource="status"
        )
        for path in ("/", "/machines", "/machines/ours/web"):
            page = await read(browser, path)
            assert HOSTILE not in page
        assert HOSTILE not in await read(browser, f"/machines?q={HOSTILE}&namespace=ours")
        async with browser.get("/machines", params={"namespace": HOSTILE}) as answer:
            assert HOSTILE not in await answer.text()


async def test_a_change_is_on_the_page_soon(tmp_path: Path) -> None:
    """A stream sends the page, sends it again after a change, and says that it lives while nothing changes."""
    async with (
        site(tmp_path) as made,
        made.browser() as browser,
        browser.get("/live", params={"page": "/lans"}) as answer,
    ):
        first = await asyncio.wait_for(answer.content.readuntil(b"\n\n"), 20)
        assert b"event: page" in first and b"blue" not in first
        await lan(made, "ours", "blue", 4711)
        async with asyncio.timeout(60):
            while b"blue" not in await answer.content.readuntil(b"\n\n"):
                pass
