"""Multus' own configuration, as far as it says which NADs a pod may use.

As Multus reads it (multus-cni, pkg/types and pkg/k8sclient): isolation is off by default; then a pod may name NADs of
any namespace. With it, NADs of the pod's namespace and of the global namespaces are left, and no namespace is exempt,
`systemNamespaces` neither. It is asked before the NAD is looked for, and about the annotation `networks` alone: the
network that takes the place of the pod network is not judged.
"""

import json

from msgspec import Struct

from lanloom.api.meta import Key

DEFAULT_GLOBAL = frozenset({"default"})
"""The global namespaces where none are named. A list that is given takes their place."""

PROGRAMS = frozenset({"multus", "multus-shim"})
"""The CNI programs of Multus: `multus-shim` asks the daemon of the thick plugin."""

_MOST_SHOWN = 5


class NamespaceIsolation(Struct, frozen=True, kw_only=True):
    """Whether pods may use NADs of their own namespace only, and of which others then."""

    enabled: bool = False
    global_namespaces: frozenset[str] = DEFAULT_GLOBAL

    def allows(self, namespace: str, nad: Key) -> bool:
        """Return whether a pod or a machine of a namespace may use a NAD, whether there is one of that name or not."""
        return not self.enabled or nad.namespace == namespace or nad.namespace in self.global_namespaces

    def against(self, namespace: str, nad: Key) -> str:
        """Return why a machine of a namespace can't use a NAD, with the remedy; empty if it can.

        The text is the same whether there is a NAD of that name or not.
        """
        if self.allows(namespace, nad):
            return ""
        others = sorted(self.global_namespaces - {namespace, ""})
        shown = ", ".join(others[:_MOST_SHOWN]) + (", …" if len(others) > _MOST_SHOWN else "")
        also = f" and of the global namespaces ({shown})" if others else ""
        return (
            f"{nad} is in another namespace; with namespace isolation, a machine in namespace {namespace} uses "
            f"NetworkAttachmentDefinitions of {namespace}{also} only; name one of these"
        )


NO_ISOLATION = NamespaceIsolation()
"""Multus' default."""


def parse_global(text: str) -> frozenset[str]:
    """Return the namespaces of a list with commas, as Multus reads `globalNamespaces`; of an empty text its default."""
    return frozenset(item.strip() for item in text.split(",")) if text else DEFAULT_GLOBAL


def isolation_in(content: bytes) -> NamespaceIsolation | None:
    """Return what a CNI configuration says if it is one of Multus; None for any other. Raises ValueError.

    A list of plugins is read as well. Keys are those of JSON in Go: in any case.
    """
    try:
        found = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not valid JSON: {error}") from None
    for plugin in _plugins(found):
        if plugin.get("type") in PROGRAMS:
            return _isolation(plugin)
    return None


def _plugins(found: object) -> tuple[dict[str, object], ...]:
    if not isinstance(found, dict):
        return ()
    plugins = found.get("plugins", [found])
    every = plugins if isinstance(plugins, list) else []
    return tuple(
        {str(key).casefold(): value for key, value in item.items()}
        for item in every
        if isinstance(item, dict)
    )


def _isolation(plugin: dict[str, object]) -> NamespaceIsolation:
    enabled, names = plugin.get("namespaceisolation") or False, plugin.get("globalnamespaces") or ""
    if not isinstance(enabled, bool) or not isinstance(names, str):
        raise ValueError("namespaceIsolation must be true or false, and globalNamespaces a text")
    return NamespaceIsolation(enabled=enabled, global_namespaces=parse_global(names))
