"""Metrics and their text, in Prometheus' format 0.0.4.

The names are those of prometheus_client, whose text for the same numbers is the same. It is not used because it imports
servers and clients of HTTP, and parsers of mail and HTML, which take 2 MB of each agent.

Only the event loop counts: there are no locks.
"""

from abc import ABC, abstractmethod
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf, isnan
from typing import Generic, NamedTuple, Protocol, TypeVar

from msgspec import Struct, field

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

T = TypeVar("T")


class Sample(NamedTuple):
    """A number with its name, suffix included, and its labels."""

    name: str
    labels: Mapping[str, str]
    value: float


class Metric(Struct):
    """A family of samples; the name of a counter is without `_total`, that of an info without `_info`."""

    name: str
    documentation: str
    type: str
    samples: list[Sample] = field(default_factory=list)


class Collector(Protocol):
    """A source of metrics."""

    def collect(self) -> Iterable[Metric]:
        """Return the metrics as of now."""
        ...


class CollectorRegistry:
    """The metrics of a process, in the order in which they were registered."""

    def __init__(self) -> None:
        self._collectors: list[Collector] = []

    def register(self, collector: Collector) -> None:
        """Add metrics."""
        self._collectors.append(collector)

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics as of now."""
        for collector in self._collectors:
            yield from collector.collect()

    def get_sample_value(self, name: str, labels: Mapping[str, str] = {}) -> float | None:
        """Return the number of a sample with exactly these labels; None if it is not there."""
        samples = (sample for metric in self.collect() for sample in metric.samples)
        return next((each.value for each in samples if (each.name, each.labels) == (name, labels)), None)


class CounterSeries:
    """A number that grows."""

    def __init__(self) -> None:
        self.value = 0.0

    def inc(self, amount: float = 1) -> None:
        """Count. Raises ValueError for less than nothing."""
        if amount < 0:
            raise ValueError("a counter only grows")
        self.value += amount


class GaugeSeries:
    """A number."""

    def __init__(self) -> None:
        self.value = 0.0

    def set(self, value: float) -> None:
        """Set it."""
        self.value = float(value)


class HistogramSeries:
    """Numbers by the bucket into which they fall, and their sum."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self._bounds = bounds
        self.counts = [0] * len(bounds)
        self.sum = 0.0

    def observe(self, value: float) -> None:
        """Count a number."""
        self.sum += value
        self.counts[bisect_left(self._bounds, value)] += 1


class _Instrument(ABC, Generic[T]):
    """A metric that is counted as things happen: a series for each combination of values of its labels."""

    type = ""

    def __init__(
        self, name: str, documentation: str, labelnames: Sequence[str] = (), *, registry: CollectorRegistry
    ) -> None:
        self._name, self._documentation, self._labelnames = name, documentation, tuple(labelnames)
        self._series: dict[tuple[str, ...], T] = {}
        if not labelnames:
            self.labels()  # a metric without labels is there from the start
        registry.register(self)

    def labels(self, *values: object) -> T:
        """Return the series of these values. Raises ValueError for more or fewer than the labels."""
        key = tuple(map(str, values))
        series = self._series.get(key)
        if series is None:
            if len(key) != len(self._labelnames):
                raise ValueError(f"{self._name} has the labels {self._labelnames}, not as many as {key}")
            series = self._series[key] = self._new()
        return series

    def collect(self) -> Iterator[Metric]:
        """Yield the metric as of now."""
        metric = Metric(self._name, self._documentation, self.type)
        for key, series in self._series.items():
            metric.samples.extend(self._samples(dict(zip(self._labelnames, key, strict=True)), series))
        yield metric

    @abstractmethod
    def _new(self) -> T:
        """Return a series without observations."""

    @abstractmethod
    def _samples(self, labels: dict[str, str], series: T) -> Iterator[Sample]:
        """Yield the samples of a series."""


class Counter(_Instrument[CounterSeries]):
    """A metric that grows; its name is without `_total`."""

    type = "counter"

    def inc(self, amount: float = 1) -> None:
        """Count, where there are no labels."""
        self.labels().inc(amount)

    def _new(self) -> CounterSeries:
        return CounterSeries()

    def _samples(self, labels: dict[str, str], series: CounterSeries) -> Iterator[Sample]:
        yield Sample(f"{self._name}_total", labels, series.value)


class Gauge(_Instrument[GaugeSeries]):
    """A metric that is set."""

    type = "gauge"

    def set(self, value: float) -> None:
        """Set it, where there are no labels."""
        self.labels().set(value)

    def _new(self) -> GaugeSeries:
        return GaugeSeries()

    def _samples(self, labels: dict[str, str], series: GaugeSeries) -> Iterator[Sample]:
        yield Sample(self._name, labels, series.value)


class Histogram(_Instrument[HistogramSeries]):
    """A metric that counts numbers in buckets, whose upper bounds ascend."""

    type = "histogram"

    def __init__(
        self,
        name: str,
        documentation: str,
        labelnames: Sequence[str] = (),
        *,
        buckets: Sequence[float],
        registry: CollectorRegistry,
    ) -> None:
        self._bounds = (*map(float, buckets), inf)
        super().__init__(name, documentation, labelnames, registry=registry)

    def observe(self, value: float) -> None:
        """Count a number, where there are no labels."""
        self.labels().observe(value)

    def _new(self) -> HistogramSeries:
        return HistogramSeries(self._bounds)

    def _samples(self, labels: dict[str, str], series: HistogramSeries) -> Iterator[Sample]:
        total = 0
        for bound, count in zip(self._bounds, series.counts, strict=True):
            total += count
            yield Sample(f"{self._name}_bucket", labels | {"le": number_text(bound)}, total)
        yield Sample(f"{self._name}_count", labels, total)
        yield Sample(f"{self._name}_sum", labels, series.sum)


_SUFFIXES = {"counter": "_total", "info": "_info"}


def generate_latest(registry: CollectorRegistry) -> bytes:
    """Return all metrics as text."""
    return "".join(_lines(registry.collect())).encode()


def _lines(metrics: Iterable[Metric]) -> Iterator[str]:
    for metric in metrics:
        name = metric.name + _SUFFIXES.get(metric.type, "")
        help_text = metric.documentation.replace("\\", r"\\").replace("\n", r"\n")
        yield f"# HELP {name} {help_text}\n"
        yield f"# TYPE {name} {'gauge' if metric.type == 'info' else metric.type}\n"
        for sample in metric.samples:
            labels = ",".join(f'{key}="{_escaped(text)}"' for key, text in sorted(sample.labels.items()))
            yield f"{sample.name}{f'{{{labels}}}' if labels else ''} {number_text(sample.value)}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")


def number_text(value: float) -> str:
    """Return a number as Go writes it, so that a bucket has one name in all programs."""
    value = float(value)
    if value in (inf, -inf):
        return "+Inf" if value > 0 else "-Inf"
    if isnan(value):
        return "NaN"
    text = repr(value)
    point = text.find(".")
    if value > 0 and point > 6:  # Go turns to exponents sooner
        mantissa = f"{text[0]}.{text[1:point]}{text[point + 1 :]}".rstrip("0.")
        return f"{mantissa}e+{point - 1:02d}"
    return text
