"""The image whole: the same each time, small, complete for both architectures, and run by containerd."""

import io
import json
import re
import subprocess
import tarfile
from collections.abc import AsyncIterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from lanloom import __version__
from lanloom.api.core import PODS
from lanloom.kube.http import HttpClient
from lanloom.kube.loading import load
from lanloom_lab.assets import default_cache
from scripts.image.build import ARCHITECTURES, Built, build
from scripts.image.wheels import SITE
from tests.harness.nodes.node import RealNode
from tests.harness.nodes.pods import Pods, node_ready
from tests.harness.servers.real import RealServer

EPOCH = 1767225600
LARGEST = 120e6
"""Bytes of all files."""

Raw = dict[str, Any]


@cache
def image(architecture: str) -> Built:
    """Return the image, built once."""
    return build(default_cache(), architecture, EPOCH, print)


def unpack(built: Built, target: Path) -> Path:
    """Unpack all layers of an image."""
    with tarfile.open(fileobj=io.BytesIO(built.archive)) as archive:
        manifest = json.loads(archive.extractfile("manifest.json").read())[0]  # type: ignore[union-attr]
        for name in manifest["Layers"]:
            with tarfile.open(fileobj=archive.extractfile(name)) as layer:
                layer.extractall(target)
    return target


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_is_small_and_whole(architecture: str, tmp_path: Path) -> None:
    """All files have at most 120 MB, each program finds its libraries, and Lanloom's modules have bytecode."""
    built = image(architecture)
    assert built.unpacked <= LARGEST
    root = unpack(built, tmp_path)
    assert (root / "var/run").readlink() == Path("/run")  # by which containerd names namespaces of pods
    needed, there = needed_libraries(root)
    assert needed and needed - there == set()
    modules = list((root / SITE / "lanloom").rglob("*.py"))
    compiled = [path.parent / "__pycache__" / f"{path.stem}.cpython-311.pyc" for path in modules]
    assert len(modules) > 300
    # Bytecode that is taken without a look at its source: a flag of PEP 552.
    assert {path.read_bytes()[4:8] for path in compiled} == {b"\1\0\0\0"}


def needed_libraries(root: Path) -> tuple[set[str], set[str]]:
    """Return the libraries that programs and modules name, and those that are there."""
    files = [path for path in root.rglob("*") if path.is_file() and not path.is_symlink()]
    programs = [path for path in files if path.open("rb").read(4) == b"\x7fELF"]
    words = ["readelf", "--dynamic", *map(str, programs)]
    listing = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    needed = set(re.findall(r"\(NEEDED\).*\[(.+)\]", listing))
    return needed, {path.name for path in root.rglob("*.so*")}


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_same_sources_give_the_same_image() -> None:
    """A second build has the same digest and the same bill."""
    one, other = image("amd64"), build(default_cache(), "amd64", EPOCH, print)
    assert (one.digest, one.bill, one.archive) == (other.digest, other.bill, other.archive)


@pytest.fixture(scope="module")
def node(real_node: RealNode) -> RealNode:
    """A node onto which the image was loaded, as without a registry."""
    real_node.write("/run/node/lanloom.tar", image("amd64").archive)
    real_node.ctr("images", "import", "/run/node/lanloom.tar")
    return real_node


@pytest.fixture
async def client(nodes_server: RealServer, node: RealNode) -> AsyncIterator[HttpClient]:
    """The administrator's client, of a cluster whose node is ready."""
    async with HttpClient(load(str(nodes_server.kubeconfig))) as client:
        await node_ready(client, node)
        yield client


PRIVILEGED: Raw = {"privileged": True, "runAsUser": 0}
RESTRICTED: Raw = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "runAsNonRoot": True,
    "capabilities": {"drop": ["ALL"]},
    "seccompProfile": {"type": "RuntimeDefault"},
}


async def ran(
    client: HttpClient, node: RealNode, name: str, security: Raw, **container: Any
) -> tuple[int, str]:
    """Run a pod of the image to its end; return its exit code and what it printed."""
    spec = {
        "nodeName": node.name,
        "restartPolicy": "Never",
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "containers": [
            {
                "name": "main",
                "image": f"lanloom:{__version__}",
                "imagePullPolicy": "Never",
                "securityContext": security,
            }
            | container
        ],
    }
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}
    await client.request("POST", PODS.path("default"), pod)
    ended = await Pods(client).ended(name)
    status = ended["status"]["containerStatuses"][0]
    (log,) = node.enclosure.root("/var/log/pods").glob(f"default_{name}_*/main/*.log")
    lines = (line.split(" ", 3)[3] for line in log.read_text().splitlines())
    return status["state"]["terminated"]["exitCode"], "\n".join(lines)


@pytest.mark.realserver
@pytest.mark.slow
@pytest.mark.timeout(600)
class TestOnANode:
    """As containerd runs it."""

    async def test_nobody_runs_it_with_no_right(self, client: HttpClient, node: RealNode) -> None:
        """A restricted pod runs the command as another user than root, on a read-only file system."""
        code, said = await ran(client, node, "version", RESTRICTED, args=["--version"])
        assert (code, said) == (0, f"lanloom, version {__version__}")

    async def test_what_manifests_run_is_there(self, client: HttpClient, node: RealNode) -> None:
        """`test`, `sleep`, `nsenter` and a shell work, and all that Lanloom imports for a process."""
        imports = "import lanloom.processes.manager, lanloom.processes.agent, lanloom_embedded.serve, ssl"
        script = (
            "/usr/bin/test -e /etc/passwd && sleep 0 && id -u && lanloom --version"
            " && nsenter --target 1 --mount -- /bin/sh -ec 'echo inside'"
            f" && python -c '{imports}; print(len(ssl.create_default_context().get_ca_certs()) > 50)'"
        )
        code, said = await ran(client, node, "programs", PRIVILEGED, command=["/bin/sh", "-ec", script])
        assert (code, said.splitlines()) == (0, ["0", f"lanloom, version {__version__}", "inside", "True"])

    async def test_what_may_not_be_tried_is_unknown(self, client: HttpClient, node: RealNode) -> None:
        """`lanloom doctor` takes a container's limits for no fault of the kernel; a privileged one tells."""
        trials = {}
        for name, security in (("restricted", RESTRICTED), ("privileged", PRIVILEGED)):
            _, said = await ran(client, node, f"doctor-{name}", security, args=["doctor", "-o", "json"])
            found = json.loads(said)
            trials[name] = {item["result"] for item in found if item["name"].startswith("kernel:")}
        assert trials["restricted"] == {"unknown"}
        assert "ok" in trials["privileged"] and "unknown" not in trials["privileged"]
