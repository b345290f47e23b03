"""The text of metrics is that of prometheus_client, byte by byte."""

import gc
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import prometheus_client as client
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.runtime.exposition import (
    CONTENT_TYPE,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    number_text,
)
from lanloom.runtime.metrics import ProgramMetrics

client.disable_created_metrics()  # type: ignore[no-untyped-call]

BUCKETS = (0.005, 0.1, 1.0, 2.5, 30.0)
NUMBERS = st.one_of(
    st.floats(allow_nan=False, min_value=0, max_value=1e300),
    st.integers(0, 1 << 70),
    st.sampled_from(BUCKETS),
)
LABELS = st.tuples(st.text(max_size=6), st.sampled_from(["a", 'q"', "back\\", "two\nlines"]))


class Kit(NamedTuple):
    """What makes metrics: ours, or prometheus_client's."""

    registry: Any
    counter: Callable[..., Any]
    gauge: Callable[..., Any]
    histogram: Callable[..., Any]


def _text(make: Callable[[], Kit], use: Callable[[Kit], None], text: Callable[[Any], bytes]) -> bytes:
    kit = make()
    use(kit)
    return text(kit.registry)


def _both(use: Callable[[Kit], None]) -> tuple[bytes, bytes]:
    return (
        _text(lambda: Kit(CollectorRegistry(), Counter, Gauge, Histogram), use, generate_latest),
        _text(
            lambda: Kit(client.CollectorRegistry(), client.Counter, client.Gauge, client.Histogram),
            use,
            client.generate_latest,
        ),
    )


@given(rows=st.lists(st.tuples(LABELS, NUMBERS)), plain=st.lists(NUMBERS))
def test_the_text_is_the_same(rows: list[tuple[tuple[str, str], float]], plain: list[float]) -> None:
    """Whatever is counted, with whatever labels, the text is the library's."""

    def use(kit: Kit) -> None:
        names = ("zone", "kind")
        counter = kit.counter("x_calls", "Calls\n\\ of all.", names, registry=kit.registry)
        gauge = kit.gauge("x_size", "A size.", names, registry=kit.registry)
        histogram = kit.histogram("x_seconds", "How long.", names, buckets=BUCKETS, registry=kit.registry)
        for values, number in rows:
            counter.labels(*values).inc(number)
            gauge.labels(*values).set(-number)
            histogram.labels(*values).observe(number)
        counter = kit.counter("y_calls", "Calls.", registry=kit.registry)
        gauge = kit.gauge("y_size", "A size.", registry=kit.registry)
        histogram = kit.histogram("y_seconds", "How long.", buckets=BUCKETS, registry=kit.registry)
        for number in plain:
            counter.inc(number)
            gauge.set(number)
            histogram.observe(number)

    ours, theirs = _both(use)
    assert ours == theirs


@pytest.mark.parametrize(
    "number", [math.inf, -math.inf, math.nan, 0, -0.0, True, 123456.0, 1234567.0, 1e21, 1e-9]
)
def test_numbers_are_written_as_go_does(number: float) -> None:
    """Each number has one text, so that a bucket has one name in all programs."""

    def use(kit: Kit) -> None:
        kit.gauge("x", "X.", registry=kit.registry).set(number)

    ours, theirs = _both(use)
    assert ours == theirs
    assert ours.decode().split()[-1] == number_text(number)


def test_the_process_is_shown_as_by_the_library(tmp_path: Path) -> None:
    """Process, Python and garbage collector have the library's names, texts and numbers."""
    (tmp_path / "7/fd").mkdir(parents=True)
    (tmp_path / "7/fd/0").touch()
    (tmp_path / "stat").write_text("cpu 1 2\nbtime 1700000000\nprocesses 5\n")
    (tmp_path / "7/stat").write_text(f"7 (a) b) S {' '.join(map(str, range(1000, 1049)))}\n")
    (tmp_path / "7/limits").write_text(
        "Limit  Soft Limit  Hard Limit  Units\nMax open files  1024  4096  files\n"
    )
    theirs, ours = client.CollectorRegistry(), CollectorRegistry()
    client.ProcessCollector(proc=str(tmp_path), pid=lambda: 7, registry=theirs)
    client.PlatformCollector(registry=theirs)
    client.GCCollector(registry=theirs)
    ours.register(ProgramMetrics(tmp_path, "7"))
    gc.disable()
    try:
        assert generate_latest(ours) == client.generate_latest(theirs)
    finally:
        gc.enable()


def test_a_process_without_proc(tmp_path: Path) -> None:
    """Where /proc can't be read, Python's own metrics are shown all the same."""
    registry = CollectorRegistry()
    registry.register(ProgramMetrics(tmp_path))
    assert {metric.name.split("_")[0] for metric in registry.collect()} == {"python"}


def test_labels_are_complete() -> None:
    """A series has a value for each label, and a counter only grows."""
    registry = CollectorRegistry()
    counter = Counter("x", "X.", ("a", "b"), registry=registry)
    for values in ((), ("1",), ("1", "2", "3")):
        with pytest.raises(ValueError, match="labels"):
            counter.labels(*values)
    with pytest.raises(ValueError, match="grows"):
        counter.labels("1", "2").inc(-1)


def test_the_type_is_that_of_the_format() -> None:
    """The content type is the one by which Prometheus knows the format."""
    assert client.exposition.CONTENT_TYPE_PLAIN_0_0_4 == CONTENT_TYPE
