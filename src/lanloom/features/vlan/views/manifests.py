"""Manifests of Lanloom's kinds, read from YAML or JSON as `kubectl apply -f` reads them."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from msgspec import Struct

from lanloom.api.harvester import CLUSTER_NETWORKS, VLAN_CONFIGS
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource

Raw = dict[str, Any]

KINDS: dict[tuple[str, str], Resource[Any]] = {
    (resource.api_version, resource.kind): resource for resource in (CLUSTER_NETWORKS, VLAN_CONFIGS, NADS)
}
"""The kinds that a plan understands, by apiVersion and kind."""

_SUFFIXES = (".yaml", ".yml", ".json")


class ManifestError(Exception):
    """A manifest that can't be read; the message names the file and what is wrong."""


class Document(Struct, frozen=True):
    """One object of a manifest. `resource` is None for a kind that has nothing to do with VLAN networks."""

    title: str
    key: Key
    body: Raw
    resource: Resource[Any] | None


def read_files(paths: Iterable[str], standard_input: Iterator[str], namespace: str) -> tuple[Document, ...]:
    """Return the objects of files, directories and `-`, in their order. Raises ManifestError.

    `standard_input` gives the text behind `-` when it is asked; `namespace` is for objects that name none.
    """
    documents: list[Document] = []
    for path in paths:
        for source, text in _texts(path, standard_input):
            documents += _documents(source, text, namespace)
    return tuple(documents)


def _texts(path: str, standard_input: Iterator[str]) -> Iterator[tuple[str, str]]:
    if path == "-":
        yield "standard input", next(standard_input, "")
        return
    place = Path(path)
    files = (
        sorted(item for item in place.iterdir() if item.suffix in _SUFFIXES) if place.is_dir() else [place]
    )
    if not files:
        raise ManifestError(f"{path} has no file that ends in {', '.join(_SUFFIXES)}")
    for file in files:
        try:
            yield str(file), file.read_text()
        except OSError as error:
            raise ManifestError(f"can't read {file}: {error.strerror}") from None
        except UnicodeDecodeError:
            raise ManifestError(f"{file} is not UTF-8 text") from None


def _documents(source: str, text: str, namespace: str) -> Iterator[Document]:
    try:
        loaded = list(yaml.load_all(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        first = " ".join(str(error).split())
        raise ManifestError(f"{source} is not valid YAML: {first}") from None
    for number, item in enumerate(loaded, start=1):
        where = f"document {number} of {source}"
        if item is not None:
            yield from _objects(where, item, namespace)


def _objects(where: str, item: object, namespace: str) -> Iterator[Document]:
    if not isinstance(item, dict) or not all(
        isinstance(item.get(key), str) for key in ("apiVersion", "kind")
    ):
        raise ManifestError(f"{where} is not a Kubernetes object: it needs apiVersion, kind and metadata")
    if item["kind"] == "List" and isinstance(item.get("items"), list):
        for index, one in enumerate(item["items"]):
            yield from _objects(f"items[{index}] in {where}", one, namespace)
        return
    metadata = item.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    if not isinstance(metadata, dict) or not (isinstance(name, str) and name):
        raise ManifestError(f"{where} has no metadata.name")
    resource = KINDS.get((item["apiVersion"], item["kind"]))
    own = metadata.get("namespace", namespace) if resource is None or resource.namespaced else ""
    key = Key(own if isinstance(own, str) else "", name)
    yield Document(f"{item['kind']} {key}", key, item, resource)
