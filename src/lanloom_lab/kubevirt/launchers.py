"""The launchers of guests: one in each virt-launcher pod that runs.

The pod's kubelet keeps a launcher, and the controllers of machines use it.
"""

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

import structlog

from lanloom_lab.errors import LabError
from lanloom_lab.guests import calls
from lanloom_lab.guests.calls import Call, Ended, Reply
from lanloom_lab.guests.domain import Domain
from lanloom_lab.workloads.containers import Ended as ContainerEnd
from lanloom_lab.workloads.containers import State
from lanloom_lab.workloads.hosts import ExecSession, Hosts
from lanloom_lab.workloads.pods import Pod
from lanloom_lab.workloads.runs import Run

log = structlog.get_logger(__name__)

PROGRAM = ("python3", "-m", "lanloom_lab.guests.launcher")
LOST = "the launcher's node went away"


class LauncherFailed(Exception):
    """A launcher could not do what it was asked for; the message is its own."""


class Launcher:
    """The launcher of one pod. It is started with the guest. `changed` is called when it has ended.

    `domain` is the guest's hardware as it runs; None before.
    """

    def __init__(self, hosts: Hosts, node: str, netns: str, file: Path, changed: Callable[[], None]) -> None:
        self.node = node
        self.domain: Domain | None = None
        self.end: Ended | None = None
        self._hosts = hosts
        self._netns = netns
        self._file = file
        self._changed = changed
        self._session: ExecSession | None = None
        self._numbers = 0
        self._waiting: dict[int, asyncio.Future[Reply]] = {}
        self._task: asyncio.Task[None] | None = None

    @property
    def runs(self) -> bool:
        """Whether it has a guest, or waits for one."""
        return self.domain is not None and self.end is None

    async def start(self, domain: Domain, *, incoming: bool = False) -> None:
        """Start a guest. Raises LauncherFailed."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._task = asyncio.create_task(self._keep(begun), name=f"launcher-{self._netns}")
        await begun
        self.domain = domain
        try:
            reply = await self.ask(calls.Start(number=self._next(), domain=domain, incoming=incoming))
            self.domain = domain.with_mtus(reply.mtus)
        except LauncherFailed:
            await self.kill()
            raise

    async def ask(self, call: Call) -> Reply:
        """Return the reply to a call, to which a number is given. Raises LauncherFailed."""
        if self._session is None:
            raise LauncherFailed(LOST)
        numbered = call if call.number else calls.numbered(call, self._next())
        waiting: asyncio.Future[Reply] = asyncio.get_running_loop().create_future()
        self._waiting[numbered.number] = waiting
        try:
            await self._session.send_line(calls.encode(numbered))
            reply = await waiting
        finally:
            del self._waiting[numbered.number]
        if reply.error:
            raise LauncherFailed(reply.error)
        return reply

    async def kill(self) -> None:
        """End the launcher, and its guest with it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _next(self) -> int:
        self._numbers += 1
        return self._numbers

    async def _keep(self, begun: "asyncio.Future[None]") -> None:
        words = ("ip", "netns", "exec", self._netns, *PROGRAM)
        try:
            async with self._hosts.session(self.node, *words, log=self._file) as session:
                self._session = session
                begun.set_result(None)
                async for line in session.receive():
                    self._take(calls.decode_answer(line))
        except (LabError, OSError) as error:
            log.info("a launcher's node is away", netns=self._netns, error=str(error))
        finally:
            self._session = None
            self.end = self.end or Ended(status=1, text=LOST)
            self._fail(self.end.text or LOST)
            if not begun.done():
                begun.set_exception(LauncherFailed(LOST))
            self._changed()

    def _take(self, answer: calls.AnyAnswer) -> None:
        match answer:
            case Reply(number=number):
                if (waiting := self._waiting.get(number)) is not None and not waiting.done():
                    waiting.set_result(answer)
            case Ended():
                self.end = answer

    def _fail(self, why: str) -> None:
        for waiting in self._waiting.values():
            if not waiting.done():
                waiting.set_exception(LauncherFailed(why))


class Launchers:
    """The launchers of all pods that run, by the pods' uids."""

    def __init__(self) -> None:
        self._known: dict[str, Launcher] = {}
        self._listeners: list[Callable[[str], None]] = []

    def on_end(self, listener: Callable[[str], None]) -> None:
        """Call with a pod's uid when its launcher has ended."""
        self._listeners.append(listener)

    def of(self, uid: str) -> Launcher | None:
        """Return the launcher of a pod; None while the pod does not run."""
        return self._known.get(uid)

    def add(self, uid: str, launcher: Launcher) -> None:
        """Note that a pod runs."""
        self._known[uid] = launcher

    def remove(self, uid: str) -> None:
        """Note that a pod runs no more."""
        self._known.pop(uid, None)

    def ended(self, uid: str) -> None:
        """Note that the launcher of a pod has ended."""
        for listener in self._listeners:
            listener(uid)


class LauncherRun:
    """A virt-launcher pod on its node: its network, and the launcher in it once there is a guest to run."""

    def __init__(
        self,
        pod: Pod,
        network: Run,
        launchers: Launchers,
        make: Callable[[Callable[[], None]], Launcher],
        now: Callable[[], float],
        changed: Callable[[], None],
    ) -> None:
        self._pod = pod
        self._network = network
        self._launchers = launchers
        self._make = make
        self._now = now
        self._changed = changed
        self._began = 0.0
        self._launcher: Launcher | None = None
        self._end: ContainerEnd | None = None

    async def begin(self) -> None:
        """As the protocol says."""
        await self._network.begin()
        self._began = self._now()
        self._launcher = self._make(self._ended)
        self._launchers.add(self._pod.metadata.uid, self._launcher)

    def _ended(self) -> None:
        if self._launcher is not None and self._launcher.end is not None:
            end = self._launcher.end
            self._end = ContainerEnd(end.status, end.text, self._began, self._now())
        self._launchers.ended(self._pod.metadata.uid)
        self._changed()

    async def end(self, *, at_once: bool) -> bool:
        """As the protocol says: first the guest, then the network."""
        await self.abandon()
        return await self._network.end(at_once=at_once)

    async def abandon(self) -> None:
        """As the protocol says."""
        if self._launcher is not None:
            self._launchers.remove(self._pod.metadata.uid)
            await self._launcher.kill()

    def states(self) -> tuple[State, ...]:
        """As the protocol says: a launcher that has ended is not started again."""
        if self._end is None:
            return self._network.states()
        return tuple(State(terminated=self._end) for _ in self._pod.spec.containers)

    def addresses(self) -> Iterable[str]:
        """As the protocol says."""
        return self._network.addresses()

    def annotations(self) -> dict[str, str]:
        """As the protocol says."""
        return self._network.annotations()
