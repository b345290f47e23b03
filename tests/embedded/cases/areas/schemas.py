"""The schema of a custom kind: what is refused and how it is said, what is pruned, what is filled in."""

from typing import Any

from tests.embedded.cases.kit.objects import Raw, widget
from tests.embedded.cases.kit.script import Api
from tests.embedded.cases.kit.suite import Area

case = Area(__name__)

WRONG: dict[str, Raw] = {
    "below-minimum": {"size": 0},
    "above-maximum": {"size": 11},
    "text-for-integer": {"size": "3"},
    "float-for-integer": {"size": 2.5},
    "null-for-integer": {"size": None},
    "boolean-for-integer": {"size": True},
    "list-for-integer": {"size": [1]},
    "not-in-enum": {"mode": "sometimes"},
    "integer-for-enum": {"mode": 1},
    "pattern": {"code": "ABC"},
    "too-short": {"code": "a"},
    "too-long": {"code": "abcdefghi"},
    "exclusive-minimum": {"ratio": 0},
    "number-above-maximum": {"ratio": 1.5},
    "text-for-number": {"ratio": "1"},
    "not-a-multiple": {"step": 7},
    "int32-overflow": {"count": 2**31},
    "text-for-boolean": {"enabled": "true"},
    "number-for-text": {"plain": 5},
    "boolean-for-text": {"plain": False},
    "object-for-text": {"plain": {"a": 1}},
    "no-items": {"tags": []},
    "too-many-items": {"tags": ["a", "b", "c", "d"]},
    "duplicate-in-set": {"tags": ["a", "a"]},
    "wrong-item": {"tags": ["a", 1]},
    "object-for-list": {"tags": {"a": "b"}},
    "missing-key": {"ports": [{"name": "x"}]},
    "duplicate-key": {"ports": [{"port": 1, "protocol": "TCP"}, {"port": 1, "protocol": "UDP"}]},
    "wrong-type-in-item": {"ports": [{"port": "http"}]},
    "no-properties": {"limits": {}},
    "too-many-properties": {"limits": {"a": 1, "b": 2, "c": 3}},
    "wrong-additional": {"limits": {"a": "x"}},
    "float-for-int-or-string": {"amount": 1.5},
    "object-for-int-or-string": {"amount": {}},
    "text-for-raw": {"raw": "x"},
    "bad-date": {"since": "yesterday"},
    "bad-ipv4": {"address": "300.0.0.1"},
    "ipv6-for-ipv4": {"address": "2001:db8::1"},
    "bad-cidr": {"network": "192.0.2.0/99"},
    "bad-base64": {"blob": "a*b"},
    "none-of-one-of": {"source": {}},
    "both-of-one-of": {"source": {"file": "a", "url": "b"}},
    "none-of-any-of": {"target": {}},
    "not": {"legacy": "old"},
    "missing-required": {"nested": {}},
    "wrong-default-parent": {"nested": {"name": "x", "deep": "y"}},
    "deep-wrong": {"nested": {"name": "x", "deep": {"level": "high"}}},
    "template-without-kind": {"template": {"metadata": {"name": "x"}}},
    "template-bad-metadata": {
        "template": {"apiVersion": "v1", "kind": "X", "metadata": {"labels": {"a": 1}}}
    },
    "template-bad-name": {"template": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "A B"}}},
}


@case.each({name: (spec,) for name, spec in WRONG.items()})
def refuse(api: Api, spec: Raw) -> None:
    """A value that breaks the schema is refused with the field and what is allowed."""
    api.post("widgets", widget("a", spec), expect=-1)


@case
def refuse_for_all_reasons(api: Api) -> None:
    """A body that breaks a schema in two places is refused for both."""
    with api.quietly():
        # The real server's order is that of a Go map: none.
        answer = api.post("widgets", widget("a", {"size": 99, "mode": "never"}), expect=422)
    causes = answer.body["details"]["causes"]
    api.note("causes", sorted(causes, key=lambda each: str(each["field"])))


RIGHT: dict[str, Raw] = {
    "boundaries": {"size": 10, "code": "abcdefgh", "ratio": 1, "tags": ["a", "b", "c"], "limits": {"a": 1}},
    "whole-float": {"size": 3.0},
    "int-or-string-text": {"amount": "50%"},
    "int-or-string-number": {"amount": 50},
    "null-where-nullable": {"note": None},
    "null-with-default": {"fallback": None},
    "null-elsewhere": {"plain": None},
    "null-with-default-not-nullable": {"mode": None},
    "null-object": {"nested": None},
    "formats": {
        "since": "2020-01-02T03:04:05Z",
        "address": "192.0.2.1",
        "network": "192.0.2.0/24",
        "blob": "dmFsdWU=",
    },
    "date-with-zone": {"since": "2020-01-02T03:04:05.5+02:00"},
    "ipv6-cidr": {"network": "2001:db8::/32"},
    "one-of": {"source": {"url": "b"}},
    "both-of-any-of": {"target": {"host": "a", "port": 1}},
    "defaults-in-items": {"ports": [{"port": 1}, {"port": 2, "protocol": "UDP"}]},
    "nested-defaults": {"nested": {"name": "x"}},
    "deep-defaults": {"nested": {"name": "x", "deep": {}}},
    "raw-keeps-everything": {"raw": {"any": {"thing": [1, None, "x"]}, "null": None}},
    "template": {
        "template": {
            "apiVersion": "v1",
            "kind": "X",
            "metadata": {"name": "x", "labels": {"a": "b"}, "nonsense": 1},
            "spec": {"kept": True},
        }
    },
    "negative": {"step": -5},
    "large-integer": {"raw": {"n": 9007199254740993}},
    "unicode": {"plain": "grüße 網路 🌐"},
    "escapes": {"plain": '<a href="x">&</a>\n\t\u2028'},
}


@case.each({name: (spec,) for name, spec in RIGHT.items()})
def accept(api: Api, spec: Raw) -> None:
    """A value that meets the schema is stored, with defaults where they are due."""
    api.post("widgets", widget("a", spec), expect=201)
    api.get("widgets/a")


@case
def accept_empty_text(api: Api) -> None:
    """An empty string is a string."""
    api.post("widgets", widget("a", {"plain": ""}), expect=-1)


PRUNED: dict[str, Raw] = {
    "at-the-top": {"nonsense": 1},
    "in-nested": {"nested": {"name": "x", "nonsense": 1, "deep": {"nonsense": 2}}},
    "in-items": {"ports": [{"port": 1, "nonsense": 1}]},
    "in-source": {"source": {"file": "x", "nonsense": 1}},
}


@case.each({name: (spec,) for name, spec in PRUNED.items()})
def prune(api: Api, spec: Raw) -> None:
    """What the schema doesn't name is dropped, wherever it is."""
    api.post("widgets", widget("a", spec), expect=201)
    api.patch("widgets/a", {"spec": {"more-nonsense": True}})


@case.each({"missing": (None,), "null": ("null",), "text": ("text",), "list": ([],)})
def judge_the_whole_spec(api: Api, spec: Any) -> None:
    """A spec that is no object is refused; one that is missing is fine and gets no defaults."""
    body = widget("a")
    del body["spec"]
    if spec is not None:
        body["spec"] = None if spec == "null" else spec
    api.post("widgets", body, expect=-1)


@case
def fill_in_on_update(api: Api) -> None:
    """Defaults return when a patch removes their field."""
    api.post("widgets", widget("a", {"size": 5, "mode": "manual"}))
    api.patch("widgets/a", {"spec": {"size": None}})
    api.patch("widgets/a", [{"op": "remove", "path": "/spec/mode"}], "json")
    api.patch("widgets/a", {"spec": None})


@case
def apply_to_every_version(api: Api) -> None:
    """Each version has a schema of its own."""
    path = f"/apis/example.com/v1beta1/namespaces/{api.ns}/widgets"
    api.post(path, {**widget("a", {"size": 99}), "apiVersion": "example.com/v1beta1"}, expect=422)
    api.post(path, {**widget("a", {"size": 9}), "apiVersion": "example.com/v1beta1"}, expect=201)
