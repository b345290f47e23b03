"""The first page: what of all features is not ready, and their networks against nodes."""

import asyncio
from collections.abc import Iterable, Sequence

from lanloom.console import html
from lanloom.console.html import Problem
from lanloom.console.page import Asked, Content, Page
from lanloom.kube.errors import Forbidden, NotFound
from lanloom.kube.ports import Reader
from lanloom.refusals import Refusal


async def read_front(client: Reader, menu: Sequence[Page], asked: Asked, at: str) -> str:
    """Return its HTML. Raises KubeError where the API server does not answer."""
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
