"""The informers of a process: one for each resource and selection, shared by all features that ask for it."""

from collections.abc import Callable
from random import Random
from typing import Any, TypeVar

from msgspec import Struct

from lanloom.api.meta import Object
from lanloom.api.resource import Resource
from lanloom.kube.informer import Informer
from lanloom.kube.ports import Client
from lanloom.kube.store import Indexes

T = TypeVar("T", bound=Object)

_Selection = tuple[Resource[Any], str, str, str]


class Informers:
    """Construct, `get` every informer, then run `all()`. An informer that is asked for later would not run."""

    def __init__(self, client: Client, rng: Random) -> None:
        self._client = client
        self._rng = rng
        self._informers: dict[_Selection, Informer[Any]] = {}
        self._options: dict[_Selection, tuple[object, ...]] = {}

    def get(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        labels: str = "",
        fields: str = "",
        indexes: Indexes[T] | None = None,
        optional: bool = False,
        title: str = "",
        transform: Callable[[T], T] | None = None,
        from_cache: bool = False,
        lazy: bool = False,
    ) -> Informer[T]:
        """Return the informer of a resource, or of a selection of it, with further indexes.

        The options mean what they do for `Informer`. Raises ValueError for an index name that is taken, and for
        `optional`, `title`, `transform`, `from_cache` or `lazy` other than those of an earlier call.
        """
        selection = (resource, namespace, labels, fields)
        options = (optional, title, transform, from_cache, lazy)
        if self._options.setdefault(selection, options) != options:
            raise ValueError(f"{resource.full_name} is followed with other options already")
        if selection not in self._informers:
            self._informers[selection] = Informer(
                self._client,
                resource,
                rng=self._rng,
                namespace=namespace,
                labels=labels,
                fields=fields,
                optional=optional,
                title=title,
                transform=transform or _whole,
                from_cache=from_cache,
                lazy=lazy,
            )
        informer: Informer[T] = self._informers[selection]
        for name, function in (indexes or {}).items():
            informer.store.add_index(name, function)
        return informer

    def all(self) -> tuple[Informer[Any], ...]:
        """Return every informer, to be run."""
        return tuple(self._informers.values())


def _whole(item: T) -> T:
    return item


class InformerView(Struct, frozen=True):
    """Base of the informers that a part of a feature reads: a Struct with a field for each, a tuple of some, or a view.

    A view states the selection, the indexes and the transform of each informer once. A reader that asked `Informers` by
    itself would have to repeat them, because `get` rejects other options. Each view has a function that builds it from
    the process's `Informers`.
    """

    def all(self) -> tuple[Informer[Any], ...]:
        """Return every informer; the view is complete when each of them is synced."""
        fields = (getattr(self, name) for name in self.__struct_fields__)
        return tuple(item for field in fields for item in _informers_of(field))


def _informers_of(field: Any) -> tuple[Informer[Any], ...]:
    if isinstance(field, InformerView):
        return field.all()
    return field if isinstance(field, tuple) else (field,)
