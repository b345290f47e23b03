"""`-w` of lists: after the list, print each row that changes, as kubectl does.

A list has parts of several kinds of objects. So any change of one of them reads the list again, and what differs is
printed.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from lanloom.cli.cluster import ClusterOptions, run

if TYPE_CHECKING:
    from lanloom.api.resource import Resource
    from lanloom.kube.ports import Watcher

Versions = Mapping["Resource[Any]", str]


class Seen:
    """The rows that were there when the list was read last, by their text."""

    def __init__(self) -> None:
        self.is_first = True
        self._lines: frozenset[str] = frozenset()

    def fresh(self, rows: Mapping[str, Any]) -> list[Any]:
        """Return the rows that were not there in this form, and remember all."""
        fresh = [row for line, row in rows.items() if line not in self._lines]
        self._lines, self.is_first = frozenset(rows), self.is_first and not fresh
        return fresh


def watched(
    cluster: ClusterOptions, kinds: "Iterable[Resource[Any]]", show: Callable[[], object]
) -> NoReturn:
    """Show the list now and after each change of an object of these kinds. It ends when it is interrupted.

    The versions are read before the list: a change in between shows it once more. An exit code says how a list is, and
    ends nothing; an error says why the versions can't be read. The first kind is that of the list: if its objects are
    in namespaces, only those of the namespaces that the list shows are watched, so that no right to read others is
    needed.
    """
    chosen = tuple(kinds)
    place = cluster.scope if chosen[0].namespaced else ""

    def scoped(client: "Watcher") -> "Watcher":
        from lanloom.kube.scoped import Scoped

        return Scoped(client, place) if place else client

    async def changed(client: "Watcher", versions: Versions) -> None:
        await _changed(scoped(client), versions)

    while True:
        versions = run(cluster, lambda client: _versions(scoped(client), chosen))
        with suppress(SystemExit):
            show()
        run(cluster, partial(changed, versions=versions))


async def _versions(client: "Watcher", kinds: "Iterable[Resource[Any]]") -> Versions:
    """Return the versions of the kinds that the cluster has. Raises KubeError, also if it has none of them."""
    from lanloom.kube.errors import NotFound

    found: dict[Resource[Any], str] = {}
    missing: NotFound | None = None
    for kind in kinds:
        try:
            found[kind] = (await client.list(kind)).resource_version
        except NotFound as error:
            missing = error
    if not found and missing is not None:
        raise missing
    return found


async def _changed(client: "Watcher", versions: Versions) -> None:
    """Wait until an object of one of the kinds changes, or a watch ends."""
    import asyncio

    tasks = [asyncio.ensure_future(_next(client, kind, version)) for kind, version in versions.items()]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _next(client: "Watcher", kind: "Resource[Any]", version: str) -> None:
    from contextlib import aclosing

    from lanloom.kube.errors import Gone

    with suppress(Gone):
        async with aclosing(client.watch(kind, resource_version=version)) as events:
            async for event in events:
                if event.type != "BOOKMARK":
                    return
