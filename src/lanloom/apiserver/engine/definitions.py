"""Keeps the status of CRDs right, and the kinds that they make the server serve."""

from collections.abc import Callable

from lanloom.api.meta import Key
from lanloom.apiserver import errors
from lanloom.apiserver.engine import crds, crdstatus
from lanloom.apiserver.engine.calls import Call
from lanloom.apiserver.engine.ledger import Ledger
from lanloom.apiserver.engine.registry import Registry
from lanloom.apiserver.engine.stored import Change, Stored
from lanloom.apiserver.engine.writes import Writer
from lanloom.apiserver.kinds import CRDS, Raw


class Definitions:
    """The CRDs of a server."""

    def __init__(self, ledger: Ledger, registry: Registry, writer: Writer, now: Callable[[], float]) -> None:
        self._ledger = ledger
        self._registry = registry
        self._writer = writer
        self._now = now
        for state in ledger.shelf(CRDS).select(""):
            self._serve(state)
        ledger.listen(self._notice)

    async def settle(self, name: str) -> None:
        """Brings the status of a CRD up to date, if it is still there. Mostly it is: that costs no write."""
        kind, key = self._registry.any_version(CRDS), Key("", name)
        state = self._ledger.latest(CRDS, key)
        if kind is None or state is None:
            return
        crd = state.raw()
        if self._settled(crd) == crd:
            await self._ledger.settle(CRDS, key)
            return
        try:
            await self._writer.patch(kind, "", name, self._settled, Call(), subresource="status")
        except errors.NotFound:
            return

    def in_group(self, group: str) -> list[str]:
        """The names of the CRDs of a group."""
        states = self._ledger.shelf(CRDS).select("")
        return [state.key.name for state in states if state.raw()["spec"]["group"] == group]

    def _settled(self, crd: Raw) -> Raw:
        return crdstatus.settled(crd, self._names_beside(crd), self._now())

    def _names_beside(self, crd: Raw) -> list[Raw]:
        """The names of everything else in the CRD's group; nobody takes those of a built-in kind."""
        group, name = crd["spec"]["group"], crd["metadata"]["name"]
        others = [state.raw() for state in self._ledger.shelf(CRDS).select("") if state.key.name != name]
        accepted = [
            (other.get("status") or {}).get("acceptedNames") or {}
            for other in others
            if other["spec"]["group"] == group
        ]
        builtins = [
            {
                "plural": kind.plural,
                "singular": kind.singular_name,
                "kind": kind.kind,
                "listKind": kind.list_name,
            }
            for kind in self._registry.kinds()
            if kind.builtin and kind.group == group
        ]
        return [*accepted, *builtins]

    def _notice(self, change: Change) -> None:
        if change.resource != CRDS:
            return
        if change.after is not None:
            self._serve(change.after)
        elif change.before is not None:
            resource = crds.resource_of(change.before.raw())
            self._registry.serve(resource, ())
            self._ledger.close_feed(resource)

    def _serve(self, state: Stored) -> None:
        crd = state.raw()
        self._registry.serve(crds.resource_of(crd), crds.served_kinds(crd))
