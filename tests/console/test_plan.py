"""The plan of a pasted manifest: what it says, what it refuses, and that it changes nothing."""

from html import unescape
from pathlib import Path

import aiohttp
import pytest
import yaml

from lanloom.api.multus import NADS
from lanloom.features.vlan import planpage
from lanloom.features.vlan.views.apply import ManifestError
from tests.console.filled import Filler
from tests.console.site import TENANT, Site, read, site
from tests.features.vlan.cluster import nad

pytestmark = pytest.mark.slow

HOSTILE = "<script>alert(1)</script>"
NEW = yaml.safe_dump(nad("vlan77", "cluster-1", 77, namespace="ours"))
BOMB = "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n"


async def paste(
    browser: aiohttp.ClientSession, text: str, status: int = 200, path: str = "/plan", **options: str
) -> str:
    """The page of a manifest that was pasted."""
    async with browser.post(path, data={"text": text, **options}) as answer:
        assert answer.status == status, await answer.text()
        return await answer.text()


async def names(made: Site) -> set[str]:
    """The NADs that there are, with their versions."""
    return {f"{item.metadata.key} {item.metadata.version}" for item in (await made.admin.list(NADS)).items}


async def test_a_plan_says_what_would_change_and_changes_nothing(tmp_path: Path) -> None:
    """A pasted manifest is planned as the command line plans it; the text stays in the form, and nothing is written."""
    async with site(tmp_path) as made, made.browser() as browser:
        await Filler(made.admin).fill()
        before = await names(made)
        page = await paste(browser, NEW)
        assert "4 nodes would change" in page and "+ VLAN ids 77 of cluster-1-bo" in page
        assert "NetworkAttachmentDefinition ours/vlan77" in page and "created" in page
        assert "vlanId" not in page and "name: vlan77" in page
        page = await paste(
            browser, yaml.safe_dump(nad("guests", "cluster-1", 2013, namespace="ours")), delete="on"
        )
        assert "deleted" in page or "Refused" in page
        assert "checked" in page
        assert await names(made) == before


async def test_a_network_is_planned_on_its_own_page(tmp_path: Path) -> None:
    """A network's page leads to its manifest; unedited it changes nothing, edited it says what would change."""
    async with site(tmp_path) as made, made.browser() as browser:
        await Filler(made.admin).fill()
        for page in ("/networks/ours/guests", "/cluster-networks/cluster-1"):
            assert f'href="{page}/plan"' in await read(browser, page)
            shown = await read(browser, f"{page}/plan")
            text = unescape(shown.partition("</textarea>")[0].rpartition(">")[2])
            assert "No node would change" in await paste(browser, text, path=f"{page}/plan")
        text = text.replace("spec:", "spec:\n  description: other", 1)
        assert "No node would change" in await paste(browser, text, path="/cluster-networks/cluster-1/plan")
        shown = await read(browser, "/networks/ours/guests/plan")
        text = unescape(shown.partition("</textarea>")[0].rpartition(">")[2]).replace("2013", "2113")
        refused = unescape(await paste(browser, text, path="/networks/ours/guests/plan"))
        assert "spec.config.vlan can't change from 2013 to 2113 while the VMs" in refused
        added = text.replace("name: guests", "name: others")
        assert "4 nodes would change" in await paste(browser, added, path="/networks/ours/guests/plan")
        await read(browser, "/networks/ours/nobody/plan", 404)
        await read(browser, "/cluster-networks/none/plan", 404)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is not valid YAML"),
        ("[1]", "is not a Kubernetes object"),
        (BOMB, "has a YAML alias"),
        (HOSTILE, "is not a Kubernetes object"),
        ("", "No node would change"),
        (yaml.safe_dump(nad("x", "nowhere", 5)), "Refused"),
        (yaml.safe_dump({"apiVersion": "v1", "kind": HOSTILE, "metadata": {"name": HOSTILE}}), "ignored"),
        ("[" * 20000, "more than 100 levels"),
    ],
    ids=["yaml", "list", "aliases", "markup", "nothing", "refused", "other kind", "deep"],
)
async def test_what_can_not_be_planned_is_said(tmp_path: Path, text: str, said: str) -> None:
    """A manifest that can't be read, or is refused, is reported with the reason; markup in it is text."""
    async with site(tmp_path) as made, made.browser() as browser:
        page = await paste(browser, text)
        assert said in page and HOSTILE not in page


SIZE = 500_000


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[" * SIZE, "more than 100 levels"),
        ("? " * (SIZE // 2), "more than 100 levels"),
        ("- " * (SIZE // 2), "more than 100 levels"),
        ("{a: " * (SIZE // 4), "more than 100 levels"),
        (f"[{'a,' * (SIZE // 2)}]", "more than 30000 values"),
        ("--- {}\n" * (SIZE // 7), "more than 30000 values"),
        (f"spec: {'1:' * (SIZE // 2)}1", "a number of more than 400 characters"),
        (f"spec: -{'1:' * (SIZE // 2)}1.5", "a number of more than 400 characters"),
        (f"spec: 0x{'f' * SIZE}", "a number of more than 400 characters"),
        (f"spec: !!int '{'1:' * (SIZE // 2)}1'", "a number of more than 400 characters"),
        ("".join(f"%TAG !a{number}! b\n" for number in range(SIZE // 16)), "more than 8 %TAG directives"),
    ],
)
def test_a_manifest_that_is_dear_to_read(text: str, said: str) -> None:
    """A text that would end the process, or keep it busy, is refused, whatever takes so much of it."""
    with pytest.raises(ManifestError, match=said):
        planpage.read(text)


def test_a_manifest_may_be_long() -> None:
    """A thousand networks are read, and so are texts of any length, quoted or not."""
    config = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "a"},
        "data": {"a": "1:" * 1000, "b": "x" * 9000},
    }
    documents = [nad(f"net{number}", "cluster-1", 5, namespace="ours") for number in range(1000)]
    assert len(planpage.read(yaml.safe_dump_all([*documents, config]))) == 1001


async def test_who_may_not_read_gets_no_plan(tmp_path: Path) -> None:
    """A user of one namespace gets no plan, as it would tell of others; no other page and no long text is taken."""
    async with site(tmp_path) as made:
        await Filler(made.admin).fill()
        async with made.browser(TENANT) as browser:
            page = await paste(browser, NEW, 403)
            assert "You may not see this" in page and "node1" not in page
        async with made.browser() as browser:
            assert "a form may have 512 KiB" in await paste(browser, "x" * 600_000, 404)
            async with browser.post("/lans", data={"text": NEW}) as answer:
                assert answer.status == 404
            async with browser.post(
                "/plan", data={"text": NEW}, headers={"origin": "http://other"}
            ) as answer:
                assert answer.status == 403
            assert "<textarea" in await read(browser, "/plan")
            browser.cookie_jar.clear()
            async with browser.post("/plan", data={"text": NEW}) as answer:
                assert "<h1>Log in</h1>" in await answer.text()
