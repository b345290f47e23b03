"""The kinds of the features, and the words by which users name an object of one."""

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct

from lanloom.api.meta import Key
from lanloom.api.resource import Resource
from lanloom.features import FEATURES
from lanloom.processes.definitions import resources
from lanloom.refusals import Malformed
from lanloom.runtime.feature import Feature
from lanloom.text import quote

_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

_OTHER_KINDS = (
    "for an object of another kind, list its finalizers: "
    "kubectl get KIND NAME -o jsonpath={.metadata.finalizers}"
)


class Target(Struct, frozen=True):
    """The object that a user named."""

    resource: Resource[Any]
    key: Key


class Kinds:
    """The kinds that the features bring, by the words that mean them."""

    def __init__(self, features: Sequence[Feature] = FEATURES) -> None:
        self._words = {resource: _names(resource) for resource in resources(features)}

    def words(self) -> tuple[tuple[str, ...], ...]:
        """Return for each kind the words that mean it, the most common first."""
        return tuple(self._words.values())

    def complete(self, beginning: str) -> tuple[str, ...]:
        """Return for each kind that a word with this beginning can mean the first such word, sorted."""
        found = (
            next((word for word in words if word.startswith(beginning)), "") for words in self._words.values()
        )
        return tuple(sorted(filter(None, found)))

    def find(self, word: str) -> Resource[Any]:
        """Return the kind that a word means, in any case. Raises Malformed with the known kinds."""
        for resource, words in self._words.items():
            if word.lower() in words:
                return resource
        known = ", ".join(f"{resource.kind} ({words[0]})" for resource, words in self._words.items())
        raise Malformed(
            f"{quote(word)} is not a kind that Lanloom explains; choose one of {known}; {_OTHER_KINDS}"
        )

    def target(self, text: str, namespace: str) -> Target:
        """Parse `KIND/NAME` or `KIND/NAMESPACE/NAME`; `namespace` holds where none is given. Raises Malformed."""
        word, *rest = text.split("/")
        if not 1 <= len(rest) <= 2 or not all(rest):
            raise Malformed(f"{quote(text)} is not an object; write KIND/NAME, or KIND/NAMESPACE/NAME")
        resource, name = self.find(word), rest[-1]
        given = rest[0] if len(rest) == 2 else ""
        if given and not resource.namespaced:
            raise Malformed(f"a {resource.kind} has no namespace; write {word}/{name}")
        space = (given or namespace) if resource.namespaced else ""
        for part in (space, name):
            if part and not _NAME.fullmatch(part):
                raise Malformed(
                    f"{quote(part)} is not a valid object name; use small letters, digits, dashes and dots"
                )
        return Target(resource, Key(space, name))


def _names(resource: Resource[Any]) -> tuple[str, ...]:
    """The names under which kubectl knows a kind, in lower case."""
    names = (*resource.short_names, resource.singular, resource.plural)
    group = f"{resource.singular}.{resource.group}" if resource.group else resource.singular
    return tuple(dict.fromkeys((*names, group, resource.full_name)))
