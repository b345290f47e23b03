"""Remembers, until the host is rebooted, what the agent added to the installer's bridge, before it is added."""

import msgspec
import structlog
from msgspec.structs import replace

from lanloom.api.names import MGMT
from lanloom.node.errors import RecordError
from lanloom.node.ports import Records
from lanloom.vlan.agent.carrier import Problems, failure
from lanloom.vlan.rules.management import Added, recorded
from lanloom.vlan.rules.names import network_of_profile
from lanloom.vlan.rules.plan import Plan

log = structlog.get_logger(__name__)

RECORD = "mgmt-added"
"""In `Host.runtime`."""


class Guest:
    """One host's record."""

    def __init__(self, runtime: Records) -> None:
        self._runtime = runtime
        self.added = Added()

    async def load(self) -> None:
        """Reads the record. What is not known to be added is never taken away."""
        try:
            self.added = recorded(await self._runtime.read(RECORD))
        except RecordError as error:
            log.warning("record-not-read", error=str(error))

    async def record(self, step: Plan) -> tuple[Plan, Problems]:
        """Writes what the plan is going to add; without what concerns the installer's bridge where that fails."""
        if step.added == self.added:
            return step, {}
        try:
            await self._runtime.write(RECORD, msgspec.json.encode(step.added))
        except RecordError as error:
            return _without_guest(step), {MGMT: (failure("StateNotWritten", error),)}
        self.added = step.added
        return step, {}


def _without_guest(step: Plan) -> Plan:
    return replace(
        step,
        steps=tuple(group for group in step.steps if group[0] != MGMT),
        write_files=tuple(file for file in step.write_files if network_of_profile(file[0]) != MGMT),
    )
