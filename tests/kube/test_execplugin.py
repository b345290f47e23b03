"""For how long the credentials of a program hold."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from lanloom.api.core import NODES
from lanloom.kube.authentication import read_credential, run_plugin
from lanloom.kube.config import ExecPlugin
from lanloom.kube.errors import ConfigError, Unauthorized
from lanloom.kube.http import HttpClient
from tests.harness.servers.eventually import eventually
from tests.kube.server import answer, serving, status_object
from tests.kube.things import RED

V1 = "client.authentication.k8s.io/v1"

PROGRAM = """#!/bin/sh
echo run >> "$0.runs"
runs=$(wc -l < "$0.runs")
printf '{"apiVersion": "%s", "kind": "ExecCredential", "status": {"token": "token-%d", "expirationTimestamp": %s}}' \\
  client.authentication.k8s.io/v1 "$runs" "$(cat "$0.until")"
"""


def plugin(directory: Path, until: str) -> ExecPlugin:
    """A program whose tokens are numbered, and hold until then (JSON)."""
    path = directory / "plugin"
    path.write_text(PROGRAM)
    path.chmod(0o755)
    (directory / "plugin.until").write_text(until)
    return ExecPlugin(command=str(path), api_version=V1)


@pytest.mark.parametrize(
    ("until", "times", "tokens"),
    [
        ("null", (0.0, 4e9), ["token-1", "token-1"]),
        ('"2033-05-18T03:33:20Z"', (1.9e9, 2.0e9, 2.1e9), ["token-1", "token-1", "token-2"]),
    ],
)
async def test_credentials_hold(
    until: str, times: tuple[float, ...], tokens: list[str], tmp_path: Path
) -> None:
    """A program is run again when its credentials have expired, and not before."""
    now = iter(times)
    clock = {"now": 0.0}

    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return answer(RED)

    async with serving(handle) as server:
        config = server.config(exec=plugin(tmp_path, until))
        async with HttpClient(config, now=lambda: clock["now"]) as client:
            for clock["now"] in now:
                await client.get(NODES, "a")
        assert [item.headers["Authorization"] for item in server.seen] == [
            f"Bearer {text}" for text in tokens
        ]


async def test_credentials_that_are_refused(tmp_path: Path) -> None:
    """After a 401 the next request has new credentials."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer token-1":
            return answer(status_object(401, "Unauthorized"), 401)
        return answer(RED)

    async with serving(handle) as server, HttpClient(server.config(exec=plugin(tmp_path, "null"))) as client:
        with pytest.raises(Unauthorized):
            await client.get(NODES, "a")
        assert (await client.get(NODES, "a")).metadata.name == "a"


async def test_many_requests_run_one_program(tmp_path: Path) -> None:
    """Requests at the same time wait for one run of the program."""

    async def handle(_request: web.BaseRequest) -> web.StreamResponse:
        return answer(RED)

    async with serving(handle) as server, HttpClient(server.config(exec=plugin(tmp_path, "null"))) as client:
        await asyncio.gather(*(client.get(NODES, "a") for _ in range(5)))
    assert (tmp_path / "plugin.runs").read_text() == "run\n"


async def test_a_program_that_is_not_waited_for(tmp_path: Path) -> None:
    """A program that takes longer than its caller waits is ended."""
    path = tmp_path / "plugin"
    path.write_text(
        f"#!/bin/sh\necho $$ > {tmp_path}/pid.new; mv {tmp_path}/pid.new {tmp_path}/pid; exec sleep 1000\n"
    )
    path.chmod(0o755)
    task = asyncio.create_task(run_plugin(ExecPlugin(command=str(path), api_version=V1)))
    await eventually(lambda: asyncio.to_thread((tmp_path / "pid").exists), bool)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    process = Path("/proc", (tmp_path / "pid").read_text().strip())
    await eventually(lambda: asyncio.to_thread(process.exists), lambda there: not there)


def _printed(status: Any, **more: str) -> bytes:
    return json.dumps({"apiVersion": V1, "kind": "ExecCredential", "status": status} | more).encode()


@pytest.mark.parametrize(
    ("output", "message"),
    [
        (b"", "printed no ExecCredential"),
        (b"[]", "printed no ExecCredential"),
        (_printed(None), "neither a token nor"),
        (_printed({"token": None}), "neither a token nor"),
        (_printed({"clientKeyData": "x"}), "a certificate or a key, but not both"),
        (_printed({"token": "t"}, kind="Status"), "printed Status of"),
        (_printed({"token": "t", "expirationTimestamp": "tomorrow"}), "printed no ExecCredential"),
    ],
)
def test_what_programs_print(output: bytes, message: str) -> None:
    """What a program prints wrong is said, with the program's name."""
    with pytest.raises(ConfigError, match=f"^exec: aws .*{message}"):
        read_credential(ExecPlugin(command="aws", api_version=V1), output)
