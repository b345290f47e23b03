"""Looks at every single write, and says which one took something away that it must not have."""

from typing import Any

from lanloom.api.core import PODS
from lanloom.api.dummy import DRAINING, DUMMY_CLUSTER_NETWORKS, UID_LABEL
from lanloom.api.harvester import CLUSTER_NETWORKS
from lanloom.api.ipam import NETWORKS
from lanloom.api.kubevirt import VIRTUAL_MACHINE_INSTANCES, VIRTUAL_MACHINES
from lanloom.api.meta import Key
from lanloom.api.multus import NADS
from lanloom.api.resource import Resource
from lanloom.api.workloads import DAEMON_SETS
from lanloom_embedded.engine.engine import Engine
from lanloom_embedded.engine.storage import Change

MADE: tuple[Resource[Any], ...] = (NADS, DAEMON_SETS, NETWORKS, CLUSTER_NETWORKS)
USERS: tuple[Resource[Any], ...] = (VIRTUAL_MACHINES, VIRTUAL_MACHINE_INSTANCES, PODS)


class Judge:
    """Listens to the engine. `wrong` is what must not have happened; `by_force` are NADs that a test itself takes."""

    def __init__(self, engine: Engine) -> None:
        self.wrong: list[str] = []
        self.by_force: set[Key] = set()
        self._engine = engine
        engine.ledger.listen(self._notice)

    def _notice(self, change: Change) -> None:
        if change.after is not None or change.before is None:
            return
        body = change.before.raw()
        plural = change.resource.plural
        if plural == DUMMY_CLUSTER_NETWORKS.plural:
            self._network_gone(body)
        elif uid := body["metadata"].get("labels", {}).get(UID_LABEL):
            if plural == NADS.plural:
                self._nad_gone(body)
            elif plural in (DAEMON_SETS.plural, NETWORKS.plural, CLUSTER_NETWORKS.plural):
                self._more_gone(plural, uid, body)

    def _nad_gone(self, body: dict[str, Any]) -> None:
        meta = body["metadata"]
        key = Key(meta["namespace"], meta["name"])
        if key in self.by_force:
            return
        if users := self.users_of(key):
            self.wrong.append(f"NAD {key} went under {users}")
        if DRAINING not in meta.get("annotations", {}):
            self.wrong.append(f"NAD {key} went and was open to new users")
        owner = self._owner(meta["labels"][UID_LABEL])
        if owner is not None and owner["status"].get("phase") != "Terminating":
            self.wrong.append(f"NAD {key} went before that was said")

    def _more_gone(self, plural: str, uid: str, body: dict[str, Any]) -> None:
        owner = self._owner(uid)
        if owner is None or "deletionTimestamp" not in owner["metadata"]:
            return
        if left := self._left(NADS, uid):
            self.wrong.append(f"{plural} {body['metadata']['name']} went before the NADs {left}")

    def _network_gone(self, body: dict[str, Any]) -> None:
        meta = body["metadata"]
        left = [title for kind in MADE for title in self._left(kind, meta["uid"])]
        if left:
            self.wrong.append(f"the network {meta['name']} went before {left}")

    def users_of(self, nad: Key) -> list[str]:
        """Who refers to a NAD, by the look of it."""
        return [
            f"{kind.kind} {body['metadata']['name']}"
            for kind in USERS
            for body in self._every(kind)
            if str(nad) in str(body.get("spec", {})) + str(body["metadata"].get("annotations", {}))
            and body.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        ]

    def _owner(self, uid: str) -> dict[str, Any] | None:
        every = self._every(DUMMY_CLUSTER_NETWORKS)
        return next((body for body in every if body["metadata"]["uid"] == uid), None)

    def _left(self, kind: Resource[Any], uid: str) -> list[str]:
        return [
            f"{kind.kind} {body['metadata']['name']}"
            for body in self._every(kind)
            if body["metadata"].get("labels", {}).get(UID_LABEL) == uid
        ]

    def _every(self, resource: Resource[Any]) -> list[dict[str, Any]]:
        kind = self._engine.registry.find(resource.group, resource.version, resource.plural)
        assert kind is not None
        return [state.raw() for state in self._engine.ledger.table(kind.key).select("")]
