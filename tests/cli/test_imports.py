"""What a command imports: most of the wait for a list is for that, and most of an agent's memory."""

import asyncio
import base64
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.kube.server import always, serving

HEAVY = {
    "aiohttp",
    "http.client",
    "asyncio",
    "structlog",
    "cryptography",
    "sqlite3",
    "starlette",
    "uvicorn",
    "pyroute2",
    "yaml",
}
"""Modules that take longer to import than it takes to read a cluster and to print a list."""

LISTS = {"network list", "instance list", "network list-fields", "instance list-fields"}
"""What scripts call often, and people wait for: plain tables need no rich. Of `network list`, modules are counted."""

MOST = 66
"""Own modules that are executed for `network list`."""

UNUSED = {
    "aiohttp",
    "prometheus_client",
    "email",
    "http.client",
    "http.server",
    "rich",
    "greenlet",
    "typing_extensions",
}
"""Modules that an agent needs nothing of. Each of 5,000 nodes would hold them in memory."""

MOST_OF_AN_AGENT = 285
"""Own modules that are executed for an agent with all features."""

AGENT = """
import sys
import lanloom.command
from lanloom.processes.cli.agent import command
from lanloom.runtime.logs import configure_logs
from lanloom.cli.cluster import connect
from lanloom.features import FEATURES
from lanloom.kube.http import HttpClient
from lanloom.node import networkmanager, profiles, records
from lanloom.node.host import open_host
from lanloom.processes.agent import run_agent
from lanloom.runtime.feature import load
from lanloom.runtime.probes import ProbeServer
for feature in FEATURES:
    for part in (feature.agent_options, feature.agent, feature.agent_metrics):
        part and load(part)
print(*sys.modules)
"""

RUN = """
import sys
from lanloom.entry import main
try:
    main()
finally:
    print("imported:", *sys.modules, file=sys.stderr)
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "--help",
        "network --help",
        "network list",
        "network list -o name,map --output json",
        "network list-fields",
        "network info",
        "network usage",
        "instance list",
        "instance info",
        "instance list-fields",
    ],
)
async def test_what_reads_imports_little(command: str, tmp_path: Path) -> None:
    """A command that only reads networks and instances imports no event loop, no HTTP library and no logging."""
    imported = await _imported(command, tmp_path, terminal=False)
    assert command == "--help" or "lanloom.cli" in imported
    assert not imported & HEAVY
    assert "typing_extensions" not in imported
    assert command not in LISTS or "rich" not in imported
    own = {name for name in imported if name.partition(".")[0] == "lanloom"}
    assert command != "network list" or len(own) <= MOST, sorted(own)


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(LISTS - {"instance list-fields", "network list-fields"}))
async def test_a_list_on_a_terminal_imports_as_little(command: str, tmp_path: Path) -> None:
    """People wait for a list at a terminal: it needs no more there than in a pipe."""
    piped = await _imported(command, tmp_path, terminal=False)
    assert await _imported(command, tmp_path, terminal=True) == piped


@pytest.mark.slow
def test_an_agent_imports_little() -> None:
    """An agent holds no modules in memory that it never runs."""
    done = subprocess.run([sys.executable, "-c", AGENT], capture_output=True, text=True, check=True)
    imported = set(done.stdout.split())
    assert not imported & UNUSED
    own = {name for name in imported if name.partition(".")[0] == "lanloom"}
    assert len(own) <= MOST_OF_AN_AGENT, sorted(own)


async def _imported(command: str, directory: Path, *, terminal: bool) -> set[str]:
    """Run a command on a cluster without objects, and return the modules that it has imported."""
    ours, theirs = pty.openpty()
    try:
        async with serving(always({"metadata": {"resourceVersion": "1"}, "items": []})) as server:
            kubeconfig = directory / "kubeconfig"
            kubeconfig.write_text(yaml.safe_dump(_kubeconfig(server.url, server.ca)))
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-c",
                RUN,
                *command.split(),
                stdout=theirs if terminal else asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                env={**os.environ, "KUBECONFIG": str(kubeconfig), "COLUMNS": ""},
            )
            _, errors = await process.communicate()
    finally:
        os.close(ours)
        os.close(theirs)
    assert process.returncode == 0, errors
    return set(errors.decode().rpartition("imported: ")[2].split())


def _kubeconfig(server: str, ca: bytes) -> dict[str, Any]:
    cluster = {"server": server, "certificate-authority-data": base64.b64encode(ca).decode()}
    return {
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": "secret"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
