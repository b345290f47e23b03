"""Discovery tells clients of every served kind, and in the forms that they ask for."""

from lanloom.apiserver import discovery
from lanloom.apiserver.builtin import BUILTINS
from lanloom.apiserver.kinds import ServedKind


def widget(version: str) -> ServedKind:
    """A custom kind in one version."""
    return ServedKind(
        group="example.org",
        version=version,
        kind="Widget",
        plural="widgets",
        namespaced=True,
        short_names=("wd",),
        categories=("all",),
        has_status=True,
    )


KINDS = (*BUILTINS, widget("v2"), widget("v1"))


def test_core_versions() -> None:
    """The core group has one version and the server's address."""
    document = discovery.api_versions("127.0.0.1:6443")
    assert document["versions"] == ["v1"]
    assert document["serverAddressByClientCIDRs"][0]["serverAddress"] == "127.0.0.1:6443"


def test_groups_are_listed_once_with_their_preferred_version() -> None:
    """Every group but the core is there once; its first served version is preferred."""
    groups = {each["name"]: each for each in discovery.group_list(KINDS)["groups"]}
    assert groups.keys() == {kind.group for kind in KINDS} - {""}
    widgets = groups["example.org"]
    assert [each["version"] for each in widgets["versions"]] == ["v2", "v1"]
    assert widgets["preferredVersion"] == {"groupVersion": "example.org/v2", "version": "v2"}
    assert discovery.group(KINDS, "example.org") == {"kind": "APIGroup", "apiVersion": "v1", **widgets}


def test_what_is_not_served_is_not_found() -> None:
    """Unknown groups and versions have no document."""
    assert discovery.group(KINDS, "nowhere.org") is None
    assert discovery.resource_list(KINDS, "example.org", "v3") is None


def test_resources_of_a_version() -> None:
    """A custom resource is listed with its names and verbs, and its status beside it."""
    document = discovery.resource_list(KINDS, "example.org", "v1")
    assert document is not None
    assert document["groupVersion"] == "example.org/v1"
    assert document["resources"] == [
        {
            "name": "widgets",
            "singularName": "widget",
            "namespaced": True,
            "kind": "Widget",
            "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
            "shortNames": ["wd"],
            "categories": ["all"],
        },
        {
            "name": "widgets/status",
            "singularName": "",
            "namespaced": True,
            "kind": "Widget",
            "verbs": ["get", "patch", "update"],
        },
    ]


def test_the_core_list_has_no_api_version() -> None:
    """The list of the core group is in the form that the oldest clients know, sorted by name."""
    document = discovery.resource_list(KINDS, "", "v1")
    assert document is not None
    assert "apiVersion" not in document
    names = [each["name"] for each in document["resources"]]
    assert names == sorted(names)
    assert {"nodes", "nodes/status", "pods", "configmaps"} <= set(names)


def test_aggregated_documents_say_all() -> None:
    """Two documents together hold every kind, with its scope, its names and its status."""
    core = discovery.aggregated(KINDS, core=True)
    others = discovery.aggregated(KINDS, core=False, version="v2beta1")
    assert core["apiVersion"] == "apidiscovery.k8s.io/v2"
    assert others["apiVersion"] == "apidiscovery.k8s.io/v2beta1"
    assert [item["metadata"] for item in core["items"]] == [{}]
    found = {
        (item["metadata"].get("name", ""), version["version"], resource["resource"])
        for item in (*core["items"], *others["items"])
        for version in item["versions"]
        for resource in version["resources"]
    }
    assert found == {(kind.group, kind.version, kind.plural) for kind in KINDS}
    widgets = next(item for item in others["items"] if item["metadata"]["name"] == "example.org")
    assert widgets["versions"][0]["resources"][0] == {
        "resource": "widgets",
        "responseKind": {"group": "example.org", "version": "v2", "kind": "Widget"},
        "scope": "Namespaced",
        "singularResource": "widget",
        "verbs": ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"],
        "shortNames": ["wd"],
        "categories": ["all"],
        "subresources": [
            {
                "subresource": "status",
                "responseKind": {"group": "example.org", "version": "v2", "kind": "Widget"},
                "verbs": ["get", "patch", "update"],
            }
        ],
    }
