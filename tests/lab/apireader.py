"""What `kubectl get` prints, read from the API server in this process.

Tests look at objects again and again while they wait, and most of a kubectl's time is its own start. Only the common
forms are read here: kinds and names, a namespace or all, `-o json` and `-o name`. The others, and whatever the server
refuses, are left to kubectl, which also words the refusal.
"""

import json
import ssl
from base64 import b64decode
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml
from msgspec import Struct

from lanloom.kube.blocking import BadAnswer, PlainConnection

SECONDS = 60.0
"""Time limit of a request; kubectl is tried after it."""

FORMATS = ("json", "name")

Document = dict[str, Any]


class UnansweredError(Exception):
    """The question is left to kubectl."""


class Question(Struct, frozen=True):
    """The arguments of a `kubectl get` of the common forms. Without `names` it is about all objects of the kinds."""

    kinds: tuple[str, ...]
    names: tuple[str, ...]
    format: str
    namespace: str = "default"
    everywhere: bool = False
    may_lack: bool = False


def parse(words: Sequence[str]) -> Question | None:
    """The question in the arguments of kubectl; None where it is not of a common form."""
    if tuple(words[:1]) != ("get",):
        return None
    rest, plain, found = iter(words[1:]), [], {"format": "", "namespace": "default"}
    everywhere = may_lack = False
    for word in rest:
        option, _, value = word.partition("=")
        if word in ("-A", "--all-namespaces"):
            everywhere = True
        elif word == "--ignore-not-found":
            may_lack = True
        elif field := {
            "-o": "format",
            "--output": "format",
            "-n": "namespace",
            "--namespace": "namespace",
        }.get(option):
            found[field] = value or next(rest, "")
        elif word.startswith("-") or "/" in word:
            return None
        else:
            plain.append(word)
    kinds = tuple(plain[0].split(",")) if plain else ()
    asked = Question(kinds, tuple(plain[1:]), found["format"], found["namespace"], everywhere, may_lack)
    one = len(kinds) == 1 and len(asked.names) == 1 and not everywhere
    return asked if kinds and (one or not asked.names) and asked.format in FORMATS else None


class Resource(Struct, frozen=True):
    """A resource of the API, as discovery names it. `base` is the path of its version."""

    base: str
    api_version: str
    group: str
    kind: str
    plural: str
    namespaced: bool

    def path(self, asked: Question) -> str:
        """The path of the objects that are asked for."""
        inside = self.namespaced and not asked.everywhere
        parts = ("namespaces", asked.namespace, self.plural) if inside else (self.plural,)
        return "/".join((self.base, *map(quote, (*parts, *asked.names))))

    def reference(self, item: Document) -> str:
        """The line of an object in `-o name`."""
        kind = self.kind.lower()
        return (
            f"{kind}.{self.group}/{item['metadata']['name']}"
            if self.group
            else f"{kind}/{item['metadata']['name']}"
        )


class ApiReader:
    """Reads from the API server of a kubeconfig. Resources are looked up once for each certificate and address."""

    def __init__(self, kubeconfig: Path) -> None:
        self._kubeconfig = kubeconfig
        self._known: Mapping[str, Resource | None] = {}
        self._of = ""

    def get(self, words: Sequence[str]) -> str | None:
        """What kubectl prints with these arguments; None where that is left to kubectl."""
        asked = parse(words)
        if asked is None:
            return None
        try:
            text = self._kubeconfig.read_text()
            session = _Session(yaml.load(text, Loader=yaml.CSafeLoader))
            try:
                return self._answer(session, text, asked)
            finally:
                session.close()
        except (OSError, ValueError, BadAnswer, UnansweredError):
            return None

    def _answer(self, session: "_Session", text: str, asked: Question) -> str:
        if self._of != text or any(kind not in self._known for kind in asked.kinds):
            self._known, self._of = _discovered(session), text
        resources = [self._resource(kind) for kind in asked.kinds]
        if asked.names:
            item = session.get(resources[0].path(asked), may_lack=asked.may_lack)
            if item is None:
                return ""
            return json.dumps(item) if asked.format == "json" else f"{resources[0].reference(item)}\n"
        found = [(resource, item) for resource in resources for item in _items(session, resource, asked)]
        if asked.format == "name":
            return "".join(f"{resource.reference(item)}\n" for resource, item in found)
        return json.dumps({"apiVersion": "v1", "kind": "List", "items": [item for _, item in found]})

    def _resource(self, kind: str) -> Resource:
        resource = self._known.get(kind)
        if resource is None:
            raise UnansweredError
        return resource


def _items(session: "_Session", resource: Resource, asked: Question) -> Iterator[Document]:
    listed = session.get(resource.path(asked)) or {}
    for item in listed.get("items") or ():
        # Items of a list leave out what all have in common.
        yield {"apiVersion": resource.api_version, "kind": resource.kind, **item}


def _discovered(session: "_Session") -> dict[str, Resource | None]:
    """The resources by all words that name them; None for a word of several groups, among which kubectl chooses."""
    versions = [("v1", "/api/v1", "")]
    for group in (session.get("/apis") or {}).get("groups", ()):
        version = group["preferredVersion"]["groupVersion"]
        versions.append((version, f"/apis/{version}", group["name"]))
    known: dict[str, Resource | None] = {}
    for version, base, group in versions:
        for entry in (session.get(base) or {}).get("resources", ()):
            if "/" in entry["name"] or "list" not in entry["verbs"]:
                continue
            plural, kind = entry["name"], entry["kind"]
            resource = Resource(base, version, group, kind, plural, entry["namespaced"])
            words = {
                plural,
                kind.lower(),
                entry.get("singularName") or kind.lower(),
                *entry.get("shortNames", ()),
            }
            for word in words:
                known[word] = None if word in known else resource
            if group:
                known.update({f"{word}.{group}": resource for word in words})
    return known


class _Session:
    """One connection to the server of a kubeconfig, as its user with a token."""

    def __init__(self, config: Document) -> None:
        cluster, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
        address = urlsplit(cluster["server"])
        authorities = b64decode(cluster["certificate-authority-data"]).decode()
        self._connection = PlainConnection(
            address.hostname or "",
            address.port or 443,
            context=ssl.create_default_context(cadata=authorities),
            timeout=SECONDS,
        )
        self._headers = (("Authorization", f"Bearer {user['token']}"), ("Accept", "application/json"))

    def get(self, path: str, *, may_lack: bool = False) -> Document | None:
        """The object at a path; None where it may lack and does. Raises UnansweredError for any other refusal."""
        if not self._connection.is_open:
            self._connection.connect()
        answer = self._connection.get(path, self._headers)
        found: Document = json.loads(answer.body)
        if answer.status == 404 and may_lack and "name" in found.get("details", {}):
            return None
        if answer.status != 200:
            raise UnansweredError
        return found

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()
