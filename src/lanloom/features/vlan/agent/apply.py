"""Execute plans on a host. What fails is reported by cluster network and does not hold up the rest.

The record says what the agent added to links that others made, and which sub-interfaces are its own: it is written
before anything is added, before a profile file goes, and after NetworkManager knows, as no mark could say so. It is
void after a reboot, as the added VLAN ids and the sub-interfaces are. What else is remembered here may be lost at any
moment: then NetworkManager reads every profile once more.
"""

from collections.abc import Iterable, Mapping

import msgspec
import structlog
from msgspec.structs import replace

from lanloom.api import names
from lanloom.features.vlan.rules.desired.names import network_of_profile, parse_profile_file
from lanloom.features.vlan.rules.desired.network import NOT_WRITTEN, Problem
from lanloom.features.vlan.rules.desired.owned import Added, recorded, removed, removing, unfinished
from lanloom.features.vlan.rules.desired.plan import Plan
from lanloom.node.errors import (
    KernelUnsupported,
    LinkError,
    NetworkManagerError,
    NodeError,
    ProfileError,
    RecordError,
)
from lanloom.node.ports import Host, LinkState, LinkStep, Records
from lanloom.node.steps import SetMaster

log = structlog.get_logger(__name__)

Problems = Mapping[str, tuple[Problem, ...]]
"""By cluster network."""


class PlanExecutor:
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
        if self._unloaded is None:  # a predecessor may have died before NetworkManager knew of them
            self._unloaded = set(files)
        return files

    async def execute(self, step: Plan) -> dict[str, tuple[Problem, ...]]:
        """Apply a plan; what failed."""
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
            await self._take_nics(cluster_network, steps)
            try:
                await self._host.links.apply(steps)
            except LinkError as error:
                log.warning("links-not-changed", cluster_network=cluster_network, error=str(error))
                reason = "KernelUnsupported" if isinstance(error, KernelUnsupported) else "LinkFailed"
                failures[cluster_network] = (failure(reason, error),)
        return failures

    async def _take_nics(self, cluster_network: str, steps: Iterable[LinkStep]) -> None:
        """Make NetworkManager leave NICs of the bond alone: a profile of others would take them out of it again."""
        bond = names.bond_name(cluster_network)
        nics = tuple(step.link for step in steps if isinstance(step, SetMaster) and step.master == bond)
        try:
            if nics:
                await self._host.network_manager.leave_alone(nics)
        except NetworkManagerError as error:
            log.warning("nics-not-released", nics=nics, error=str(error))

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
        """Make NetworkManager read what changed on disk; what can't be reported now is reported later."""
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
    """Return the problems together, in this order for each network."""
    result: dict[str, tuple[Problem, ...]] = {}
    for some in problems:
        for name, items in some.items():
            result[name] = (*result.get(name, ()), *items)
    return result


def failure(reason: str, error: NodeError, vid: int = 0) -> Problem:
    """Return a change that the host refused; of the whole cluster network if `vid` is 0."""
    return Problem(vid=vid, network="", reason=reason, message=str(error))


RECORD = "added"
"""In `Host.runtime`."""


class BridgeRecord:
    """One host's record, by cluster network."""

    def __init__(self, runtime: Records) -> None:
        self._runtime = runtime
        self.added: dict[str, Added] = {}

    async def load(self) -> None:
        """Read the record. What is not known to be added is never taken away."""
        try:
            self.added = recorded(await self._runtime.read(RECORD))
        except RecordError as error:
            log.warning("record-not-read", error=str(error))

    async def record(self, step: Plan) -> tuple[Plan, Problems]:
        """Write what the plan is going to add; without what concerns links of others where that fails."""
        if step.added == self.added:
            return step, {}
        try:
            await self._runtime.write(RECORD, msgspec.json.encode(step.added))
        except RecordError as error:
            changed = {
                name
                for name in self.added.keys() | step.added.keys()
                if self.added.get(name) != step.added.get(name)
            }
            return _without(step, changed), dict.fromkeys(
                sorted(changed), (failure("StateNotWritten", error),)
            )
        self.added = step.added
        return step, {}

    async def removed(self, observed: LinkState) -> None:
        """Record the links that NetworkManager has left of profiles that are gone, for the next plan to delete.

        Where that can't be written, this process knows it all the same, and the next reconcile tries again.
        """
        if not unfinished(self.added):
            return
        added = removed(self.added, observed)
        try:
            await self._runtime.write(RECORD, msgspec.json.encode(added))
        except RecordError as error:
            log.warning("record-not-written", error=str(error))
            added = removing(added, unfinished(self.added))
        self.added = added


def _without(step: Plan, cluster_networks: set[str]) -> Plan:
    return replace(
        step,
        remove_files=tuple(
            file for file in step.remove_files if network_of_profile(file) not in cluster_networks
        ),
        steps=tuple(group for group in step.steps if group[0] not in cluster_networks),
        write_files=tuple(
            file for file in step.write_files if network_of_profile(file[0]) not in cluster_networks
        ),
    )
