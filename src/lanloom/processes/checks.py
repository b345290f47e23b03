"""What `lanloom doctor` looks at: each check says what it found and, where that is bad, what to do."""

import asyncio
import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from msgspec import Struct

from lanloom.features import FEATURES
from lanloom.kube.errors import KubeError, NotFound
from lanloom.kube.ports import Client
from lanloom.node.errors import NetworkManagerError
from lanloom.node.ports import NetworkManager
from lanloom.processes.definitions import resources
from lanloom.runtime.feature import Feature
from lanloom.runtime.probes import parse_address

CAP_NET_ADMIN = 12
OLDEST_NETWORK_MANAGER = (1, 42)
"""The version that Lanloom is tested with; older ones may treat an edited profile differently."""


ANSWER_SECONDS = 5.0
"""How long an agent may take to say how it fares."""

_LONGEST_ANSWER = 16 * 1024


class Check(Struct, frozen=True, kw_only=True):
    """One finding. `remedy` is empty where all is well."""

    name: str
    result: Literal["ok", "warning", "failed"]
    found: str
    remedy: str = ""


def check_rights(status: str) -> Check:
    """Whether this process may change links; `status` is the text of /proc/self/status."""
    line = next((line for line in status.splitlines() if line.startswith("CapEff:")), "CapEff: 0")
    if int(line.split()[1], 16) >> CAP_NET_ADMIN & 1:
        return Check(name="rights", result="ok", found="CAP_NET_ADMIN")
    remedy = "Run as root, or give the container the capability NET_ADMIN."
    return Check(name="rights", result="failed", found="no CAP_NET_ADMIN", remedy=remedy)


def check_profiles(directory: Path) -> Check:
    """Whether profiles can be written."""
    name = "profile directory"
    if not directory.is_dir():
        remedy = "Install NetworkManager, or mount its directory of profiles and name it with --profiles."
        return Check(name=name, result="failed", found=f"{directory} is not there", remedy=remedy)
    if not os.access(directory, os.W_OK):
        return Check(name=name, result="failed", found=f"{directory} can't be written", remedy="Run as root.")
    return Check(name=name, result="ok", found=str(directory))


def check_records(name: str, directory: Path) -> Check:
    """Whether the agent can keep records in a directory, which it makes if it is not there."""
    try:
        status = directory.lstat()
    except FileNotFoundError:
        return _missing_records(name, directory)
    except OSError as error:
        return _bad_records(name, f"{directory}: {error.strerror}")
    if not stat.S_ISDIR(status.st_mode):
        return _bad_records(name, f"{directory} is not a directory")
    if status.st_uid != os.geteuid() or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        remedy = f"Give it to the agent's user alone: chown root {directory}; chmod 755 {directory}."
        return Check(name=name, result="failed", found=f"others may write to {directory}", remedy=remedy)
    if not os.access(directory, os.W_OK):
        return _bad_records(name, f"{directory} can't be written")
    return Check(name=name, result="ok", found=str(directory))


def _missing_records(name: str, directory: Path) -> Check:
    parent = next(path for path in directory.absolute().parents if path.exists())
    if os.access(parent, os.W_OK):
        return Check(name=name, result="ok", found=f"{directory} will be made")
    return _bad_records(name, f"{directory} is not there, and can't be made in {parent}")


def _bad_records(name: str, found: str) -> Check:
    remedy = "Run as root; in a container, mount a directory of the host there, as deploy/agent.yaml does."
    return Check(name=name, result="failed", found=found, remedy=remedy)


async def check_agent(address: str) -> Check:
    """What an agent of this machine says of itself at HOST:PORT. None running is fine. Raises ValueError."""
    host, port = parse_address(address)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            code, body = await _readiness(host, port)
    except ConnectionRefusedError:
        return Check(name="agent", result="ok", found=f"none answers at {address}")
    except (OSError, TimeoutError, ValueError) as error:
        remedy = (
            "See the agent's log. If another program has the port, give the agent another --metrics-address."
        )
        found = f"no readiness from {address}: {str(error) or 'no answer in time'}"
        return Check(name="agent", result="failed", found=found, remedy=remedy)
    if code == 200:
        return Check(name="agent", result="ok", found="ready")
    remedy = "Wait if it was started just now; else mend what it names, and see its log."
    return Check(name="agent", result="failed", found="; ".join(body.splitlines()), remedy=remedy)


async def _readiness(host: str, port: int) -> tuple[int, str]:
    """The HTTP code and the text of /readyz. Raises ValueError for an answer that is none of an agent's."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET /readyz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        answer = (await reader.read(_LONGEST_ANSWER)).decode(errors="replace")
    finally:
        writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    words = head.split(maxsplit=2)
    if len(words) < 2 or words[1] not in ("200", "503"):
        raise ValueError("something answers that is not an agent")
    return int(words[1]), body


async def check_network_manager(manager: NetworkManager) -> Check:
    """Whether NetworkManager answers, and is new enough."""
    name = "NetworkManager"
    try:
        version = await manager.version()
    except NetworkManagerError as error:
        remedy = "Start NetworkManager; in a container, mount /run/dbus."
        return Check(name=name, result="failed", found=str(error), remedy=remedy)
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_NETWORK_MANAGER:
        oldest = ".".join(map(str, OLDEST_NETWORK_MANAGER))
        return Check(
            name=name, result="warning", found=version, remedy=f"Lanloom is tested with {oldest} and newer."
        )
    return Check(name=name, result="ok", found=version)


async def check_cluster(client: Client, features: Sequence[Feature] = FEATURES) -> tuple[Check, ...]:
    """Check that the API server responds, and that it serves the kinds of the features."""
    checks: list[Check] = []
    for resource in resources(features):
        try:
            listing = await client.list(resource)
            checks.append(Check(name=resource.full_name, result="ok", found=f"{len(listing.items)} objects"))
        except NotFound:
            remedy = "Install the CRDs: lanloom crds --apply."
            checks.append(
                Check(name=resource.full_name, result="failed", found="unknown to the server", remedy=remedy)
            )
        except KubeError as error:
            remedy = "See that the server runs and that KUBECONFIG names it."
            return (*checks, Check(name="API server", result="failed", found=str(error), remedy=remedy))
    return tuple(checks)


def failed(checks: Iterable[Check]) -> bool:
    """Whether anything must be mended."""
    return any(check.result == "failed" for check in checks)
