"""Counters of a LAN in the console: with whose rights agents are asked, and what is shown of one that is away."""

from pathlib import Path

import pytest

from lanloom.api.core import PODS
from lanloom.api.names import LANLOOM_NAMESPACE
from lanloom.kube.ports import Client
from tests.console.filled import Filler
from tests.console.site import TENANT, Site, read, read_until, site

pytestmark = pytest.mark.slow

PATH = "/lans/ours/green/counters"
ROLES = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{LANLOOM_NAMESPACE}"


async def _let(made: Site, *resources: str) -> None:
    """Lets the tenant read these in the agents' namespace."""
    rule = {"apiGroups": [""], "resources": list(resources), "verbs": ["get", "list"]}
    name = f"agents-{len(resources)}"
    await made.admin.request("POST", f"{ROLES}/roles", {"metadata": {"name": name}, "rules": [rule]})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
        "subjects": [{"kind": "User", "name": "tenant", "apiGroup": "rbac.authorization.k8s.io"}],
    }
    await made.admin.request("POST", f"{ROLES}/rolebindings", binding)


async def _attach(admin: Client, name: str) -> None:
    """Shows the tenant a pod of his that is attached at the spoke `web`, on node1."""
    state = '[{"name": "ours/k8slan-veth-web", "interface": "net1"}]'
    meta = {"name": name, "annotations": {"k8s.v1.cni.cncf.io/network-status": state}}
    spec = {"nodeName": "node1", "containers": [{"name": "main", "image": "web"}]}
    await admin.create(PODS, {"metadata": meta, "spec": spec}, "ours")


async def test_counters_of_a_lan(tmp_path: Path) -> None:
    """The page of a LAN has a part for its counters; its page shows them by spoke, and which agent told nothing."""
    async with site(tmp_path, shared=True) as made, made.browser() as browser:
        await Filler(made.admin).fill()
        assert f'data-part="{PATH}"' in await read(browser, "/lans/ours/green")
        page = await read_until(browser, PATH, "1.23 MB")
        assert "port-security 5" in page and "lanloom lan counters ours/green" in page
        assert "node2: its agent tells nothing: error trying to reach service" in page
        assert "node3: no agent of LANs runs there as a pod" in page
        await read(browser, "/lans/ours/none/counters", 404)


async def test_counters_are_read_with_the_readers_rights(tmp_path: Path) -> None:
    """A tenant reads counters once he may list the agents' pods and ask them; each missing right is named."""
    async with site(tmp_path, shared=True) as made, made.browser(TENANT) as browser:
        await Filler(made.admin).fill()
        await _attach(made.admin, "mine")
        for right, resources in (("list pods", ["pods"]), ("get pods/proxy", ["pods", "pods/proxy"])):
            page = await read_until(browser, PATH, f"You may not {right} in lanloom-system.")
            assert "1.23 MB" not in page
            await _let(made, *resources)
        await read_until(browser, PATH, "1.23 MB")
        await read(browser, "/lans/theirs/secret/counters", 403)
