"""A browser before the console of a real kube-apiserver, whose lists, watches and reviews are its own."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect

from lanloom.api.core import NAMESPACES
from lanloom.api.lan import LANS
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from tests.console.browser.tabs import Tabs
from tests.console.site import console_of
from tests.harness.servers.eventually import eventually
from tests.harness.servers.installed import Installer
from tests.harness.servers.real import RealServer

pytestmark = [pytest.mark.realserver, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]

OURS, THEIRS = "console-ours", "console-theirs"
ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{OURS}"
SPEC = {"ns": "n", "bridge": "br0", "vxlan": "vx0", "vni": 77, "defaultVxlanDev": "eth0", "spokes": ["web"]}


@pytest_asyncio.fixture(loop_scope="module")
async def tabs(chromium: Browser, real_server: RealServer, real_binaries: Path) -> AsyncIterator[Tabs]:
    """Tabs before the console, where alice may read one of two namespaces."""
    Installer(real_binaries, real_server).definitions()
    config = load(str(real_server.kubeconfig))
    async with HttpClient(config) as admin:
        for name in (OURS, THEIRS):
            await admin.create(NAMESPACES, {"metadata": {"name": name}})
        await _let_in(admin)
        try:
            async with console_of(config, admin, True) as made:
                yield Tabs(chromium, made)
        finally:
            for name in (OURS, THEIRS):
                await admin.delete(NAMESPACES, name)


async def _let_in(admin: HttpClient) -> None:
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}
    await admin.request("POST", f"{ROLES}/roles", {"metadata": {"name": "reader"}, "rules": [rule]})
    subject = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}
    binding: dict[str, Any] = {"metadata": {"name": "reader"}, "roleRef": role, "subjects": [subject]}
    await admin.request("POST", f"{ROLES}/rolebindings", binding)
    attributes = {"verb": "list", "group": LANS.group, "resource": LANS.plural, "namespace": OURS}
    spec = {"user": "alice", "resourceAttributes": attributes}
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}

    async def is_let_in() -> bool:
        answer = await admin.request("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", review)
        return bool(answer["status"]["allowed"])

    # A server learns of roles by a watch, and the console keeps an answer for a while.
    await eventually(is_let_in, bool)


async def lan(tabs: Tabs, place: str, name: str, vni: int) -> None:
    """Creates a LAN."""
    await tabs.site.admin.create(LANS, {"metadata": {"name": name}, "spec": SPEC | {"vni": vni}}, place)


async def test_on_a_real_server(tabs: Tabs, real_server: RealServer) -> None:
    """Changes show by themselves, also after the server was away; a tenant sees and hears of his namespace alone."""
    path = f"/lans?namespace={OURS}&show=all"
    async with tabs.tab("/lans?show=all") as page, tabs.tab(path, tenant=real_server.user_token) as own:
        await lan(tabs, THEIRS, "foreign", 701)
        await lan(tabs, OURS, "mine", 702)
        await expect(page.locator("tbody")).to_contain_text("foreign")
        await expect(page.locator("tbody")).to_contain_text("mine")
        await expect(own.locator("tbody")).to_contain_text("mine")
        assert "foreign" not in await own.content()
        await own.goto(f"/lans/{THEIRS}/foreign")
        await expect(own.locator("h1")).to_have_text("You may not see this")
        await tabs.site.gate.shut()
        await expect(page.get_by_role("status")).to_contain_text("What you see is of")
        await tabs.site.admin.delete(LANS, "mine", OURS)
        await tabs.site.gate.open()
        await expect(page.locator("#away")).to_be_hidden()
        await expect(page.locator("tbody")).not_to_contain_text("mine")
