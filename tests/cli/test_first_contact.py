"""The first command on a cluster that has nothing of Lanloom, is too old, or lends no rights."""

import asyncio
import base64
from pathlib import Path

import pytest
import yaml
from aiohttp import web
from click.testing import CliRunner

from lanloom.api.core import NODES
from lanloom.command import cli
from lanloom.kube.firstcontact import INSTALL
from lanloom.processes.trials.facts import NO_MANAGER, NO_MULTUS
from tests.cli.cluster import served
from tests.kube.server import Handler, answer, serving, status_object

COMMANDS = [
    "status",
    "vlan list",
    "vlan show x",
    "vlan plan -f examples/vlan2013-static.yaml",
    "network list",
    "network info",
    "network usage",
    "network add --subnet cidr=192.0.2.0/24 net1",
    "network remove net1",
    "instance list",
    "instance info i",
    "dummy list",
    "dummy show x",
    "lan list",
    "lan counters blue",
    "lan show x",
    "lan trace x --from a --to b",
    "check --dry-run",
]
"""What a new user may type first, of each feature."""


def no_page() -> web.Response:
    """What an API server says of a path that it does not know."""
    return web.Response(status=404, text="404 page not found\n")


def kubernetes(minor: str) -> Handler:
    """An API server of that version without custom resources."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        path, name = request.path, request.path.rpartition("/")[2]
        if path == "/version":
            return answer({"major": "1", "minor": minor})
        if path.startswith("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/"):
            return answer(
                status_object(404, "NotFound", f"{name} not found") | {"details": {"name": name}}, 404
            )
        if path.startswith("/api/v1/"):
            return answer({"metadata": {"resourceVersion": "1"}, "items": []})
        return no_page()

    return handle


async def another_server(_request: web.BaseRequest) -> web.StreamResponse:
    """A server of something else."""
    return no_page()


async def strict(request: web.BaseRequest) -> web.StreamResponse:
    """An API server that lends no rights."""
    plural = request.path.rpartition("/")[2]
    user = f'{plural} is forbidden: User "jane" cannot list resource "{plural}"'
    message = f'{user} in API group "x" at the cluster scope'
    return answer(status_object(403, "Forbidden", message), 403)


async def typed(command: str, handler: Handler, directory: Path) -> tuple[int, str]:
    """Run a command on a server; its exit code and what it says, on one line."""
    async with serving(handler) as server:
        ca = base64.b64encode(server.ca).decode()
        content = {
            "current-context": "m",
            "clusters": [{"name": "c", "cluster": {"server": server.url, "certificate-authority-data": ca}}],
            "contexts": [{"name": "m", "context": {"cluster": "c"}}],
        }
        (directory / "config").write_text(yaml.safe_dump(content))
        words = [*command.split(), "--kubeconfig", str(directory / "config")]
        done = await asyncio.to_thread(CliRunner(env={"COLUMNS": "400"}).invoke, cli, words)
        return done.exit_code, " ".join(done.output.replace(server.url, "SERVER").split())


@pytest.mark.parametrize("command", COMMANDS)
async def test_a_cluster_without_the_kinds(command: str, tmp_path: Path) -> None:
    """Every command names the kind that is missing, and how Lanloom is installed."""
    code, output = await typed(command, kubernetes("36"), tmp_path)
    assert code == 1
    assert output.startswith("Error: the API server SERVER does not serve ")
    assert output.endswith(f"; to install Lanloom, {INSTALL}")


@pytest.mark.parametrize("command", COMMANDS)
async def test_an_older_cluster(command: str, tmp_path: Path) -> None:
    """A server that is too old is named with its version, and the oldest that would do."""
    found = await typed(command, kubernetes("16+"), tmp_path)
    assert found == (1, "Error: the API server SERVER is Kubernetes 1.16; Lanloom needs 1.20 or later")


@pytest.mark.parametrize("command", [*COMMANDS, "vm list", "why-not-deleted lan/x"])
async def test_missing_rights(command: str, tmp_path: Path) -> None:
    """Where a right is missing, the message names it, and who can give it."""
    code, output = await typed(command, strict, tmp_path)
    assert code == 1
    assert 'User "jane" cannot list resource' in output
    assert "; ask an administrator of the cluster for that right" in output


@pytest.mark.parametrize(
    ("command", "narrower"),
    [
        ("lan list -A", True),
        ("lan trace blue --from a --to b", False),
        ("network list", False),
        ("network list -A", False),
        ("dummy list", False),
    ],
)
async def test_only_kinds_in_namespaces_can_be_listed_in_one(
    command: str, narrower: bool, tmp_path: Path
) -> None:
    """A user who may not list the objects of all namespaces reads of -n, but not for kinds that are in none."""
    _, output = await typed(command, strict, tmp_path)
    assert output.endswith("for that right, or name a namespace with -n instead of -A") is narrower
    assert output.endswith("for that right") is not narrower


async def test_a_cluster_with_multus_alone(tmp_path: Path) -> None:
    """That the kind of Multus is there, as on Harvester, is no sign of Lanloom: a check names what to install."""

    async def multus(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/network-attachment-definitions"):
            return answer({"metadata": {"resourceVersion": "1"}, "items": []})
        return await kubernetes("36")(request)

    code, output = await typed("check --dry-run", multus, tmp_path)
    assert code == 1
    assert output.startswith("Error: the API server SERVER does not serve clusternetworknodes.")
    assert output.endswith(f"; to install Lanloom, {INSTALL}")


async def test_a_cluster_with_the_kinds_alone(tmp_path: Path) -> None:
    """Where only the kinds are installed, a check names everything else that it needs, and creates nothing."""

    async def kinds(request: web.BaseRequest) -> web.StreamResponse:
        assert request.method == "GET"
        if request.path.endswith("/lans"):
            return answer({"metadata": {"resourceVersion": "1"}, "items": []})
        return await kubernetes("36")(request)

    for words in ("check --dry-run", "check"):
        code, output = await typed(words, kinds, tmp_path)
        assert code == 1
        assert f"Error: the check can't run: - {NO_MULTUS} - {NO_MANAGER} - no node is ready" in output


def test_a_dry_run_tells_what_is_not_tried(tmp_path: Path) -> None:
    """The objects are printed for programs, and next to them what could not be tried, with what to do."""
    with served(tmp_path, manager=False) as cluster:
        status = {"conditions": [{"type": "Ready", "status": "True"}]}
        cluster.do(lambda client: client.create(NODES, {"metadata": {"name": "node1"}}))
        cluster.do(lambda client: client.patch(NODES, "node1", {"status": status}, subresource="status"))
        done = cluster.lanloom("check", "--dry-run", "--image", "lanloom")
        assert done.exit_code == 0
        kinds = [item["kind"] for item in yaml.safe_load_all(done.stdout)]
        assert kinds == ["Namespace", "DummyClusterNetwork", "Pod", "Pod"]
        remarks = [line.split(":")[:2] for line in done.stderr.splitlines()]
        assert remarks == [["Not tried", f" {name}"] for name in ("vlan", "ipam", "lan")]


async def test_a_server_of_something_else(tmp_path: Path) -> None:
    """A server that has no version is no API server."""
    found = await typed("status", another_server, tmp_path)
    assert found == (1, "Error: SERVER is no API server of Kubernetes; check the server of the kubeconfig")


async def test_a_kind_that_is_not_served_yet(tmp_path: Path) -> None:
    """A kind that is defined and not served is so for a moment."""

    async def starting(request: web.BaseRequest) -> web.StreamResponse:
        if "customresourcedefinitions/" in request.path:
            return answer({"metadata": {"name": request.path.rpartition("/")[2]}})
        return await kubernetes("36")(request)

    _, output = await typed("network list", starting, tmp_path)
    assert output.endswith(
        "networks.ipam.lanloom.io yet, although the kind is defined; try again in a moment"
    )


@pytest.mark.parametrize("manager", [False, True])
def test_an_empty_cluster(manager: bool, tmp_path: Path) -> None:
    """The status of a cluster without any network names the next step: to install a manager, or what to create."""
    with served(tmp_path, manager=manager) as cluster:
        output = cluster.lanloom("status").output
    if manager:
        assert "a ClusterNetwork and a VlanConfig (cluster-1.yaml)" in output
    else:
        assert "  lanloom install | kubectl apply -f -" in output


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (
            "lan list",
            "There is no LAN in the namespace default. To list those of all namespaces, use -A. Create",
        ),
        ("lan list -A", "There is no LAN. Create one"),
        ("lan list -l a=b", "No LAN in the namespace default has what the selector asks for. To list those"),
        ("vlan list -A --field-selector metadata.name=x", "No VLAN network has what the selector asks for."),
        ("vm list -A -l a=b", "No VirtualMachine has what the selector asks for."),
        ("dummy list", "There is no DummyClusterNetwork. Create one"),
        ("dummy list -l a=b", "No DummyClusterNetwork has what the selector asks for."),
    ],
)
def test_an_empty_list(words: str, text: str, tmp_path: Path) -> None:
    """An empty list says where it looked, and does not propose to create an object where a selector left some out."""
    with served(tmp_path, kubevirt=True) as cluster:
        done = cluster.lanloom(*words.split())
    assert " ".join(done.output.split()).startswith(text)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("lan show blue -n mine", "there is no LAN"),
        ("lan show mine/blue", "there is no LAN"),
        ("lan counters blue -n mine", "there is no LAN"),
        ("lan show other/blue -n mine", "ask an administrator of the cluster for that right"),
    ],
)
async def test_a_tenant_looks_at_a_lan(command: str, message: str, tmp_path: Path) -> None:
    """A user who may read the LANs of one namespace alone is shown those that he names."""

    async def tenant(request: web.BaseRequest) -> web.StreamResponse:
        if request.path.endswith("/namespaces/mine/lans"):
            return answer({"metadata": {"resourceVersion": "1"}, "items": []})
        return await strict(request)

    code, output = await typed(command, tenant, tmp_path)
    assert code == 1
    assert message in output


@pytest.mark.parametrize("command", [*COMMANDS, "vm list", "why-not-deleted lan/x"])
def test_a_server_that_is_away(command: str, tmp_path: Path) -> None:
    """Where no server answers, the message says which one, and what to check."""
    content = {
        "current-context": "m",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "m", "context": {"cluster": "c"}}],
    }
    (tmp_path / "config").write_text(yaml.safe_dump(content))
    words = [*command.split(), "--kubeconfig", str(tmp_path / "config")]
    done = CliRunner(env={"COLUMNS": "400"}).invoke(cli, words)
    assert (done.exit_code, done.stdout) == (1, "")
    assert "cannot connect to 127.0.0.1:1: connection refused; check that the API server runs" in done.stderr
