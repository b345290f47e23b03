"""Tables (meta.k8s.io): what `kubectl get` shows, made by the server so that every client shows the same.

Custom kinds show their additionalPrinterColumns; built-in ones what the real server prints. A table
always has the wide columns too; the client leaves out those with a priority.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from lanloom_embedded.kinds import Raw, ServedKind
from lanloom_embedded.tables.builtin import CREATED, LAYOUTS
from lanloom_embedded.tables.custom import custom_layout
from lanloom_embedded.tables.layout import Layout

__all__ = ["Include", "layout_of", "render"]

Include = Literal["None", "Metadata", "Object"]


def layout_of(kind: ServedKind) -> Layout:
    """Return the columns of a kind. Keep it as long as the kind is served: columns are compiled."""
    if not kind.builtin:
        return custom_layout(kind.columns)
    return LAYOUTS.get(kind.key, CREATED)


def render(
    layout: Layout,
    items: Sequence[Raw],
    metadata: Mapping[str, Any],
    *,
    now: float,
    version: str = "v1",
    include: Include = "Metadata",
    headers: bool = True,
) -> Raw:
    """Return the Table of some objects.

    `metadata` is that of the list (or the object's resourceVersion for one object), `now` is in seconds
    since the epoch, `version` is v1 or v1beta1. In a watch only the first table has headers.
    """
    return {
        "kind": "Table",
        "apiVersion": f"meta.k8s.io/{version}",
        "metadata": {key: value for key, value in metadata.items() if value},
        "columnDefinitions": [column.definition() for column in layout.columns] if headers else None,
        "rows": [_row(layout, item, now, version, include) for item in items],
    }


def _row(layout: Layout, item: Raw, now: float, version: str, include: Include) -> Raw:
    row: Raw = {"cells": layout.cells(item, now)}
    if conditions := layout.conditions(item):
        row["conditions"] = conditions
    match include:
        case "Object":
            row["object"] = item
        case "Metadata":
            row["object"] = {
                "kind": "PartialObjectMetadata",
                "apiVersion": f"meta.k8s.io/{version}",
                "metadata": item["metadata"],
            }
        case "None":
            row["object"] = None
    return row
