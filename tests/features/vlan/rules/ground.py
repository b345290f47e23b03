"""A host for plans: kernel, profile directory, and a NetworkManager that does at once what is requested."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial

from msgspec.structs import replace

from lanloom.features.vlan.rules.desired.network import NodeNetwork
from lanloom.features.vlan.rules.desired.owned import NOTHING, Added, removed
from lanloom.features.vlan.rules.desired.plan import Plan, plan
from lanloom.node.errors import LinkError
from lanloom.node.keyfile import parse
from lanloom.node.ports import Link, LinkStep
from lanloom.node.vlanids import subtract
from tests.fakes import FakeHost, FakeSwitch
from tests.features.vlan.rules.strategies import FOREIGN, NICS

Action = Callable[[], None]


class Ground:
    """A host. An agent carries plans out on it, and may stop after any action.

    While it is `restless`, as where another host has each address, NetworkManager makes its devices again after every
    action, and leaves the last one of a profile that goes.
    """

    def __init__(self) -> None:
        host = FakeHost("node1", NICS, switch=FakeSwitch(), now=lambda: 0.0)
        self.kernel = host.kernel
        self.files: dict[str, bytes] = {}
        self.added: dict[str, Added] = {}
        self._known: dict[str, bytes] = {}
        self._made: set[int] = set()
        self.restless = False
        for link in FOREIGN:
            host.plant_link(link)

    def plan(self, wanted: tuple[NodeNetwork, ...]) -> Plan:
        """The plan for what is here now."""
        return plan(wanted, self.kernel.state(), self.files, self.added)

    def reach(self, wanted: tuple[NodeNetwork, ...]) -> None:
        """Carries a plan out to its end, and records what came of it, as the next reconcile does."""
        for action in self.actions(self.plan(wanted)):
            with suppress(LinkError):  # of a link that was made again since; the next plan knows it
                action()
        self._record(self.plan(wanted).added)

    def actions(self, todo: Plan) -> list[Action]:
        """What an agent does for a plan, in its order, in parts between which it may die."""
        return [partial(self._act, action) for action in self._actions(todo)]

    def picture(self) -> tuple[dict[str, Link], dict[str, bytes]]:
        """Everything but the order in which it was made."""
        links = self.kernel.state().links
        return {name: replace(link, index=0) for name, link in links.items()}, dict(self.files)

    def foreign(self) -> tuple[Link, ...]:
        """The links of others, without what Lanloom recorded that it added to them."""
        found = []
        mine = self.added.get("mgmt", NOTHING)
        for link in FOREIGN:
            now = self.kernel.links[link.name]
            if link.name == "mgmt-br":
                now = replace(now, self_vlans=subtract(now.self_vlans, mine.bridge))
            if link.name == mine.port:
                now = replace(now, vlans=subtract(now.vlans, mine.uplink))
            found.append(replace(now, index=0, mac=link.mac))
        return tuple(found)

    def restart_network_manager(self) -> None:
        """It forgets the profiles whose files are gone, but not their devices."""
        self._known = dict(self.files)

    def start_agent(self) -> None:
        """A new agent makes NetworkManager read all profiles: its predecessor may not have come to that."""
        for name in self.files:
            self._load(name)

    def _actions(self, todo: Plan) -> Iterator[Action]:
        yield partial(self._record, todo.added)
        for name in todo.remove_files:
            yield partial(self._remove, name)
        for name in (*todo.remove_files, *todo.forget):
            yield partial(self._load, name)
        for _, steps in todo.steps:
            for step in steps:
                yield partial(self._apply, step)
        for name, content in todo.write_files:
            yield partial(self._write, name, content)
        for name, _ in todo.write_files:
            yield partial(self._load, name)
        yield self._removed

    def _act(self, action: Action) -> None:
        action()
        for content in self._known.values() if self.restless else ():
            device = parse(content)["connection"]["interface-name"]
            if device in self.kernel.links:
                self._remake(self.kernel.links[device])

    def _remake(self, link: Link) -> None:
        self.kernel.delete(link.name)
        self.kernel.add(replace(link, index=0))
        self._made.add(self.kernel.links[link.name].index)

    def _record(self, added: dict[str, Added]) -> None:
        self.added = added

    def _removed(self) -> None:
        self.added = removed(self.added, self.kernel.state())

    def _apply(self, step: LinkStep) -> None:
        self.kernel.apply(step)
        self._activate()

    def _remove(self, name: str) -> None:
        self.files.pop(name, None)

    def _write(self, name: str, content: bytes) -> None:
        self.files[name] = content

    def _load(self, name: str) -> None:
        before = self._known.pop(name, None)
        if before is not None and name not in self.files:
            device = self.kernel.links.get(parse(before)["connection"]["interface-name"])
            if device is not None and device.index in self._made:
                self.kernel.delete(device.name)
                if self.restless:
                    self.kernel.add(replace(device, index=0))
        if name in self.files:
            self._known[name] = self.files[name]
        self._activate()

    def _activate(self) -> None:
        for content in self._known.values():
            profile = parse(content)
            device, parent = profile["connection"]["interface-name"], profile["vlan"]["parent"]
            if parent not in self.kernel.links:
                continue
            if device not in self.kernel.links:
                vid = int(profile["vlan"]["id"])
                self.kernel.add(Link(name=device, index=0, kind="vlan", parent=parent, vlan_id=vid, up=True))
                self._made.add(self.kernel.links[device].index)
            self.kernel.change(device, mtu=self.kernel.links[parent].mtu)
