"""An event loop whose time is virtual: hours of waiting run in milliseconds, the same way every time.

When nothing is ready, time jumps to the next timer. With an `rng`, the callbacks that are ready at the same
moment run in an order drawn from it, so that seeds explore interleavings that a real machine shows once in a
blue moon. The loop has no selector, no socket and no thread: what waits for one of them fails loudly. Tasks
hash by a serial number, so that sets of tasks (as in `asyncio.TaskGroup`) iterate alike in every process.

`loop.time()` starts at a plausible time of day and is meant to be handed on as the wall clock
(`now=loop.time`).
"""

import asyncio
import math
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")

START = 1_767_225_600.0
"""2026-01-01T00:00:00Z, where virtual time begins unless told otherwise."""


class DeadlockError(AssertionError):
    """Every task waits for another one: nothing is ready, no timer is set. The message says where."""


class _Task(asyncio.Task[T]):
    """A task that hashes by its serial number instead of its address."""

    def __init__(self, coro: Coroutine[Any, Any, T], *, serial: int, **options: Any) -> None:
        self.serial = serial
        super().__init__(coro, **options)

    def __hash__(self) -> int:
        return self.serial


class _Handle(asyncio.TimerHandle):
    """A callback, made and run without what debugging asks for: simulations make a hundred thousand in a second."""

    __slots__ = ()

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = self._scheduled = False
        self._repr = self._source_traceback = None

    def cancel(self) -> None:
        """As of any handle; the loop drops it when its time comes."""
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]


class VirtualLoop(asyncio.BaseEventLoop):
    """A deterministic loop in virtual time. Use `run`, or `asyncio.Runner(loop_factory=VirtualLoop)`."""

    def __init__(self, rng: Random | None = None, start: float = START) -> None:
        super().__init__()
        self._now = start
        self._rng = rng
        self._serial = 0
        self.latest = math.inf
        self._timers: list[tuple[float, _Handle]] = []
        self.failures: list[BaseException] = []
        self.set_task_factory(self._make_task)  # type: ignore[arg-type]
        self.set_exception_handler(self._note_failure)

    def time(self) -> float:
        """Virtual seconds; they pass only when nothing is ready."""
        return self._now

    def pending(self) -> list[asyncio.Task[Any]]:
        """The tasks that are not done, oldest first."""
        return sorted(asyncio.all_tasks(self), key=hash)

    def cancel_pending(self) -> None:
        """Cancel what is left until nothing is: tasks may start others while they end."""
        while left := self.pending():
            for task in left:
                task.cancel()
            self.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.run_until_complete(self.shutdown_asyncgens())

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Any, *args: Any
    ) -> asyncio.Future[Any]:
        """Done at once, in no time, by an executor of its own: those only compute. Any other thread is refused."""
        if executor is None:
            raise RuntimeError(f"{func!r} would run in a thread, which virtual time can't wait for")
        result = self.create_future()
        try:
            result.set_result(func(*args))
        except Exception as error:
            result.set_exception(error)
        return result

    def _make_task(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, T], **options: Any
    ) -> asyncio.Task[T]:
        self._serial += 1
        return _Task(coro, serial=self._serial, loop=loop, **options)

    def _note_failure(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        failure = context.get("exception")
        if failure is not None:
            self.failures.append(failure)

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        """As of any loop."""
        handle = _Handle(self._now, callback, args, self, context)
        self._ready.append(handle)  # type: ignore[attr-defined]
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As of any loop."""
        handle = _Handle(when, callback, args, self, context)
        heappush(self._timers, (when, handle))
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        """As of any loop."""
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _run_once(self) -> None:
        """One turn, in place of the base class's, which would ask a selector."""
        ready = self._ready  # type: ignore[attr-defined]
        self._collect_due()
        if self._rng is not None and len(ready) > 1:
            order = list(ready)
            self._rng.shuffle(order)
            ready.clear()
            ready.extend(order)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if handle._cancelled:
                continue
            try:
                handle._context.run(handle._callback, *handle._args)
            except (SystemExit, KeyboardInterrupt):
                raise
            except BaseException as error:
                context = {"message": f"an exception in {handle!r}", "exception": error, "handle": handle}
                self.call_exception_handler(context)

    def _collect_due(self) -> None:
        """Move due timers to the ready queue; let time jump if nothing is ready."""
        ready, timers = self._ready, self._timers  # type: ignore[attr-defined]
        while timers and timers[0][1]._cancelled:
            heappop(timers)
        if not ready and not self._stopping:  # type: ignore[attr-defined]
            if not timers:
                raise DeadlockError(self._waiting("nothing is ready and no timer is set; waiting are:"))
            self._now = max(self._now, timers[0][0])
            if self._now > self.latest:
                raise DeadlockError(self._waiting("time is over; waiting are:"))
        while timers and timers[0][0] <= self._now:
            ready.append(heappop(timers)[1])

    def _waiting(self, title: str) -> str:
        lines = [title]
        for task in self.pending():
            frames = task.get_stack(limit=1)
            where = f"{frames[-1].f_code.co_filename}:{frames[-1].f_lineno}" if frames else "not started"
            lines.append(f"  {task.get_name()} {getattr(task.get_coro(), '__qualname__', '')} at {where}")
        return "\n".join(lines)

    def _write_to_self(self) -> None:
        """Nothing to wake: the loop never sleeps."""


def run(
    main: Coroutine[Any, Any, T],
    *,
    rng: Random | None = None,
    start: float = START,
    longest: float = math.inf,
) -> T:
    """Run `main` to its end in virtual time, then cancel the tasks that it left and wait for them.

    Raises what `main` raises, `DeadlockError`, also after `longest` virtual seconds, or the first error of a task that
    is not awaited.
    """
    loop = VirtualLoop(rng, start)
    loop.latest = start + longest
    try:
        try:
            result = loop.run_until_complete(main)
        finally:
            loop.latest = math.inf
            loop.cancel_pending()
    finally:
        loop.close()
    if loop.failures:
        raise loop.failures[0]
    return result
