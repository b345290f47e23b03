"""What the agent remembers of this host after it died, or after a reboot: read once, written before it is acted on.

A memory that can't be read, or that is another cluster's, is dropped: the agent then waits for the API server, as on a
new host.
"""

import asyncio
from collections.abc import Callable

import msgspec
import structlog
from msgspec import Struct
from msgspec.structs import replace

from lanloom.node.errors import RecordError
from lanloom.node.ports import Host
from lanloom.vlan.rules.forms import Form
from lanloom.vlan.rules.saved import restored
from lanloom.vlan.rules.trial import BOOT_PATIENCE, Memory

log = structlog.get_logger(__name__)

RECORD = "vlan-networks"
"""In `Host.state`: the memory."""

ALIVE = "vlan-alive"
"""In `Host.runtime`: there since the agent's first start after a boot."""


class _Saved(Struct, frozen=True, kw_only=True):
    """The record. `began` is when the trial began, in seconds since the epoch."""

    cluster: str
    memory: Memory
    began: float = 0.0


class MemoryRecord:
    """One host's record. `now` gives seconds since the epoch; times in a Memory are the loop's."""

    def __init__(self, host: Host, cluster: str, now: Callable[[], float]) -> None:
        self._state = host.state
        self._runtime = host.runtime
        self._cluster = cluster
        self._now = now
        self._written: Memory | None = None

    async def load(self) -> Memory | None:
        """What was remembered last, or None. After a reboot a trial begins anew, with more patience."""
        booted = await self._booted()
        try:
            content = await self._state.read(RECORD)
            if content is None:
                return None
            saved = msgspec.json.decode(content, type=_Saved)
        except (RecordError, msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            log.warning("memory-dropped", error=str(error))
            return None
        if saved.cluster != self._cluster:
            log.warning("memory-dropped", error=f"it is that of the cluster {saved.cluster}")
            return None
        memory = _lawful(saved.memory)
        if memory is None:
            log.warning("memory-dropped", error="it holds a network that no agent would have made")
            return None
        self._written = self._resumed(memory, saved.began, booted)
        return self._written

    async def keep(self, memory: Memory) -> None:
        """Writes what is to be remembered, if it is not there yet. Raises RecordError."""
        if memory is self._written or memory == self._written:
            return
        began = memory.trial.began if memory.trial else 0.0
        wall = self._now() - (asyncio.get_running_loop().time() - began) if memory.trial else 0.0
        saved = _Saved(cluster=self._cluster, memory=memory, began=wall)
        await self._state.write(RECORD, msgspec.json.encode(saved))
        self._written = memory

    def _resumed(self, memory: Memory, began: float, booted: bool) -> Memory:
        now = asyncio.get_running_loop().time()
        if memory.trial is None:
            return memory
        if booted:
            return replace(memory, trial=replace(memory.trial, began=now, patience=BOOT_PATIENCE))
        elapsed = max(0.0, self._now() - began)
        return replace(memory, trial=replace(memory.trial, began=now - elapsed))

    async def _booted(self) -> bool:
        """Whether the host was rebooted since an agent ran here."""
        try:
            if await self._runtime.read(ALIVE) is not None:
                return False
            await self._runtime.write(ALIVE, b"")
        except RecordError as error:
            log.warning("runtime-not-kept", error=str(error))
            return False
        return True


def _lawful(memory: Memory) -> Memory | None:
    """The memory with every network judged again; None where one is odd: part of it must not pass for all."""
    carried, fallback = _judged(memory.carried), _judged(memory.fallback)
    if carried is None or fallback is None:
        return None
    return replace(memory, carried=carried, fallback=fallback)


def _judged(forms: tuple[Form, ...]) -> tuple[Form, ...] | None:
    networks = [restored(form.network) for form in forms]
    if len({form.name for form in forms}) < len(forms):
        return None
    known = [replace(form, network=network) for form, network in zip(forms, networks, strict=True) if network]
    return tuple(known) if len(known) == len(forms) else None
