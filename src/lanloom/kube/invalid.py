"""Events of objects that webhooks would refuse by themselves, and that were stored while no webhook answered.

A kind whose status Lanloom writes says so in its conditions. The others, and what conditions have no place for, are
followed here: a feature names the kind and the rules of its webhook. What a webhook refuses in comparison with other
objects is the business of that feature.
"""

import random
from collections.abc import Callable, Iterable
from functools import partial
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from lanloom.api.meta import Key, Object
from lanloom.kube.controller import Controller, Observer
from lanloom.kube.events import Recorder, reference
from lanloom.kube.informer import Informer, all_synced, changed, present

T = TypeVar("T", bound=Object)

Faults = Callable[[T], Iterable[str]]
"""Returns what a webhook would refuse of an object by itself, each with its field and the remedy."""

REASON = "Invalid"

MOST = 10
"""Faults of one object that are reported: an object may have thousands, and each is an Event."""


class _Rule(NamedTuple):
    informer: Informer[Any]
    faults: Faults[Any]


class InvalidObjects:
    """Record an Event for each fault of an object, on the leader; once while the fault is there."""

    def __init__(
        self, recorder: Recorder, *, rng: random.Random, observe: Observer[str] | None = None
    ) -> None:
        self._recorder = recorder
        self._rules: dict[str, tuple[_Rule, ...]] = {}
        self._reported: dict[str, tuple[str, ...]] = {}
        self.controller: Controller[str] = Controller("invalid", self._reconcile, rng=rng, observe=observe)

    def follow(self, informer: Informer[T], faults: Faults[T]) -> None:
        """Report faults of the objects of an informer, in addition to those of others who follow the kind."""
        kind = informer.resource.full_name
        known = self._rules.get(kind, ())
        self._rules[kind] = (*known, _Rule(informer, faults))
        if not known:
            informer.on_change(partial(self._receive, kind), changed(_judged))

    async def run(self) -> None:
        """Report until cancelled. A new leader reports what is there once more."""
        await all_synced(rule.informer for rules in self._rules.values() for rule in rules)
        self._reported.clear()
        for kind, (rule, *_) in self._rules.items():
            for item in rule.informer.store.items():
                self._receive(kind, None, item)
        await self.controller.run()

    def _receive(self, kind: str, old: Object | None, new: Object | None) -> None:
        for item in present(old, new)[-1:]:
            self.controller.enqueue(f"{kind} {item.metadata.key}")

    async def _reconcile(self, key: str) -> None:
        kind, _, title = key.partition(" ")
        namespace, _, name = title.rpartition("/")
        rules = self._rules[kind]
        informer = rules[0].informer
        item = informer.store.get(Key(namespace, name))
        if item is None or item.metadata.is_deleting:
            self._reported.pop(key, None)
            return
        found = dict.fromkeys(fault for rule in rules for fault in rule.faults(item))
        faults = tuple(islice(found, MOST))
        known = self._reported.pop(key, ())
        if faults:
            self._reported[key] = faults
        for fault in faults:
            if fault not in known:
                await self._recorder.event(reference(informer.resource, item), "Warning", REASON, fault)


def _judged(item: Object) -> tuple[object, ...]:
    """Return the parts of an object that users write."""
    meta = item.metadata
    return getattr(item, "spec", None), meta.annotations, meta.labels, meta.uid, meta.is_deleting
