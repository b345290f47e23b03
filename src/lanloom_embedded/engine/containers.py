"""The rules of the kinds that hold other objects: namespaces and CustomResourceDefinitions."""

from lanloom_embedded import syntax
from lanloom_embedded.builtin import definition_types, places_of_rules
from lanloom_embedded.engine import definitions
from lanloom_embedded.engine.strategies import BuiltinStrategy, check_readable
from lanloom_embedded.kinds import Raw, ServedKind
from lanloom_embedded.schema import unknown_formats

NAME_LABEL = "kubernetes.io/metadata.name"


class NamespaceStrategy(BuiltinStrategy):
    """Namespaces are held back by `spec.finalizers`, which only the finalize path changes."""

    def __init__(self, kind: ServedKind) -> None:
        super().__init__(kind)
        self.name_rule = syntax.dns_label

    def decode(self, obj: Raw) -> list[str]:
        """Every namespace has its name as a label, so that selectors can name it."""
        unknown = super().decode(obj)
        put_name_label(obj)
        return unknown

    def prepare_create(self, obj: Raw) -> None:
        """A new namespace is active, and the clean-up must agree before it goes."""
        obj["spec"] = {"finalizers": ["kubernetes"]}
        obj["status"] = {"phase": "Active"}
        put_name_label(obj)

    def prepare_update(self, obj: Raw, old: Raw, subresource: str) -> None:
        """Keeps the specification but on the finalize path."""
        super().prepare_update(obj, old, subresource)
        if subresource == "finalize":
            obj["status"] = old.get("status", {})
        else:
            obj["spec"] = old.get("spec", {})


def put_name_label(namespace: Raw) -> None:
    """Labels a namespace with its name, whatever a client wants there."""
    meta = namespace["metadata"]
    if name := meta.get("name"):
        meta["labels"] = {**meta.get("labels", {}), NAME_LABEL: name}


class CrdStrategy(BuiltinStrategy):
    """CRDs remember every version in which objects may be stored; the rest of the status comes after the write."""

    def decode(self, obj: Raw) -> list[str]:
        """A CRD with values of wrong types can't be read: nothing here may look into it. Raises BadRequest."""
        unknown = super().decode(obj)
        check_readable(self._kind, definition_types(self._kind, obj))
        return unknown

    def prepare_create(self, obj: Raw) -> None:
        """A new CRD is not accepted yet."""
        super().prepare_create(obj)
        obj["status"] = definitions.first_status(obj["spec"])

    def warnings(self, obj: Raw, old: Raw | None) -> list[str]:
        """Formats of texts that nobody checks, and rules that nobody enforces."""
        versions = obj["spec"].get("versions") or ()
        schemas = [(version.get("schema") or {}).get("openAPIV3Schema") for version in versions]
        formats = [each for schema in schemas if schema for each in unknown_formats(schema)]
        unknown = [f'unrecognized format "{each}"' for each in dict.fromkeys(formats)]
        return unknown + [
            f"{place}: rules in CEL are not enforced by this server" for place in places_of_rules(obj)
        ]

    def prepare_update(self, obj: Raw, old: Raw, subresource: str) -> None:
        """Keeps the status but on its own path, and notes a new storage version."""
        super().prepare_update(obj, old, subresource)
        if not subresource:
            obj["status"] = definitions.with_stored_version(obj.get("status") or {}, obj.get("spec") or {})
