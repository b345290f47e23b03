"""The metrics of every process of Lanloom: itself, its reconciles, its watches, and its requests to the API server.

Metrics are kept for one process object, not for the Python process, so that a test may have many. What can be read at a
scrape (queues, stores) is read then, by a collector; only what would be lost otherwise is counted as it happens. No
label takes a value that users or other machines choose without bounds: resources, verbs and reasons are ours, cluster
networks are few because each needs NICs of its own.
"""

import gc
import os
import platform
import resource
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from lanloom import __version__
from lanloom.kube.controller import Controller, Outcome
from lanloom.kube.informer import Informer
from lanloom.runtime.exposition import (
    CollectorRegistry,
    Counter,
    Histogram,
    Metric,
    Sample,
    generate_latest,
)

RECONCILE_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
REQUEST_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Upper bounds in seconds; a request ends after 30."""

Row = tuple[Sequence[str], float]
"""The labels' values, and the value."""


class OnDemand:
    """A collector whose metrics are computed at each scrape."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self._collect = collect

    def collect(self) -> Iterable[Metric]:
        """Return the metrics as of now."""
        return self._collect()


def gauge(name: str, documentation: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    """Return a family of gauges; it is there, without samples, also where there are no rows."""
    return _family(name, documentation, "gauge", labels, rows)


def counter(name: str, documentation: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    """Return a family of counters; `name` is without `_total`."""
    return _family(name, documentation, "counter", labels, rows)


def _family(name: str, documentation: str, type: str, labels: Sequence[str], rows: Iterable[Row]) -> Metric:
    shown = f"{name}_total" if type == "counter" else name
    samples = [Sample(shown, dict(zip(labels, values, strict=True)), number) for values, number in rows]
    return Metric(name, documentation, type, samples)


class ProgramMetrics:
    """A collector of them. `proc` is where /proc is, `process` the folder of the process there."""

    def __init__(self, proc: Path = Path("/proc"), process: str = "self") -> None:
        self._process = proc / process
        self._boot = 0.0
        with suppress(OSError):
            lines = (proc / "stat").read_text().splitlines()
            self._boot = next((float(line.split()[1]) for line in lines if line.startswith("btime ")), 0.0)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics as of now; without /proc, those of Python alone."""
        if self._boot:
            with suppress(OSError):
                yield from self._usage()
            with suppress(OSError):
                yield from self._files()
        yield _python()
        yield from _garbage()

    def _usage(self) -> Iterator[Metric]:
        fields = (self._process / "stat").read_text().rpartition(")")[2].split()
        ticks = os.sysconf("SC_CLK_TCK")
        yield _single("process_virtual_memory_bytes", "Virtual memory size in bytes.", float(fields[20]))
        yield _single(
            "process_resident_memory_bytes",
            "Resident memory size in bytes.",
            float(fields[21]) * resource.getpagesize(),
        )
        yield _single(
            "process_start_time_seconds",
            "Start time of the process since unix epoch in seconds.",
            float(fields[19]) / ticks + self._boot,
        )
        yield _single(
            "process_cpu_seconds",
            "Total user and system CPU time spent in seconds.",
            float(fields[11]) / ticks + float(fields[12]) / ticks,
            "counter",
        )

    def _files(self) -> Iterator[Metric]:
        limits = (self._process / "limits").read_text().splitlines()
        most = next(float(line.split()[3]) for line in limits if line.startswith("Max open file"))
        opened = len(os.listdir(self._process / "fd"))  # noqa: PTH208 - only the number
        yield _single("process_open_fds", "Number of open file descriptors.", opened)
        yield _single("process_max_fds", "Maximum number of open file descriptors.", most)


class FeatureMetrics:
    """The metrics of a feature in an agent; constructed with the process's registry."""

    def missing(self) -> Iterator[str]:
        """Name what is missing until the feature is ready."""
        return iter(())


class ProcessMetrics:
    """The metrics that manager, agent and server have in common, in a registry that others add theirs to."""

    def __init__(self) -> None:
        self._informers: tuple[Informer[Any], ...] | None = None
        """What the process reads, once it is built: nothing for an agent whose features answer CNI calls alone."""
        self.registry = CollectorRegistry()
        self.registry.register(ProgramMetrics())
        self.registry.register(OnDemand(_build))
        self._reconciles = Histogram(
            "lanloom_reconcile_duration_seconds",
            "How long reconciles took, by how they ended: done, later, retry or error.",
            ("controller", "outcome"),
            buckets=RECONCILE_BUCKETS,
            registry=self.registry,
        )
        self._requests = Counter(
            "lanloom_api_requests",
            "Requests to the API server; the code is `error` where no answer began.",
            ("verb", "resource", "code"),
            registry=self.registry,
        )
        self._latency = Histogram(
            "lanloom_api_request_duration_seconds",
            "How long the API server took to begin its answer.",
            ("verb",),
            buckets=REQUEST_BUCKETS,
            registry=self.registry,
        )

    def request(self, verb: str, resource: str, code: str, seconds: float) -> None:
        """Count a request, as an observer of `lanloom.kube.http`."""
        self._requests.labels(verb, resource, code).inc()
        self._latency.labels(verb).observe(seconds)

    def reconcile(self, controller: str, _key: Hashable, seconds: float, outcome: Outcome) -> None:
        """Count a reconcile, as an observer of `lanloom.kube.controller`."""
        self._reconciles.labels(controller, outcome).observe(seconds)

    def follow(self, informers: Iterable[Informer[Any]], controllers: Iterable[Controller[Any]]) -> None:
        """Show these informers and queues from now on; called once."""
        followed, queues = tuple(informers), tuple(controllers)
        self._informers = followed
        self.registry.register(OnDemand(lambda: _kit(followed, queues)))

    def unread(self) -> Iterator[str]:
        """Name the kinds that have not been read from the API server yet."""
        if self._informers is None:
            yield "it is starting"
        for item in self._informers or ():
            if not item.is_synced:
                yield f"{item.title} have not been read from the API server yet"

    def exposition(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)


def _build() -> Iterator[Metric]:
    sample = Sample("lanloom_build_info", {"version": __version__}, 1)
    yield Metric("lanloom_build", "The version that runs.", "info", [sample])


def _kit(informers: Sequence[Informer[Any]], controllers: Sequence[Controller[Any]]) -> Iterator[Metric]:
    yield gauge(
        "lanloom_queue_depth",
        "Keys that wait for a worker.",
        ("controller",),
        [((item.name,), item.depth) for item in controllers],
    )
    yield gauge(
        "lanloom_informer_synced",
        "Whether the objects of a resource were read once.",
        ("resource",),
        [(_label(item), item.is_synced) for item in informers],
    )
    yield gauge(
        "lanloom_informer_objects",
        "Objects in the store of a resource.",
        ("resource",),
        [(_label(item), len(item.store)) for item in informers],
    )
    yield gauge(
        "lanloom_informer_unreadable_objects",
        "Objects of a resource that can't be read. Each counts as it was when it last could be, if ever.",
        ("resource",),
        [(_label(item), len(item.unreadable)) for item in informers],
    )
    yield gauge(
        "lanloom_informer_silence_seconds",
        "Seconds since the API server was last heard of on the watch of a resource; it sends a bookmark each minute.",
        ("resource",),
        [(_label(item), item.silence) for item in informers],
    )
    yield counter(
        "lanloom_informer_watch_restarts",
        "Watches that were started again; a server ends each after ten minutes.",
        ("resource",),
        [(_label(item), item.restarts) for item in informers],
    )


def _label(informer: Informer[Any]) -> tuple[str]:
    return (informer.title,)


def _single(name: str, documentation: str, value: float, type: str = "gauge") -> Metric:
    suffix = "_total" if type == "counter" else ""
    return Metric(name, documentation, type, [Sample(name + suffix, {}, value)])


def _python() -> Metric:
    major, minor, patch = platform.python_version_tuple()
    labels = {
        "version": platform.python_version(),
        "implementation": platform.python_implementation(),
        "major": major,
        "minor": minor,
        "patchlevel": patch,
    }
    return Metric("python_info", "Python platform information", "gauge", [Sample("python_info", labels, 1)])


def _garbage() -> Iterator[Metric]:
    stats = gc.get_stats()
    for name, key, text in (
        ("objects_collected", "collected", "Objects collected during gc"),
        ("objects_uncollectable", "uncollectable", "Uncollectable objects found during GC"),
        ("collections", "collections", "Number of times this generation was collected"),
    ):
        full = f"python_gc_{name}"
        samples = [
            Sample(f"{full}_total", {"generation": str(number)}, stat[key])
            for number, stat in enumerate(stats)
        ]
        yield Metric(full, text, "counter", samples)
