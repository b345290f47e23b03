"""`lanloom backup` copies the data of a running server, and a server starts from the copy."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lanloom.api.core import CONFIG_MAPS, NAMESPACES
from lanloom.kube.errors import Gone
from lanloom.kube.http import HttpClient
from lanloom.kube.ports import Client
from tests.cli.cluster import Cluster, served, typing
from tests.embedded.test_serve import serving

pytestmark = pytest.mark.slow

ANYBODY = 'token-a,anybody,,"people"\n'


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A server with an object."""
    directory = tmp_path_factory.mktemp("served")
    (directory / "tokens").write_text(ANYBODY)
    with served(directory, tokens=directory / "tokens") as cluster:
        cluster.do(lambda client: client.create(CONFIG_MAPS, {"metadata": {"name": "a"}}, "default"))
        yield cluster


@pytest.mark.slow
def test_backup_tells_what_it_holds(cluster: Cluster, tmp_path: Path) -> None:
    """The command names the file and its objects; the file is its owner's only, and nothing is left next to it."""
    done = cluster.lanloom("backup", str(tmp_path / "copy"))
    assert done.exit_code == 0, done.output
    assert done.output.startswith(f"{tmp_path / 'copy'}: ")
    assert " objects, " in done.output
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]


def test_backup_replaces_a_former_one(cluster: Cluster, tmp_path: Path) -> None:
    """A file that is there is replaced."""
    (tmp_path / "copy").write_text("former")
    assert cluster.lanloom("backup", str(tmp_path / "copy")).exit_code == 0
    assert (tmp_path / "copy").read_bytes().startswith(b"SQLite format 3")


async def test_server_starts_from_a_backup(tmp_path: Path) -> None:
    """What was there at the time of the backup is there after a restore; what came later is not."""
    from lanloom_embedded.backup import back_up

    running, restored = tmp_path / "running", tmp_path / "restored"
    running.mkdir()
    restored.mkdir()
    async with serving(running, manager=False) as config, HttpClient(config) as client:
        made = await client.create(CONFIG_MAPS, {"metadata": {"name": "a"}, "data": {"k": "v"}}, "default")
        await back_up(client, restored / "data")
        later = await client.create(CONFIG_MAPS, {"metadata": {"name": "late"}}, "default")
    async with serving(restored, manager=False) as config, HttpClient(config) as client:
        found = (await client.list(CONFIG_MAPS, "default")).items
        assert [item.metadata.name for item in found] == ["a"]
        assert (found[0].metadata, found[0].data) == (made.metadata, made.data)
        await client.get(NAMESPACES, "lanloom-system")
        with pytest.raises(Gone):
            async for _ in client.watch(CONFIG_MAPS, resource_version=later.metadata.resource_version):
                pass
        new = await client.create(CONFIG_MAPS, {"metadata": {"name": "new"}}, "default")
        assert int(new.metadata.resource_version) > int(later.metadata.resource_version)


def test_backup_needs_the_right_to_read_secrets(cluster: Cluster, tmp_path: Path) -> None:
    """A user who may read every address of the server but no Secrets gets no backup."""
    role = {"metadata": {"name": "r"}, "rules": [{"nonResourceURLs": ["*"], "verbs": ["get"]}]}
    binding = {
        "metadata": {"name": "r"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "r"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "people"}],
    }
    cluster.do(lambda client: _apply(client, "clusterroles", role))
    cluster.do(lambda client: _apply(client, "clusterrolebindings", binding))
    text = cluster.kubeconfig.read_text()
    token = text.partition("token: ")[2].partition("\n")[0]
    (tmp_path / "config").write_text(text.replace(token, "token-a"))
    done = cluster.lanloom("backup", "--kubeconfig", str(tmp_path / "config"), str(tmp_path / "copy"))
    assert done.exit_code == 1
    assert "secrets is forbidden" in done.output
    assert not (tmp_path / "copy").exists()


async def _apply(client: Client, plural: str, body: dict[str, Any]) -> None:
    assert isinstance(client, HttpClient)
    await client.request("POST", f"/apis/rbac.authorization.k8s.io/v1/{plural}", body)


def test_place_that_is_not_there_is_named(cluster: Cluster, tmp_path: Path) -> None:
    """A file in a directory that doesn't exist is an error in one line."""
    done = cluster.lanloom("backup", str(tmp_path / "missing" / "copy"))
    assert (done.exit_code, done.output.count("\n")) == (1, 1)
    assert "missing/copy can't be written: No such file or directory" in done.output


def test_completion_offers_the_command(cluster: Cluster) -> None:
    """A shell completes `lanloom back`, and leaves the file to its own completion."""
    assert any("backup" in word for word in cluster.offered("lanloom back"))
    assert "file" in cluster.lanloom(environment=typing("lanloom backup x")).output
