"""Carries plans out on a host. What fails is told by cluster network and does not hold up the rest.

What is remembered here may be lost at any moment: then NetworkManager is told of every profile once more.
"""

from collections.abc import Mapping

import structlog

from lanloom.node.errors import KernelUnsupported, LinkError, NetworkManagerError, NodeError, ProfileError
from lanloom.node.ports import Host
from lanloom.vlan.rules.names import network_of_profile, parse_profile_file
from lanloom.vlan.rules.network import NOT_WRITTEN, Problem
from lanloom.vlan.rules.plan import Plan

log = structlog.get_logger(__name__)

Problems = Mapping[str, tuple[Problem, ...]]
"""By cluster network."""


class Carrier:
    """Applies plans to one host."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._unloaded: set[str] | None = None

    async def files(self) -> Mapping[str, bytes]:
        """Our profiles. A directory that can't be read is as good as empty: writing to it will say what is wrong."""
        try:
            files = await self._host.profiles.read()
        except ProfileError as error:
            log.warning("profiles-not-read", error=str(error))
            return {}
        if self._unloaded is None:  # a predecessor may have died before it told NetworkManager of them
            self._unloaded = set(files)
        return files

    async def carry_out(self, step: Plan) -> dict[str, tuple[Problem, ...]]:
        """Applies a plan; what failed."""
        removal = await self._remove(step.remove_files)
        self._pending_loads().update(step.forget)
        await self._load()
        change = await self._change_links(step)
        writing = await self._write(step.write_files)
        await self._load()
        return merged(removal, change, writing)

    async def _change_links(self, step: Plan) -> dict[str, tuple[Problem, ...]]:
        failures: dict[str, tuple[Problem, ...]] = {}
        for cluster_network, steps in step.steps:
            log.info("links-change", cluster_network=cluster_network, steps=[repr(item) for item in steps])
            try:
                await self._host.links.apply(steps)
            except LinkError as error:
                log.warning("links-not-changed", cluster_network=cluster_network, error=str(error))
                reason = "KernelUnsupported" if isinstance(error, KernelUnsupported) else "LinkFailed"
                failures[cluster_network] = (failure(reason, error),)
        return failures

    async def _write(self, files: tuple[tuple[str, bytes], ...]) -> dict[str, tuple[Problem, ...]]:
        failures: dict[str, tuple[Problem, ...]] = {}
        for name, content in files:
            log.info("profile-change", file=name)
            self._pending_loads().add(name)
            try:
                await self._host.profiles.write(name, content)
            except ProfileError as error:
                cluster_network, vid = parse_profile_file(name) or ("", 0)
                problem = failure(NOT_WRITTEN, error, vid)
                failures[cluster_network] = (*failures.get(cluster_network, ()), problem)
        return failures

    async def _remove(self, files: tuple[str, ...]) -> dict[str, tuple[Problem, ...]]:
        failures: dict[str, tuple[Problem, ...]] = {}
        for name in files:
            log.info("profile-removal", file=name)
            self._pending_loads().add(name)
            try:
                await self._host.profiles.remove(name)
            except ProfileError as error:
                cluster_network = network_of_profile(name)
                problem = failure("ProfileNotRemoved", error)
                failures[cluster_network] = (*failures.get(cluster_network, ()), problem)
        return failures

    def _pending_loads(self) -> set[str]:
        if self._unloaded is None:
            self._unloaded = set()
        return self._unloaded

    async def _load(self) -> None:
        """Makes NetworkManager read what changed on disk; what it can't be told now stays to be told."""
        names_ = tuple(sorted(self._pending_loads()))
        if not names_:
            return
        try:
            await self._host.network_manager.load(names_)
        except NetworkManagerError as error:
            log.warning("profiles-not-loaded", files=names_, error=str(error))
            return
        self._pending_loads().difference_update(names_)


def merged(*problems: Problems) -> dict[str, tuple[Problem, ...]]:
    """The problems together, in this order for each network."""
    result: dict[str, tuple[Problem, ...]] = {}
    for some in problems:
        for name, items in some.items():
            result[name] = (*result.get(name, ()), *items)
    return result


def failure(reason: str, error: NodeError, vid: int = 0) -> Problem:
    """A change that the host refused; of the whole cluster network if `vid` is 0."""
    return Problem(vid=vid, network="", reason=reason, message=str(error))
