"""Lists: selectors, pages, versions."""

import base64
import json

from tests.embedded.cases.kit.objects import (
    config_map,
    event,
    gadget,
    pod,
    widget,
)
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area

case = Area(__name__)

BUILDERS = {"configmaps": config_map, "widgets": widget}


@case.each(BUILDERS.keys())
def of_nothing(api: Api, plural: str) -> None:
    """An empty list has an empty array of items."""
    api.get(plural)


@case
def of_a_missing_namespace(api: Api) -> None:
    """A namespace that doesn't exist has empty lists."""
    api.get("/api/v1/namespaces/no-such-namespace/configmaps")
    api.get("/apis/example.com/v1/namespaces/no-such-namespace/widgets")


@case.each(BUILDERS.keys())
def in_order(api: Api, plural: str) -> None:
    """Items come in the order of their names, whatever the order of their creation."""
    for name in ("b", "c", "a", "a-1", "a.1"):
        api.post(plural, BUILDERS[plural](name))
    api.get(plural)


@case
def of_all_namespaces(api: Api) -> None:
    """The list of all namespaces is in the order of namespace and name."""
    for suffix in ("b", "a"):
        space = f"{api.name}-{suffix}"
        api.post("namespaces", {"metadata": {"name": space}})
        api.post(f"/api/v1/namespaces/{space}/configmaps", config_map("x", labels={"of": api.name}))
        api.post(f"/apis/example.com/v1/namespaces/{space}/widgets", widget("x", labels={"of": api.name}))
    api.get("/api/v1/configmaps", query={"labelSelector": f"of={api.name}"})
    api.get("/apis/example.com/v1/widgets", query={"labelSelector": f"of={api.name}"})


LABEL_SELECTORS = {
    "equal": "colour=red",
    "equal-twice": "colour==red",
    "not-equal": "colour!=red",
    "in": "colour in (red, green)",
    "notin": "colour notin (red,green)",
    "exists": "colour",
    "absent": "!colour",
    "both": "colour=red,size!=large",
    "empty-value": "colour=",
    "greater": "weight>5",
    "less": "weight<5",
    "spaces": " colour = red , size in ( small ) ",
    "empty": "",
    "prefix": "example.com/team=a",
}


@case.each(LABEL_SELECTORS)
def by_labels(api: Api, selector: str) -> None:
    """A label selector chooses what it says."""
    shapes = [
        {"colour": "red", "size": "large", "weight": "9"},
        {"colour": "red", "size": "small", "weight": "3"},
        {"colour": "blue", "example.com/team": "a"},
        {"colour": ""},
        {},
    ]
    with api.quietly():
        for number, labels in enumerate(shapes):
            api.post("configmaps", config_map(f"c-{number}", labels=labels))
            api.post("widgets", widget(f"w-{number}", labels=labels))
    for plural in BUILDERS:
        api.note(plural, api.get(plural, query={"labelSelector": selector}).names)


BAD_LABEL_SELECTORS = {
    "operator": "a===b",
    "unclosed": "a in (b",
    "no-set": "a in b",
    "value": "a=b c",
    "key": "a b",
    "bad-key": "-a=b",
    "bad-value": "a=-b-",
    "comma": ",",
    "trailing-comma": "a=b,",
    "long": "a=" + "x" * 64,
    "not-a-number": "a>b",
    "double": "!a=b",
}


@case.each(BAD_LABEL_SELECTORS)
def by_bad_labels(api: Api, selector: str) -> None:
    """A label selector that can't be parsed is refused."""
    api.get("configmaps", query={"labelSelector": selector}, expect=-1)
    api.get("widgets", query={"labelSelector": selector}, expect=-1)


FIELD_SELECTORS = {
    "name": "metadata.name=a",
    "name-twice": "metadata.name==a",
    "not-name": "metadata.name!=a",
    "namespace": "metadata.namespace=default",
    "both": "metadata.name=a,metadata.namespace!=default",
    "empty": "",
}


@case.each(FIELD_SELECTORS)
def by_fields(api: Api, selector: str) -> None:
    """Every kind can be selected by name and namespace."""
    with api.quietly():
        for name in ("a", "b"):
            api.post("configmaps", config_map(name))
            api.post("widgets", widget(name))
    for plural in BUILDERS:
        api.note(plural, api.get(plural, query={"fieldSelector": selector}).names)


@case.each(
    [
        "spec.size=3",
        "metadata.labels=x",
        "nonsense",
        "metadata.name",
        "metadata.name>a",
        "=",
        "status.phase=x",
    ]
)
def by_bad_fields(api: Api, selector: str) -> None:
    """A field selector with a field that the kind doesn't offer, or a wrong syntax, is refused."""
    api.get("configmaps", query={"fieldSelector": selector}, expect=-1)
    api.get("widgets", query={"fieldSelector": selector}, expect=-1)


@case
def of_pods_by_fields(api: Api) -> None:
    """Pods can be selected by their node and their phase."""
    body = pod("b")
    body["spec"]["nodeName"] = "somewhere"
    with api.quietly():
        api.post("pods", pod("a"))
        api.post("pods", body)
    api.note("there", api.get("pods", query={"fieldSelector": "spec.nodeName=somewhere"}).names)
    api.note("elsewhere", api.get("pods", query={"fieldSelector": "spec.nodeName!=somewhere"}).names)
    api.note("pending", api.get("pods", query={"fieldSelector": "status.phase=Pending"}).names)


@case
def of_secrets_and_events_by_fields(api: Api) -> None:
    """Secrets can be selected by type, Events by type and reason."""
    with api.quietly():
        api.post("secrets", {"metadata": {"name": "a"}, "type": "example.com/one"})
        api.post("secrets", {"metadata": {"name": "b"}})
        api.post("events", event("a", api.ns))
    api.note("typed", api.get("secrets", query={"fieldSelector": "type=example.com/one"}).names)
    api.note("normal", api.get("events", query={"fieldSelector": "type=Normal"}).names)
    api.note("others", api.get("events", query={"fieldSelector": "reason!=Tested"}).names)


@case.each(BUILDERS.keys())
def in_pages(api: Api, plural: str) -> None:
    """Pages of a list are of one version, whatever happens meanwhile, and say how much remains."""
    with api.quietly():
        for number in range(5):
            api.post(plural, BUILDERS[plural](f"x-{number}"))
    first = api.get(plural, query={"limit": 2})
    api.post(plural, BUILDERS[plural]("x-9"))
    api.delete(f"{plural}/x-3")
    second = api.get(plural, query={"limit": 2, "continue": first.metadata["continue"]})
    third = api.get(plural, query={"limit": 2, "continue": second.metadata["continue"]})
    api.note("one version", {each.rv for each in (first, second, third)} == {first.rv})
    api.get(plural, query={"continue": first.metadata["continue"]})
    api.get(plural, query={"limit": 100})


@case
def in_pages_with_a_selector(api: Api) -> None:
    """Pages of a selection hold only what is selected, and don't say how much remains."""
    with api.quietly():
        for number in range(6):
            api.post("widgets", widget(f"x-{number}", labels={"odd": str(number % 2)}))
    query = {"limit": 2, "labelSelector": "odd=1"}
    first = api.get("widgets", query=query)
    api.get("widgets", query={**query, "continue": first.metadata["continue"]})


@case
def in_a_page_that_fits(api: Api) -> None:
    """A page that holds everything has no continue token."""
    with api.quietly():
        for number in range(2):
            api.post("widgets", widget(f"x-{number}"))
    api.get("widgets", query={"limit": 2})
    api.get("widgets", query={"limit": 0})


@case.each({"negative": "-1", "text": "many"})
def with_a_bad_limit(api: Api, limit: str) -> None:
    """A limit that is no positive number is ignored or refused."""
    api.post("widgets", widget("a"))
    api.get("widgets", query={"limit": limit}, expect=-1)
    api.get("configmaps", query={"limit": limit}, expect=-1)


def token(**values: object) -> str:
    """A continue token as the real server makes them."""
    return base64.urlsafe_b64encode(json.dumps(values).encode()).decode().rstrip("=")


BAD_TOKENS = {
    "no-base64": "%%%",
    "no-json": base64.urlsafe_b64encode(b"nonsense").decode().rstrip("="),
    "other-version": token(v="meta.k8s.io/v9", rv=1, start="x"),
}


@case.each(BAD_TOKENS)
def with_a_bad_token(api: Api, value: str) -> None:
    """A continue token that the server didn't make is refused."""
    api.get("widgets", query={"limit": 1, "continue": value}, expect=400)
    api.get("configmaps", query={"limit": 1, "continue": value}, expect=400)


@case
def with_a_token_and_a_version(api: Api) -> None:
    """A continue token and a resourceVersion exclude each other."""
    with api.quietly():
        for number in range(2):
            api.post("widgets", widget(f"x-{number}"))
    first = api.get("widgets", query={"limit": 1})
    query = {"limit": 1, "continue": first.metadata["continue"], "resourceVersion": first.rv}
    api.get("widgets", query=query, expect=400)
    api.get("widgets", query={**query, "resourceVersion": "0"}, expect=-1)


@case
def at_a_version(api: Api) -> None:
    """A list may ask for an exact version, or for one that is not older."""
    old = api.post("widgets", widget("a"))
    api.post("widgets", widget("b"))
    with api.quietly():
        # The real server answers from its cache, which may not have heard of b yet.
        api.until("widgets/b", lambda answer: answer.status == 200, query={"resourceVersion": "0"})
    exact = {"resourceVersion": old.rv, "resourceVersionMatch": "Exact"}
    api.note("exact", api.get("widgets", query=exact).rv == old.rv)
    for query in (
        {"resourceVersion": "0"},
        {"resourceVersion": old.rv},
        {**exact, "resourceVersionMatch": "NotOlderThan"},
    ):
        with api.quietly():
            # A list from the real server's cache has no order.
            answer = api.get("widgets", query=query)
        api.note(f"names for {sorted(query)}", [answer.status, sorted(answer.names)])


@case.each(
    {
        "match-alone": "resourceVersionMatch=Exact",
        "exact-zero": "resourceVersion=0&resourceVersionMatch=Exact",
        "unknown-match": "resourceVersion=1&resourceVersionMatch=Nonsense",
        "text": "resourceVersion=abc",
        "negative": "resourceVersion=-1",
    }
)
def at_a_bad_version(api: Api, query: str) -> None:
    """A version that can't be asked for is refused."""
    api.get("widgets", query=dict(part.split("=") for part in query.split("&")), expect=-1)
    api.get("configmaps", query=dict(part.split("=") for part in query.split("&")), expect=-1)


@case.each(BUILDERS.keys())
def at_a_version_before(api: Api, plural: str) -> None:
    """A list at an exact version holds what was there then, and nothing that came later."""
    before = api.get(plural)
    api.post(plural, BUILDERS[plural]("a"))
    api.get(plural, query={"resourceVersion": before.rv, "resourceVersionMatch": "Exact"})


@case
def at_a_version_of_the_future(api: Api) -> None:
    """A version that isn't there yet is refused after a while, and may be asked for again."""
    api.get("widgets", query={"resourceVersion": "99999999", "limit": 1}, expect=-1)


@case
def of_one_object_at_a_version(api: Api) -> None:
    """An object may be read at a version that is not older than one, or from the cache."""
    old = api.post("widgets", widget("a"))
    api.until("widgets/a", lambda answer: answer.status == 200, query={"resourceVersion": "0"})
    api.get("widgets/a", query={"resourceVersion": old.rv})
    api.get("widgets/a", query={"resourceVersion": "abc"}, expect=-1)


@case
def of_a_cluster_scoped_kind_in_pages(api: Api) -> None:
    """Pages of cluster-scoped objects work with selectors too."""
    with api.quietly():
        for number in range(3):
            api.post("gadgets", gadget(f"{api.name}-{number}", labels={"of": api.name}))
    query = {"limit": 2, "labelSelector": f"of={api.name}"}
    first = api.get("gadgets", query=query)
    api.get("gadgets", query={**query, "continue": first.metadata["continue"]})
