"""Transcripts without what two servers can't have in common.

Names for things replace the things: the first uid of a transcript becomes `<uid 1>`, every later mention of it
the same. So relations stay visible (this patch left the resourceVersion alone; that owner reference names this
object) while the values, which no two servers share, go.
"""

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.embedded.cases.kit.wire import Json

_UID = re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b")
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
_AGE = re.compile(r"\d+(ms|s|m)(\d+s)?")
_HIDDEN = (
    (re.compile(r"127\.0\.0\.1:\d{4,5}\b"), "127.0.0.1:<port>"),
    (re.compile(r"too old resource version: \d+ \(\d+\)"), "too old resource version: <old> (<oldest>)"),
    (re.compile(r"ResourceVersion in record \(\d+\)"), "ResourceVersion in record (<version>)"),
    (re.compile(r"\(0xc[0-9a-f]{6,}\)"), "(<address>)"),
    (re.compile(r'("resourceVersion\\?":\\?")\d+'), r"\1<version>"),
)
_SUFFIX = 5
"""The length of what generateName adds."""

DROPPED = frozenset({"managedFields", "selfLink", "storageVersionHash", "caBundle"})
"""Fields that are left out: the page of differences says why."""


class Normaliser:
    """Normalises one transcript; the names that it gives are counted through the whole of it."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._uids: dict[str, str] = {}
        self._versions: dict[str, str] = {}

    def transcript(self, entries: list[dict[str, Any]]) -> Json:
        """The whole transcript."""
        return [self._value(entry) for entry in entries]

    def _value(self, value: Json) -> Json:
        if isinstance(value, dict):
            return self._mapping(value)
        if isinstance(value, list | tuple):
            return [self._value(each) for each in value]
        return self._text(value) if isinstance(value, str) else value

    def _mapping(self, value: dict[str, Json]) -> dict[str, Json]:
        kept = {name: each for name, each in value.items() if name not in DROPPED}
        if isinstance(metadata := kept.get("metadata"), dict):
            listed = "items" in kept or "rows" in kept
            kept["metadata"] = self._metadata(metadata, listed)
        if kept.get("kind") == "APIResourceList":
            # Custom resources come in the order of a Go map: none.
            kept["resources"] = sorted(kept["resources"], key=lambda each: str(each["name"]))
        if kept.get("type") == "BOOKMARK":
            said = {"resourceVersion": "<list version>"}
            if annotations := kept["object"]["metadata"].get("annotations"):
                said["annotations"] = annotations
            kept["object"] = {**kept["object"], "metadata": said}
        if isinstance(columns := kept.get("columnDefinitions"), list):
            kept["columnDefinitions"] = [{**each, "description": ""} for each in columns]
        if isinstance(causes := kept.get("causes"), list):
            # The real server runs some checks two or three times, and says so.
            kept["causes"] = [each for index, each in enumerate(causes) if each not in causes[:index]]
        if "rows" in kept:
            kept["rows"] = [_without_ages(row) for row in kept["rows"] or []]
        return {name: self._value(each) for name, each in kept.items()}

    def _metadata(self, metadata: dict[str, Json], listed: bool) -> dict[str, Json]:
        shown = dict(metadata)
        if version := shown.get("resourceVersion"):
            shown["resourceVersion"] = "<list version>" if listed else self._version(version)
        if shown.get("continue"):
            shown["continue"] = "<continue token>"
        prefix = shown.get("generateName")
        if prefix and isinstance(name := shown.get("name"), str) and len(name) == len(prefix) + _SUFFIX:
            shown["name"] = f"{name[:-_SUFFIX]}<{_SUFFIX} random characters>"
        return shown

    def _version(self, version: str) -> str:
        return self._versions.setdefault(version, f"<version {len(self._versions) + 1}>")

    def _text(self, text: str) -> str:
        text = _TIME.sub(lambda found: self._time(found[0]), text)
        text = _UID.sub(lambda found: self._uid(found[0]), text)
        for pattern, name in _HIDDEN:
            text = pattern.sub(name, text)
        return text

    def _uid(self, uid: str) -> str:
        return self._uids.setdefault(uid, f"<uid {len(self._uids) + 1}>")

    def _time(self, text: str) -> str:
        # Only the servers' own stamps: what a case sent itself lies far in the past and is compared.
        stamp = datetime.fromisoformat(text)
        if abs(stamp - self._now) > timedelta(days=1):
            return text
        return "<time with fraction>" if "." in text else "<time>"


def normalise(transcript: list[dict[str, Any]], now: Callable[[], datetime] | None = None) -> Json:
    """The comparable form of a transcript."""
    return Normaliser(now() if now else datetime.now(UTC)).transcript(transcript)


def _without_ages(row: dict[str, Json]) -> dict[str, Json]:
    cells = ["<age>" if isinstance(cell, str) and _AGE.fullmatch(cell) else cell for cell in row["cells"]]
    return {**row, "cells": cells}
