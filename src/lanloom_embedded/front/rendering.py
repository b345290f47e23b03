"""The form of an answer that a client accepts, and objects, lists and events in that form.

An answer is JSON or YAML, and holds objects as they are, as a table, or only their metadata. Plain JSON is put together
from the bytes that are kept; only the other forms decode objects.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, Literal

import msgspec
import yaml
from msgspec import Struct

from lanloom.runtime.https import errors
from lanloom_embedded import tables
from lanloom_embedded.engine.reads import Page
from lanloom_embedded.engine.storage import (
    Stored,
    full,
    wire,
    wire_prefix,
)
from lanloom_embedded.engine.strategies import Registry
from lanloom_embedded.kinds import Raw, ServedKind
from lanloom_embedded.tables.layout import Layout

Encoding = Literal["application/json", "application/yaml"]
Transform = Literal["", "Table", "PartialObjectMetadata"]

OFFERED = ("application/json", "application/yaml")


class Form(Struct, frozen=True):
    """The form of an answer. `version` is that of meta.k8s.io for tables and metadata."""

    encoding: Encoding = "application/json"
    transform: Transform = ""
    version: str = "v1"


JSON_FORM = Form()


_CACHED_LENGTH = 256
"""Longest header whose form is cached. Unknown clients send headers too."""


def negotiate(accept: str) -> Form:
    """Return the first form of an Accept header that can be made. Raises NotAcceptable."""
    if not accept:
        return JSON_FORM
    return _cached(accept) if len(accept) <= _CACHED_LENGTH else _negotiate(accept)


def _negotiate(accept: str) -> Form:
    for clause in accept.split(","):
        found = _form(clause)
        if found is not None:
            return found
    raise errors.not_acceptable(OFFERED)


_cached = lru_cache(512)(_negotiate)


def plain(accept: str) -> Form:
    """Return the form of an answer that can't be a table. Raises NotAcceptable."""
    clauses = [clause for clause in accept.split(",") if ";as=" not in clause.replace(" ", "")]
    return negotiate(",".join(clauses)) if clauses else JSON_FORM


def _form(clause: str) -> Form | None:
    media_type, *rest = [part.strip() for part in clause.split(";")]
    parameters = dict(part.split("=", 1) for part in rest if "=" in part)
    encoding: Encoding
    if media_type in ("application/json", "*/*", "application/*"):
        encoding = "application/json"
    elif media_type == "application/yaml":
        encoding = "application/yaml"
    else:
        return None
    wanted = parameters.get("as", "")
    if not wanted:
        return Form(encoding)
    version = parameters.get("v", "v1")
    if parameters.get("g") != "meta.k8s.io" or version not in ("v1", "v1beta1"):
        return None
    if wanted == "Table":
        return Form(encoding, "Table", version)
    if wanted in ("PartialObjectMetadata", "PartialObjectMetadataList"):
        return Form(encoding, "PartialObjectMetadata", version)
    return None


_encoder = msgspec.json.Encoder()


def encode(document: Any, form: Form) -> bytes:
    """Return a document in the form's encoding."""
    if form.encoding == "application/yaml":
        text: str = yaml.dump(document, Dumper=yaml.CSafeDumper, allow_unicode=True, sort_keys=True)
        return text.encode()
    return _encoder.encode(document)


class Renderer:
    """Makes answers. It keeps compiled table columns for as long as the served kinds are the same."""

    def __init__(self, registry: Registry, now: Callable[[], float]) -> None:
        self._registry = registry
        self._now = now
        self._layouts: dict[tuple[str, str, str], Layout] = {}
        self._generation = -1

    def one(self, kind: ServedKind, state: Stored, form: Form, include: tables.Include = "Metadata") -> bytes:
        """Return one object."""
        if not form.transform:
            if form.encoding == "application/json":
                return wire(kind, state)
            return encode(full(kind, state), form)
        return encode(self.transformed(kind, state, form, include), form)

    def transformed(
        self, kind: ServedKind, state: Stored, form: Form, include: tables.Include, *, headers: bool = True
    ) -> Raw:
        """Return one object as a table of one row, or as its metadata."""
        if form.transform == "Table":
            metadata = {"resourceVersion": str(state.version)}
            return self._table(kind, [state], metadata, form, include, headers=headers)
        return _partial(full(kind, state), form)

    def page(self, kind: ServedKind, page: Page, form: Form, include: tables.Include = "Metadata") -> bytes:
        """Return a page of a list."""
        metadata = _list_metadata(page)
        if form.transform == "Table":
            return encode(self._table(kind, page.items, metadata, form, include), form)
        if form.transform == "PartialObjectMetadata":
            items = [_partial(full(kind, state), form) for state in page.items]
            head = {"kind": "PartialObjectMetadataList", "apiVersion": f"meta.k8s.io/{form.version}"}
            return encode({**head, "metadata": metadata, "items": items}, form)
        body = _plain_list(kind, page.items, metadata)
        return body if form.encoding == "application/json" else encode(msgspec.json.decode(body), form)

    def _table(
        self,
        kind: ServedKind,
        states: Sequence[Stored],
        metadata: Raw,
        form: Form,
        include: tables.Include,
        *,
        headers: bool = True,
    ) -> Raw:
        items = [full(kind, state) for state in states]
        return tables.render(
            self._layout(kind),
            items,
            metadata,
            now=self._now(),
            version=form.version,
            include=include,
            headers=headers,
        )

    def _layout(self, kind: ServedKind) -> Layout:
        if self._generation != self._registry.generation:
            self._generation = self._registry.generation
            self._layouts.clear()
        path = (kind.group, kind.version, kind.plural)
        if path not in self._layouts:
            self._layouts[path] = tables.layout_of(kind)
        return self._layouts[path]


def _list_metadata(page: Page) -> Raw:
    metadata: Raw = {"resourceVersion": str(page.version)}
    if page.continue_token:
        metadata["continue"] = page.continue_token
    if page.remaining:
        metadata["remainingItemCount"] = page.remaining
    return metadata


def _partial(obj: Raw, form: Form) -> Raw:
    return {
        "kind": "PartialObjectMetadata",
        "apiVersion": f"meta.k8s.io/{form.version}",
        "metadata": obj["metadata"],
    }


def _plain_list(kind: ServedKind, items: Sequence[Stored], metadata: Raw) -> bytes:
    if not kind.builtin:
        metadata = {"continue": "", **metadata}
    if not kind.builtin:
        metadata.setdefault("continue", "")
    head = _encoder.encode({"kind": kind.list_name, "apiVersion": kind.api_version, "metadata": metadata})
    if kind.builtin:
        # Items of built-in lists say neither kind nor version, items of custom ones do.
        body = b",".join([state.data for state in items])
    else:
        prefix = wire_prefix(kind)
        body = b",".join([prefix + state.data[1:] for state in items])
    return head[:-1] + b',"items":[' + body + b"]}"
