"""Tables show what the real server's printers show."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from lanloom.api.meta import parse_rfc3339
from lanloom_embedded.builtin import BUILTINS
from lanloom_embedded.kinds import ServedKind
from lanloom_embedded.tables import layout_of, render
from lanloom_embedded.tables.layout import human_duration

GOLDEN = Path(__file__).parents[2] / "golden/apiserver"
KINDS = {kind.resource: kind for kind in BUILTINS}
NOW = parse_rfc3339("2026-11-21T08:00:00Z")


def widgets(*columns: dict[str, Any]) -> ServedKind:
    """A custom kind with these printer columns."""
    return ServedKind(
        group="example.org", version="v1", kind="Widget", plural="widgets", namespaced=True, columns=columns
    )


@pytest.mark.parametrize(
    "case",
    yaml.load((GOLDEN / "tables.yaml").read_text(), yaml.CSafeLoader),
    ids=lambda case: f"{case[0]}-{case[2][:3]}",
)
def test_cells_of_builtin_kinds(case: list[Any]) -> None:
    """An object of a built-in kind has the cells of its case, one for each column."""
    resource, obj, cells = case
    layout = layout_of(KINDS[resource])
    assert layout.cells(obj, NOW) == cells
    assert len(layout.columns) == len(cells)


@pytest.mark.parametrize("kind", BUILTINS, ids=lambda kind: kind.resource)
def test_every_builtin_kind_can_be_shown(kind: ServedKind) -> None:
    """Even an object of which only the metadata is there makes a row."""
    layout = layout_of(kind)
    assert len(layout.cells({"metadata": {}}, NOW)) == len(layout.columns)


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        ("string", "x", "x"),
        ("string", 3, "3"),
        ("string", True, "true"),
        ("string", ["b", 1], '["b",1]'),
        ("string", {"b": 1, "a": 2}, '{"a":2,"b":1}'),
        ("integer", 3, 3),
        ("integer", 3.9, 3),
        ("integer", "3", None),
        ("number", 3, 3.0),
        ("boolean", True, True),
        ("boolean", "true", None),
        ("date", "2026-11-21T07:59:00Z", "60s"),
        ("date", "yesterday", "<invalid>"),
        ("string", None, None),
    ],
)
def test_types_of_custom_columns(kind: str, value: Any, cell: Any) -> None:
    """A printer column shows its value in its type, or nothing."""
    layout = layout_of(widgets({"name": "X", "type": kind, "jsonPath": ".spec.x"}))
    assert layout.cells({"metadata": {"name": "a"}, "spec": {"x": value}}, NOW) == ["a", cell]


def test_a_kind_without_columns_shows_its_age() -> None:
    """Name and age are shown where the CRD says nothing."""
    layout = layout_of(widgets())
    assert [column.name for column in layout.columns] == ["Name", "Age"]
    assert layout.cells({"metadata": {"name": "a", "creationTimestamp": "2026-11-21T07:00:00Z"}}, NOW) == [
        "a",
        "60m",
    ]


def test_a_column_that_cannot_be_read_is_empty() -> None:
    """A bad path spoils its own column only."""
    layout = layout_of(widgets({"name": "X", "type": "string", "jsonPath": ".a["}))
    assert layout.cells({"metadata": {"name": "a"}}, NOW) == ["a", None]


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (-1.5, "0s"),
        (0.4, "0s"),
        (119, "119s"),
        (120, "2m"),
        (150, "2m30s"),
        (600, "10m"),
        (10799, "179m"),
        (10800, "3h"),
        (11000, "3h3m"),
        (28800, "8h"),
        (172799, "47h"),
        (172800, "2d"),
        (180000, "2d2h"),
        (691200, "8d"),
        (63072000, "2y"),
        (64000000, "2y10d"),
        (252288000, "8y"),
    ],
)
def test_durations(seconds: float, shown: str) -> None:
    """Durations are shown as kubectl shows them."""
    assert human_duration(seconds) == shown


def test_a_table_carries_what_was_asked_for() -> None:
    """Rows hold the object's metadata, the whole object or nothing, and headers come only when wanted."""
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {}}
    layout = layout_of(KINDS["configmaps"])
    table = render(layout, [obj], {"resourceVersion": "7"}, now=NOW)
    assert table["metadata"] == {"resourceVersion": "7"}
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    partial = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}}
    assert table["rows"][0]["object"] == partial
    whole = render(layout, [obj], {}, now=NOW, version="v1beta1", include="Object", headers=False)
    assert whole["apiVersion"] == "meta.k8s.io/v1beta1"
    assert whole["columnDefinitions"] is None
    assert whole["rows"][0]["object"] is obj
    assert render(layout, [obj], {}, now=NOW, include="None")["rows"][0]["object"] is None


def test_finished_pods_are_marked() -> None:
    """The row of a pod that has ended says so, for clients that hide such pods."""
    pod = {"metadata": {"name": "a"}, "status": {"phase": "Succeeded"}}
    row = render(layout_of(KINDS["pods"]), [pod], {}, now=NOW)["rows"][0]
    assert row["conditions"][0]["reason"] == "Succeeded"
