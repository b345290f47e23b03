"""The checks of `lanloom doctor`: each returns its finding and, for a problem, the remedy."""

import asyncio
import json
import os
import stat
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.kube.errors import Forbidden, KubeError, NotFound, UnreadableObjects
from lanloom.kube.ports import Client
from lanloom.node.errors import LinkError, NetworkManagerError
from lanloom.node.ports import Links, NetworkManager
from lanloom.processes.definitions import Outcome, install, resources
from lanloom.runtime.certificates import DAY, RENEWAL_DAYS, authority_ends
from lanloom.runtime.cni.programs import NoShim, foreign_remedy, is_foreign, program, socket_in
from lanloom.runtime.feature import Check, Feature, checks_of, cni_socket
from lanloom.runtime.probes import parse_address
from lanloom.text import authority

API_SERVER = "API server"
"""The name of the check that ends all others of a cluster."""

CAP_NET_ADMIN = 12
_ROOT = 0
OLDEST_NETWORK_MANAGER = (1, 42)
"""The version that Lanloom is tested with; older ones may treat an edited profile differently."""


ANSWER_SECONDS = 5.0
"""Time limit for an agent's readiness, a plugin and a socket."""

_LONGEST_ANSWER = 16 * 1024


def check_rights(status: str) -> Check:
    """Check that this process may change links; `status` is the text of /proc/self/status."""
    line = next((line for line in status.splitlines() if line.startswith("CapEff:")), "CapEff: 0")
    if int(line.split()[1], 16) >> CAP_NET_ADMIN & 1:
        return Check(name="rights", result="ok", found="CAP_NET_ADMIN")
    remedy = "Run as root, or give the container the capability NET_ADMIN."
    return Check(name="rights", result="failed", found="no CAP_NET_ADMIN", remedy=remedy)


def check_profiles(directory: Path) -> Check:
    """Check that profiles can be written."""
    name = "profile directory"
    try:
        there = stat.S_ISDIR(directory.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        there = False
    except OSError as error:
        found = f"{directory}: {error.strerror}"
        return Check(name=name, result="failed", found=found, remedy="Run as root.")
    if not there:
        remedy = "Install NetworkManager, or mount its directory of profiles and name it with --profiles."
        return Check(name=name, result="failed", found=f"{directory} does not exist", remedy=remedy)
    if not os.access(directory, os.W_OK):
        return Check(name=name, result="failed", found=f"{directory} can't be written", remedy="Run as root.")
    return Check(name=name, result="ok", found=str(directory))


def check_records(name: str, directory: Path) -> Check:
    """Check that the agent can keep records in a directory, which it creates if it is missing."""
    try:
        status = directory.lstat()
    except FileNotFoundError:
        return _missing_records(name, directory)
    except OSError as error:
        return _bad_records(name, f"{directory}: {error.strerror}")
    if not stat.S_ISDIR(status.st_mode):
        return _bad_records(name, f"{directory} is not a directory")
    if status.st_uid not in (os.geteuid(), _ROOT) or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        remedy = f"Give it to the agent's user alone: chown root {directory}; chmod 755 {directory}."
        return Check(name=name, result="failed", found=f"others may write to {directory}", remedy=remedy)
    if not os.access(directory, os.W_OK):
        return _bad_records(name, f"{directory} can't be written")
    return Check(name=name, result="ok", found=str(directory))


def _missing_records(name: str, directory: Path) -> Check:
    parent = next(path for path in directory.absolute().parents if path.exists())
    if os.access(parent, os.W_OK):
        return Check(name=name, result="ok", found=f"{directory} will be created")
    return _bad_records(name, f"{directory} does not exist and can't be created in {parent}")


def _bad_records(name: str, found: str) -> Check:
    remedy = "Run as root; in a container, mount a directory of the host there, as deploy/agent.yaml does."
    return Check(name=name, result="failed", found=found, remedy=remedy)


async def check_agent(address: str) -> Check:
    """Check the readiness of an agent at HOST:PORT. No agent is no problem. Raises ValueError."""
    host, port = parse_address(address)
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            code, body = await _readiness(host, port)
    except ConnectionRefusedError:
        return Check(name="agent", result="ok", found=f"no agent listens at {address}")
    except (OSError, TimeoutError, ValueError) as error:
        remedy = (
            "Read the agent's log. If another program has the port, give the agent another --metrics-address."
        )
        found = f"no readiness from {address}: {str(error) or 'no answer in time'}"
        return Check(name="agent", result="failed", found=found, remedy=remedy)
    if code == 200:
        return Check(name="agent", result="ok", found="ready")
    remedy = "If the agent has just started, wait; otherwise correct what it reports, and read its log."
    return Check(name="agent", result="failed", found="; ".join(body.splitlines()), remedy=remedy)


async def _readiness(host: str, port: int) -> tuple[int, str]:
    """Return the HTTP code and the text of /readyz. Raises ValueError for a response that is not an agent's."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(f"GET /readyz HTTP/1.1\r\nHost: {authority(host, port)}\r\n\r\n".encode())
        answer = (await reader.read(_LONGEST_ANSWER)).decode(errors="replace")
    finally:
        writer.close()
    head, _, body = answer.partition("\r\n\r\n")
    words = head.split(maxsplit=2)
    if len(words) < 2 or words[1] not in ("200", "503"):
        raise ValueError("the response is not an agent's")
    return int(words[1]), body


async def check_network_manager(manager: NetworkManager) -> Check:
    """Check that NetworkManager responds, and is new enough."""
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


def check_authority(certificates: bytes, now: float) -> Check:
    """Check that the CA of a kubeconfig (PEM, as of `now` in seconds since the epoch) is good for a while."""
    name = "CA of the kubeconfig"
    try:
        left = authority_ends(certificates) - now
    except ValueError as error:
        return Check(name=name, result="failed", found=str(error), remedy="Copy the kubeconfig again.")
    found = f"ends in {int(left // DAY)} days"
    if left > RENEWAL_DAYS * DAY:
        return Check(name=name, result="ok", found=found)
    remedy = "Copy the kubeconfig again from the server, which has the next CA in it."
    return Check(name=name, result="failed" if left <= 0 else "warning", found=found, remedy=remedy)


async def check_cluster(client: Client, features: Sequence[Feature] = FEATURES) -> tuple[Check, ...]:
    """Check that the API server responds, that it serves the kinds of the features, and what these check themselves."""
    checks: list[Check] = []
    outcomes = await _outcomes(client, features)
    for resource in resources(features):
        try:
            checks.append(await _check_kind(client, resource, outcomes.get(resource.full_name)))
        except KubeError as error:
            remedy = "Check that the server runs and that KUBECONFIG names it."
            return (*checks, Check(name=API_SERVER, result="failed", found=str(error), remedy=remedy))
    for check in checks_of(features):
        checks += await check(client)
    return tuple(checks)


async def _check_kind(client: Client, resource: Resource[Any], outcome: Outcome | None) -> Check:
    """Check that a kind is served, as this version defines it. Raises KubeError.

    `outcome` is that of an installation of this version.
    """
    name = resource.full_name
    try:
        listing = await client.list(resource)
        found = f"{len(listing.items)} objects"
    except NotFound:
        remedy = "Install the CRDs: lanloom crds --apply."
        return Check(name=name, result="failed", found="unknown to the server", remedy=remedy)
    except UnreadableObjects as error:
        return Check(name=name, result="failed", found=str(error), remedy="Correct or delete these objects.")
    except Forbidden as error:
        remedy = f"Use a kubeconfig that may list {resource.plural}."
        return Check(name=name, result="unknown", found=str(error), remedy=remedy)
    if outcome == "being deleted":
        found += "; the definition is being deleted, so none can be created"
        remedy = (
            f"Let a manager run until `kubectl get {name} -A` shows none, and see `lanloom why-not-deleted`. Then "
            "install the CRDs again: lanloom crds --apply."
        )
        return Check(name=name, result="failed", found=found, remedy=remedy)
    if outcome == "updated":
        found += "; the definition is not that of this version, so the server may drop fields"
        remedy = "Install the CRDs of this version: lanloom crds --apply."
        return Check(name=name, result="warning", found=found, remedy=remedy)
    return Check(name=name, result="ok", found=found)


async def _outcomes(client: Client, features: Sequence[Feature]) -> Mapping[str, Outcome]:
    """Return what an installation of this version would do to each definition; nothing if they can't be read."""
    try:
        plan = await install(client, dry_run=True, features=tuple(features))
    except KubeError:
        return {}
    return {item.name: item.outcome for item in plan}


async def check_mtus(kernel: Links) -> Check:
    """Check for VLAN links that are smaller than their bridge: those follow it down, and never up again."""
    name = "VLAN links"
    try:
        links = (await kernel.dump()).links
    except LinkError as error:
        remedy = "Run as root, on the node itself."
        return Check(name=name, result="failed", found=str(error), remedy=remedy)
    shrunk = sorted(
        (link.name, link.mtu, link.parent, parent.mtu)
        for link in links.values()
        if link.kind == "vlan"
        and (parent := links.get(link.parent)) is not None
        and parent.kind == "bridge"
        and link.mtu < parent.mtu
    )
    if not shrunk:
        return Check(name=name, result="ok", found="none is smaller than its bridge")
    found = "; ".join(
        f"{link} has MTU {mtu}, and its bridge {bridge} {large}" for link, mtu, bridge, large in shrunk
    )
    link, _, bridge, large = shrunk[0]
    remedy = (
        f"If it was not set on purpose, a port of {bridge} was smaller for a while, by a NAD with a small mtu or "
        f"a LAN of an earlier version: ip link set {link} mtu {large}; below 1280 it lost its IPv6 addresses as "
        "well, which a reboot of the node restores."
    )
    return Check(name=name, result="warning", found=found, remedy=remedy)


def failed(checks: Iterable[Check]) -> bool:
    """Return whether any check failed."""
    return any(check.result == "failed" for check in checks)


_PLUGIN, _SOCKET = "CNI plugin", "CNI socket"


async def check_cni(
    socket: Path,
    programs: Path,
    *,
    agent_runs: bool,
    seen: Path | None = None,
    features: Sequence[Feature] = FEATURES,
) -> tuple[Check, ...]:
    """Check the plugins and their sockets. A machine without any of them, and without an agent, does not need them.

    A feature may have an agent of its own here, which has a socket of its own. `seen` is where this process sees
    `socket`, if not at its path on the node.
    """
    wanted = {
        programs / name: (socket, cni_socket([feature], socket))
        for feature in features
        for name in feature.cni
        if not feature.cni_optional or os.access(programs / name, os.F_OK)
    }
    if not (agent_runs or any(os.access(path, os.F_OK) for path in (*wanted, seen or socket))):
        return (Check(name=_PLUGIN, result="ok", found="not in use: neither plugin nor socket"),)
    plugins = [await _check_plugin(path, sockets) for path, sockets in wanted.items()]
    users: dict[Path, list[str]] = {}
    for path, sockets in wanted.items():
        users.setdefault(_socket_of(path, sockets), []).append(path.name)
    used = users or {socket: []}
    return (
        *plugins,
        *[
            await _check_socket((seen or socket).with_name(at.name), " or ".join(names), agent_runs)
            for at, names in used.items()
        ],
    )


def _socket_of(path: Path, sockets: Sequence[Path]) -> Path:
    """Return the socket that a plugin uses, or would if it were installed."""
    with suppress(OSError):
        found = socket_in(path.read_bytes())
        if found is not None and found in sockets:
            return found
    return sockets[0]


async def _check_plugin(path: Path, sockets: Sequence[Path]) -> Check:
    """Check that a runtime can run the plugin, and that it is this version's, for one of these sockets."""
    remedy = f"Restart the agent with --cni-bin {path.parent}; it installs the plugin there."
    try:
        foreign = is_foreign(path)
    except OSError as error:
        found = f"{path} can't be read: {error.strerror}"
        return Check(name=_PLUGIN, result="unknown", found=found, remedy="Run as root.")
    if foreign:
        found = f"{path} is another project's program: {_effect(path.name)}"
        remedy = f"If this node is to run {path.name}, {foreign_remedy(path)}."
        return Check(name=_PLUGIN, result="warning", found=found, remedy=remedy)
    if not os.access(path, os.X_OK):
        what = "can't be executed" if os.access(path, os.F_OK) else "does not exist"
        return Check(
            name=_PLUGIN, result="warning", found=f"{path} {what}: {_effect(path.name)}", remedy=remedy
        )
    try:
        complaint, ours = await _complaint(path), _is_ours(path, sockets)
    except (OSError, TimeoutError) as error:
        found = f"{path} can't be run: {str(error) or 'it does not exit'}"
        return Check(name=_PLUGIN, result="failed", found=found, remedy=remedy)
    if complaint:
        remedy = (
            "Install what the error names; if it names nothing, restart the agent, which replaces the plugin."
        )
        return Check(name=_PLUGIN, result="failed", found=f"{path}: {complaint}", remedy=remedy)
    if not ours:
        found = f"{path} is of another version, or for a socket other than {sockets[0]}"
        return Check(name=_PLUGIN, result="warning", found=found, remedy=remedy)
    return Check(name=_PLUGIN, result="ok", found=str(path))


def _effect(plugins: str) -> str:
    return f"pods that need {plugins} do not start"


def _is_ours(path: Path, sockets: Sequence[Path]) -> bool:
    """Return whether it is the shim of this installation; where that has none, whether it is one of this protocol."""
    content = path.read_bytes()
    try:
        return content in [program(socket) for socket in sockets]
    except NoShim:
        return socket_in(content) in sockets


async def _complaint(path: Path) -> str:
    """Ask the plugin for its versions; return its error, empty without one. Raises OSError, TimeoutError."""
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
        return "its output is not a CNI plugin's"


async def _check_socket(path: Path, plugins: str, agent_runs: bool) -> Check:
    """Check that the agent listens, and that only root may connect."""
    remedy = (
        "Read the agent's log; use the agent's value of --cni-socket." if agent_runs else "Start the agent."
    )
    try:
        alone = _is_private(path)
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_unix_connection(path)
        writer.close()
    except (OSError, TimeoutError) as error:
        why = "does not exist" if isinstance(error, FileNotFoundError) else "does not accept connections"
        found = f"{path} {why}: {_effect(plugins)}"
        return Check(name=_SOCKET, result="failed" if agent_runs else "warning", found=found, remedy=remedy)
    if not alone:
        remedy = "Find the program that changed its permissions, and restart the agent."
        return Check(name=_SOCKET, result="failed", found=f"others may write to {path}", remedy=remedy)
    return Check(name=_SOCKET, result="ok", found=str(path))


def _is_private(path: Path) -> bool:
    status = path.stat()
    return status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077
