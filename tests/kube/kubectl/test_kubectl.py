"""Kubeconfigs, options and environments: what an API server is sent by Lanloom, and by kubectl with the same."""

import asyncio
import json
import os
import shutil
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
import yaml
from click.testing import CliRunner

from lanloom.cli.cluster import ClusterOptions, run
from lanloom.cli.options import cluster_options
from lanloom.kube.blocking import BlockingReader
from lanloom.kube.errors import KubeError
from lanloom_lab.assets import debian_package, default_cache
from tests.harness.servers.build import newer_kubectl
from tests.kube.kubectl.site import Site, site

GOLDEN = Path(__file__).parents[2] / "golden/kube/kubectl.yaml"
CASES: list[dict[str, Any]] = yaml.load(GOLDEN.read_text(), yaml.CSafeLoader)

NAMED = shutil.which("kubectl", path=os.environ.get("KUBEBUILDER_ASSETS", ""))
"""The kubectl next to the binaries that are named: what else a machine has may be of any version."""

DEBIAN = (1, 20)
"""The kubectl of the lab's release of Debian."""

TOLD = (1, 22)
"""The first kubectl that tells programs whether they have a terminal."""

VARIABLES = (
    "KUBECONFIG",
    "HTTPS_PROXY",
    "HTTP_PROXY",
    "NO_PROXY",
    "KUBERNETES_SERVICE_HOST",
    "POD_NAMESPACE",
)


def environment_of(case: dict[str, Any], made: Site) -> dict[str, str]:
    """Write the case's files and return its environment."""
    files = []
    for name, content in made.filled(case["files"]).items():
        path = made.directory / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(content))
        files.append(str(path))
    (made.directory / "plugin.answer").write_text(json.dumps(made.filled(case.get("answer"))))
    environment = {"HOME": str(made.directory), "KUBECONFIG": os.pathsep.join(files)}
    environment |= made.filled(case.get("environment", {}))
    return environment


@click.command()
@cluster_options
def probe(cluster: ClusterOptions) -> None:
    """Send one request."""
    run(cluster, lambda client: client.request("GET", "/probe"))


@click.command()
@cluster_options
def blocking_probe(cluster: ClusterOptions) -> None:
    """Send one request without an event loop, where that is possible."""
    try:
        if cluster.config.is_simple:
            with BlockingReader(cluster.config) as reader:
                reader._read("/probe", {})
    except KubeError as error:
        raise click.ClickException(str(error)) from None


def invoke(command: click.Command, case: dict[str, Any], made: Site) -> tuple[int, str]:
    """Run a command with the case's options; its exit code, and what it says."""
    environment = dict.fromkeys((*VARIABLES, *map(str.lower, VARIABLES))) | environment_of(case, made)
    done = CliRunner(env=environment).invoke(command, made.filled(case.get("options", [])))
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done.exit_code, done.output


@pytest.mark.parametrize("command", [probe, blocking_probe], ids=["asynchronous", "blocking"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["case"])
async def test_what_lanloom_sends(case: dict[str, Any], command: click.Command, tmp_path: Path) -> None:
    """Lanloom sends what kubectl sends, refuses what it can't, and says what it ignores."""
    async with site(tmp_path) as made:
        code, output = await asyncio.to_thread(invoke, command, case, made)
        if command is blocking_probe and not (made.seen or code):
            return
        if "refused" in case:
            assert (code, output) == (1, f"Error: {made.filled(case['refused'])}\n")
            assert not made.seen
            return
        notes = [f"Note: {text}\n" for text in made.filled(case.get("notes", []))]
        assert (code, output) == (0, "".join(notes))
        expected = made.filled(case["sent"])
        assert made.recorded() == expected | ({"compression": False} if command is blocking_probe else {})
        if "info" in case:
            assert json.loads((tmp_path / "plugin.info").read_text()) == made.filled(case["info"])


def _since(case: dict[str, Any]) -> tuple[int, ...]:
    """The first kubectl that has what a case is about."""
    return tuple(map(int, case.get("since", "1.0").split(".")))


PAIRS = [
    pytest.param(program, case, id=f"{program}-{case['case']}")
    for program in ("debian", "trixie", *(["named"] if NAMED else []))
    for case in CASES
    if program != "debian" or _since(case) <= DEBIAN
]
"""Each case with each kubectl that has what it is about; that of the machine says its version later."""


@pytest.fixture(scope="session")
def kubectl(request: pytest.FixtureRequest) -> str:
    """Debian's kubectls, and the one that is named."""
    if request.param == "named" and NAMED:
        return NAMED
    if request.param == "trixie":
        return str(newer_kubectl(default_cache(), print))
    return str(debian_package(default_cache(), ["kubernetes-client"], print) / "usr/bin/kubectl")


async def _run(program: str, *words: str, env: dict[str, str]) -> tuple[int, str]:
    process = await asyncio.create_subprocess_exec(
        program,
        *words,
        env={"PATH": os.environ["PATH"], **env},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    output, errors = await process.communicate()
    return process.returncode or 0, output.decode() or errors.decode()


@pytest.mark.slow
@pytest.mark.realserver
@pytest.mark.parametrize(("kubectl", "case"), PAIRS, indirect=["kubectl"])
async def test_what_kubectl_sends(case: dict[str, Any], kubectl: str, tmp_path: Path) -> None:
    """The golden cases are kubectl's, but for the differences that they name."""
    _, output = await _run(kubectl, "version", "--client", "-o", "json", env={})
    version = msgspec.json.decode(output)["clientVersion"]
    number = (int(version["major"]), int(version["minor"].rstrip("+")))
    if number < _since(case):
        pytest.skip(f"kubectl {number} has no such thing yet")
    async with site(tmp_path) as made:
        words = ["get", "--raw", "/probe", *made.filled(case.get("options", []))]
        code, output = await _run(kubectl, *words, env=environment_of(case, made))
        known = case.get("kubectl", case)
        if "sent" not in known:
            assert code and not made.seen, output
            return
        assert code == 0, output
        assert made.recorded() == made.filled(known["sent"])
        if "info" in case and number >= TOLD:
            assert json.loads((tmp_path / "plugin.info").read_text()) == made.filled(case["info"])
