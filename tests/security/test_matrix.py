"""Each action of the table in `docs/security.md`, tried as each role on a server with all webhooks."""

import os
from collections.abc import Iterator

import pytest

from lanloom.api.multusconfig import NamespaceIsolation
from lanloom.features.liveupdate.settings import LiveUpdateSettings
from lanloom.kube.loading import load
from tests.cli.cluster import served
from tests.security.cases import ACTIONS, ROLES, Action
from tests.security.page import PAGE, with_table
from tests.security.tenants import Server, identity, prepare


def test_the_page_has_the_table() -> None:
    """The page's table is that of the cases; LANLOOM_GOLDEN=rewrite writes it again."""
    wanted = with_table(PAGE.read_text())
    if os.environ.get("LANLOOM_GOLDEN") == "rewrite":
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server with two tenants, which has all that the actions meet."""
    settings = LiveUpdateSettings(isolation=NamespaceIsolation(enabled=True))
    place = tmp_path_factory.mktemp("security")
    with served(place, manager=True, kubevirt=True, live_update=settings) as cluster:
        found = Server(load(str(cluster.kubeconfig)))
        prepare(found)
        yield found


def outcome(server: Server, action: Action, role: str) -> str:
    """`allowed`, `no right`, or the message of a webhook."""
    method = "POST" if action.body is not None else "PATCH" if action.patch is not None else "GET"
    written = action.body if action.body is not None else action.patch
    answer = server.ask(method, action.path, written, role=role, dry=method != "GET")
    if answer.get("kind") != "Status":
        return "allowed"
    message = str(answer["message"])
    return "no right" if f'User "{identity(role)["Impersonate-User"]}" cannot' in message else message


@pytest.mark.slow
@pytest.mark.parametrize("title", ACTIONS)
def test_who_may(server: Server, title: str) -> None:
    """Each role may do what the table says; a refusal of a webhook says why, and names no other tenant's object."""
    action = ACTIONS[title]
    found = {role: outcome(server, action, role) for role in ROLES}
    told = {role: text for role, text in found.items() if text not in ("allowed", "no right")}
    assert {role for role, text in found.items() if text == "allowed"} == set(action.allowed.split()), found
    assert set(told) == set(action.refused.split()), found
    for role, text in told.items():
        assert action.message in text or role == "agent"
        assert "tenant-b/" not in text.replace(action.named, ""), text
