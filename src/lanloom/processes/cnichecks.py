"""What `lanloom doctor` finds of the CNI plugin: the program in the runtime's directory, and the agent's socket."""

import asyncio
import json
import os
import stat
from collections.abc import Sequence
from pathlib import Path

from lanloom.features import FEATURES
from lanloom.processes.checks import ANSWER_SECONDS, Check
from lanloom.runtime.cni import foreign_remedy, is_foreign
from lanloom.runtime.feature import Feature, cni_programs

_PLUGIN, _SOCKET = "CNI plugin", "CNI socket"


async def check_cni(
    socket: Path, programs: Path, *, agent_runs: bool, features: Sequence[Feature] = FEATURES
) -> tuple[Check, ...]:
    """Check the plugins and the socket. A machine without any of them, and without an agent, does not need them."""
    texts = {programs / name: text for name, text in cni_programs(features, socket).items()}
    if not (agent_runs or any(os.access(path, os.F_OK) for path in (*texts, socket))):
        return (Check(name=_PLUGIN, result="ok", found="not in use: neither plugin nor socket"),)
    plugins = [await _check_plugin(path, text, socket) for path, text in texts.items()]
    names = " or ".join(path.name for path in texts)
    return (*plugins, await _check_socket(socket, names, agent_runs))


async def _check_plugin(path: Path, text: bytes, socket: Path) -> Check:
    """Whether a runtime can start it, and whether it is this version's, for this socket."""
    remedy = f"Start the agent anew with --cni-bin {path.parent}; it puts the plugin there."
    if is_foreign(path):
        found = f"{path} is another project's program: {_effect(path.name)}"
        remedy = f"If this node is to have LANs, {foreign_remedy(path)}."
        return Check(name=_PLUGIN, result="warning", found=found, remedy=remedy)
    if not os.access(path, os.X_OK):
        what = "can't be executed" if os.access(path, os.F_OK) else "is not there"
        return Check(
            name=_PLUGIN, result="warning", found=f"{path} {what}: {_effect(path.name)}", remedy=remedy
        )
    try:
        complaint, ours = await _complaint(path), _is_ours(path, text)
    except (OSError, TimeoutError) as error:
        found = f"{path} can't be run: {str(error) or 'it does not end'}"
        return Check(name=_PLUGIN, result="failed", found=found, remedy=remedy)
    if complaint:
        remedy = "Install what it asks for; if it asks for nothing, start the agent anew, which replaces it."
        return Check(name=_PLUGIN, result="failed", found=f"{path}: {complaint}", remedy=remedy)
    if not ours:
        found = f"{path} is of another version, or for another socket than {socket}"
        return Check(name=_PLUGIN, result="warning", found=found, remedy=remedy)
    return Check(name=_PLUGIN, result="ok", found=str(path))


def _effect(plugins: str) -> str:
    return f"pods that need {plugins} do not start"


def _is_ours(path: Path, text: bytes) -> bool:
    return path.read_bytes() == text


async def _complaint(path: Path) -> str:
    """What the plugin says when it is asked for its versions, empty if it tells them. Raises OSError, TimeoutError."""
    process = await asyncio.create_subprocess_exec(
        path,
        env={"CNI_COMMAND": "VERSION", "PATH": os.defpath},
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        raise
    try:
        answer = json.loads(output)
        return "" if answer.get("supportedVersions") else str(answer["msg"])
    except (ValueError, KeyError, AttributeError):
        return "it does not answer as a CNI plugin does"


async def _check_socket(path: Path, plugins: str, agent_runs: bool) -> Check:
    """Whether somebody listens, and root alone may talk to them."""
    remedy = (
        "See the agent's log; give the same --cni-socket as to the agent."
        if agent_runs
        else "Start the agent."
    )
    try:
        alone = _is_private(path)
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_unix_connection(path)
        writer.close()
    except (OSError, TimeoutError) as error:
        why = "is not there" if isinstance(error, FileNotFoundError) else "is not answered"
        found = f"{path} {why}: {_effect(plugins)}"
        return Check(name=_SOCKET, result="failed" if agent_runs else "warning", found=found, remedy=remedy)
    if not alone:
        remedy = "Find out who changed it, and start the agent anew."
        return Check(name=_SOCKET, result="failed", found=f"others may write to {path}", remedy=remedy)
    return Check(name=_SOCKET, result="ok", found=str(path))


def _is_private(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
