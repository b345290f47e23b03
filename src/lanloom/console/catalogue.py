"""All pages in the order of the menu and by their paths, and what makes one of them, as its reader may see it."""

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from urllib.parse import parse_qs, urlsplit

from starlette.routing import compile_path

from lanloom.api.multus import is_name
from lanloom.console import html
from lanloom.console.changes import CHANGES
from lanloom.console.deletion import with_deletion
from lanloom.console.html import Problem
from lanloom.console.nodepage import node_pages
from lanloom.console.page import Asked, Content, NoSuchPage, Page
from lanloom.console.reading import Source, UserReader
from lanloom.kube.errors import Forbidden, KubeError, NotFound
from lanloom.kube.firstcontact import explain
from lanloom.kube.ports import Reader, Watcher
from lanloom.kube.scoped import Scoped
from lanloom.refusals import Refusal
from lanloom.runtime.feature import Feature, deletion_questions_of, node_views_of, pages_of

AWAY = 502
"""The status of a page without an API server, which comes by itself when that is back."""


def pages(features: Iterable[Feature]) -> tuple[Page, ...]:
    """Return the pages of the features, and those that show several features together; those with forms come last."""
    features = tuple(features)
    found = (*node_pages(node_views_of(features)), *pages_of(features), CHANGES)
    every = with_deletion(found, deletion_questions_of(features))
    return tuple(sorted(every, key=lambda page: page.answer is not None))


class Catalogue:
    """The pages. `now` is in seconds since the epoch."""

    def __init__(self, pages: Sequence[Page], now: Callable[[], float]) -> None:
        self.menu = tuple(page for page in pages if page.menu)
        self._front = tuple(page for page in self.menu if page.front)
        self._pages = {page.path: page for page in pages}
        self._paths = [(path, compile_path(path)[0]) for path in ("/", *self._pages)]
        self._now = now

    async def make(
        self, reader: Watcher, asked: Asked, given: Mapping[str, str] | None = None
    ) -> tuple[str, str]:
        """Return the title of a page, and its HTML between menu and end. Raises KubeError, Refusal.

        `given` are the fields of its form, None if it was not sent.
        """
        at = time.strftime("%H:%M:%S", time.gmtime(self._now()))
        page, names = self._find(asked.path)
        namespace = namespace_of(asked, names)
        reader = Scoped(reader, namespace) if namespace else reader
        if page is None:
            return "Overview", await _read_front(reader, self._front, asked, at)
        if given is None:
            content = await page.read(reader, names)
        elif page.answer is not None:
            content = await page.answer(reader, names, given)
        else:
            raise NoSuchPage(f"{asked.path} takes no form")
        command = page.command.format(**names)
        return content.title, html.main(content, page, self._above(page), command, asked, at)

    def source(self, asked: Asked) -> Source:
        """Return what a page is made of. Raises NoSuchPage."""
        page, names = self._find(asked.path)
        if page is not None:
            return Source(page.kinds, namespace_of(asked, names), page.wide)
        kinds = dict.fromkeys(kind for item in self._front for kind in item.kinds)
        wide = dict.fromkeys(kind for item in self._front for kind in item.wide)
        return Source(tuple(kinds), namespace_of(asked, names), tuple(wide))

    def _above(self, page: Page) -> Page | None:
        """Return the page of the menu that lists what a page is one of."""
        parent = self._pages.get(f"/{page.path.split('/')[1]}")
        return parent if parent is not page else None

    def _find(self, path: str) -> tuple[Page | None, Mapping[str, str]]:
        """Return the page of a path and the names in it; None for the first page. Raises NoSuchPage."""
        for known, pattern in self._paths:
            if found := pattern.match(path):
                return self._pages.get(known), found.groupdict()
        raise NoSuchPage(f"there is no page {path}; choose one of the menu")


def namespace_of(asked: Asked, names: Mapping[str, str]) -> str:
    """Return the namespace that the path or the reader names; empty without one.

    Raises NoSuchPage for a name that no namespace can have: it would end up in the path of a request.
    """
    if any(not is_name(name) for name in (*names.values(), *filter(None, (asked.namespace,)))):
        raise NoSuchPage(f"there is no page {asked.path}; choose one of the menu")
    return names.get("namespace", asked.namespace)


def asked_of(address: str) -> Asked:
    """Return what an address asks for: the path, and the query after a question mark."""
    try:
        parts = urlsplit(address)
    except ValueError:
        return Asked(path="")
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    return Asked(
        path=parts.path,
        words=query.get("q", "")[:200],
        namespace=query.get("namespace", "")[:63],
        everything=query.get("show") == "all",
    )


async def reason_of(reader: UserReader, error: KubeError | Refusal) -> str:
    """Return what a page says instead of its content."""
    if not isinstance(error, KubeError):
        return str(error)
    return await explain(reader.client, error, narrower="enter one of your namespaces in the filter")


def refused(error: Exception) -> tuple[int, str]:
    """Return the status and the title of a page that can't be made."""
    if isinstance(error, Forbidden):
        return 403, "You may not see this"
    if isinstance(error, Refusal | NotFound):
        return 404, "There is nothing here"
    return AWAY, "The API server does not answer"


async def _read_front(client: Reader, menu: Sequence[Page], asked: Asked, at: str) -> str:
    """Return the HTML of the first page: what of all features is not ready, and their networks against nodes.

    Raises KubeError where the API server does not answer.
    """
    contents = await asyncio.gather(*(_read(client, page) for page in menu))
    shown = [(page, item) for page, item in zip(menu, contents, strict=True) if isinstance(item, Content)]
    remarks = [
        f"{page.menu}: {item}" for page, item in zip(menu, contents, strict=True) if isinstance(item, str)
    ]
    problems = [problem for page, content in shown for problem in _problems(page, content)]
    things = sum(len(table.rows) for _, content in shown for table in content.tables if not table.searched)
    first = [(page, table.first) for page, item in shown for table in item.tables if not table.searched]
    matrices = (item.matrix for _, item in shown if item.matrix is not None)
    return html.front(problems, things, first, asked, matrices, remarks, at)


async def _read(client: Reader, page: Page) -> Content | str:
    """Return a page, or why it is not part of the first one."""
    try:
        return await page.read(client, {})
    except (Forbidden, NotFound, Refusal) as error:
        return str(error)


def _problems(page: Page, content: Content) -> Iterable[Problem]:
    for table in content.tables:
        for row in table.rows:
            if not_ready := table.not_ready(row):
                href = (table.href(row) if table.href is not None else "") or page.path
                yield Problem(kind=page.menu, name=table.name(row), href=href, not_ready=not_ready)
