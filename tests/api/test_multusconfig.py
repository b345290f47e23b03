"""What Multus' own configuration says of namespaces, as Multus reads it."""

import pytest

from lanloom.api.meta import Key
from lanloom.api.multusconfig import (
    DEFAULT_GLOBAL,
    NO_ISOLATION,
    NamespaceIsolation,
    isolation_in,
    parse_global,
)

ISOLATED = NamespaceIsolation(enabled=True)


@pytest.mark.parametrize(
    ("isolation", "namespace", "nad", "allowed"),
    [
        (NO_ISOLATION, "t1", "secret/hidden", True),
        (ISOLATED, "t1", "t1/red", True),
        (ISOLATED, "t1", "default/red", True),
        (ISOLATED, "t1", "secret/hidden", False),
        (ISOLATED, "default", "t1/red", False),
        (ISOLATED, "kube-system", "t1/red", False),
        (ISOLATED, "t1", "kube-system/red", False),
        (ISOLATED, "t1", "T1/red", False),
        (NamespaceIsolation(enabled=True, global_namespaces=frozenset({"shared"})), "t1", "shared/red", True),
        (
            NamespaceIsolation(enabled=True, global_namespaces=frozenset({"shared"})),
            "t1",
            "default/red",
            False,
        ),
        (
            NamespaceIsolation(enabled=True, global_namespaces=frozenset({"shared"})),
            "default",
            "default/red",
            True,
        ),
        (NamespaceIsolation(global_namespaces=frozenset({"shared"})), "t1", "secret/hidden", True),
    ],
)
def test_who_may_use_what(isolation: NamespaceIsolation, namespace: str, nad: str, allowed: bool) -> None:
    """With isolation, NADs of the own and of global namespaces can be used, and no namespace is exempt."""
    place, _, name = nad.partition("/")
    assert isolation.allows(namespace, Key(place, name)) is allowed
    assert (isolation.against(namespace, Key(place, name)) == "") is allowed


@pytest.mark.parametrize(
    ("text", "namespaces"),
    [
        ("", DEFAULT_GLOBAL),
        ("default", DEFAULT_GLOBAL),
        (" foo,bar ,default", {"foo", "bar", "default"}),
        ("kube-system", {"kube-system"}),
        (",", {""}),
    ],
)
def test_global_namespaces(text: str, namespaces: set[str]) -> None:
    """A list takes the place of the default, and spaces around its names do not count."""
    assert parse_global(text) == namespaces


@pytest.mark.parametrize(
    ("content", "isolation"),
    [
        ('{"type": "multus"}', NO_ISOLATION),
        ('{"type": "multus-shim", "namespaceIsolation": true}', ISOLATED),
        ('{"type": "multus", "NamespaceIsolation": true, "globalNamespaces": ""}', ISOLATED),
        ('{"type": "multus", "namespaceIsolation": null, "globalNamespaces": null}', NO_ISOLATION),
        (
            '{"plugins": [{"type": "multus", "namespaceIsolation": true, "globalNamespaces": "a, b"}]}',
            NamespaceIsolation(enabled=True, global_namespaces=frozenset("ab")),
        ),
        ('{"type": "calico", "namespaceIsolation": true}', None),
        ('{"plugins": [{"type": "flannel"}, 1]}', None),
        ('{"plugins": {}}', None),
        ("[]", None),
    ],
)
def test_a_configuration(content: str, isolation: NamespaceIsolation | None) -> None:
    """The configuration of Multus is found by its plugin, and read with Multus' defaults."""
    assert isolation_in(content.encode()) == isolation


@pytest.mark.parametrize(
    "content",
    ["{", "\xff", "[" * 100_000, '{"type": "multus", "namespaceIsolation": "yes"}'],
    ids=["no JSON", "no text", "nested", "no flag"],
)
def test_what_can_not_be_read(content: str) -> None:
    """What Multus could not read either is reported as such, and never means that nothing is isolated."""
    with pytest.raises(ValueError, match=r"JSON|true or false"):
        isolation_in(content.encode("latin-1"))


def test_the_text_is_short() -> None:
    """However many namespaces are global, the refusal names some of them only."""
    many = NamespaceIsolation(
        enabled=True, global_namespaces=frozenset(f"n{number}" for number in range(900))
    )
    assert len(many.against("t1", Key("secret", "hidden"))) < 300
