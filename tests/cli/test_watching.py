"""What `-w` asks an API server for, and what it does when a watch ends."""

from pathlib import Path

from aiohttp import web

from tests.cli.test_first_contact import typed
from tests.kube.server import answer, status_object

LISTED = {"metadata": {"resourceVersion": "7"}, "items": []}


async def test_a_tenant_watches_a_namespace(tmp_path: Path) -> None:
    """A list of one namespace is watched there, too: a user who may read no other one can watch it."""
    asked: list[str] = []

    async def tenant(request: web.BaseRequest) -> web.StreamResponse:
        kind = request.path.rpartition("/")[2]
        if kind == "lans":
            asked.append(request.path.rpartition("/namespaces/")[2])
            if asked[-1] != "mine/lans" or "watch" in request.query:
                return answer(status_object(403, "Forbidden", "enough"), 403)
        return answer(LISTED)

    code, output = await typed("lan list -w -n mine", tenant, tmp_path)
    assert (code, set(asked)) == (1, {"mine/lans"})
    assert "enough" in output


async def test_a_version_that_is_too_old(tmp_path: Path) -> None:
    """A watch whose version has expired begins again with a list, and says nothing of it."""
    versions: list[str] = []

    async def compacted(request: web.BaseRequest) -> web.StreamResponse:
        if "watch" not in request.query:
            return answer({"metadata": {"resourceVersion": str(len(versions))}, "items": []})
        versions.append(request.query["resourceVersion"])
        if len(versions) < 3:
            return answer(status_object(410, "Expired", "too old resource version"), 410)
        return answer(status_object(403, "Forbidden", "enough"), 403)

    code, output = await typed("lan list -w -A", compacted, tmp_path)
    assert (code, versions) == (1, ["0", "1", "2"])
    assert "too old" not in output
