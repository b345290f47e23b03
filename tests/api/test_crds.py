"""The CRDs say what the Structs say."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from msgspec import Meta, Struct

from lanloom.api.crds import manifest
from lanloom.api.meta import Condition, Object
from lanloom.api.resource import Column, Resource
from lanloom.processes.definitions import (
    foreign,
    manifests,
    own,
    resources,
)
from lanloom_lab.harvester.definitions import FACTS
from scripts.manifests import manifests as deployed

ROOT = Path(__file__).parents[2]


class WidgetSpec(Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """What is wanted of a widget."""

    colour: Literal["red", "blue"]
    label_text: Annotated[str, Meta(min_length=1, max_length=20, pattern="^[a-z]+$")] = "a"
    size: Annotated[int, Meta(ge=0, le=9)] = 0
    weight: Annotated[float, Meta(gt=0, lt=2)] = 1.0
    round: bool = False
    parts: Annotated[tuple[str, ...], Meta(max_length=3)] = ()
    attributes: dict[str, str] = {}
    spare: int | None = None


class WidgetStatus(Struct, frozen=True):
    """How the widget is."""

    conditions: tuple[Condition, ...] = ()


class Widget(Object, frozen=True, kw_only=True):
    """A widget."""

    spec: WidgetSpec
    status: WidgetStatus = WidgetStatus()


def widgets(**changes: Any) -> Resource[Any]:
    """The resource of widgets, with some of its fields changed."""
    fields: dict[str, Any] = {
        "group": "example.org",
        "version": "v1",
        "kind": "Widget",
        "plural": "widgets",
        "type": Widget,
        "namespaced": True,
        "short_names": ("wd",),
        "status": True,
        "columns": (Column("Size", ".spec.size", "integer", "How big it is.", 1),),
    }
    return Resource(**(fields | changes))


def test_every_kind_of_field_has_its_schema() -> None:
    """A Struct's names, types, bounds, docstrings and columns become a structural schema."""
    golden = yaml.safe_load((ROOT / "tests/golden/crds/widgets.example.org.yaml").read_text())
    assert manifest(widgets()) == golden


def test_deployed_manifests_are_current() -> None:
    """What follows from the code in deploy/ is what `make manifests` would write now."""
    for name, text in deployed():
        assert (ROOT / "deploy" / name).read_text() == text, name
    for folder, kinds in (("deploy/crds", own()), ("deploy/crds/others", foreign())):
        files = {path.name for path in (ROOT / folder).iterdir() if path.is_file()}
        assert files == {f"{kind.full_name}.yaml" for kind in kinds}


@pytest.mark.parametrize("crd", manifests(), ids=lambda crd: crd["metadata"]["name"])
def test_name_and_storage_are_as_kubernetes_demands(crd: dict[str, Any]) -> None:
    """A CRD is named plural.group and has exactly one version that is stored."""
    spec = crd["spec"]
    assert crd["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert sum(version["storage"] for version in spec["versions"]) == 1


@pytest.mark.parametrize("resource", resources(), ids=lambda resource: resource.plural)
def test_unknown_fields_are_refused(resource: Resource[Any]) -> None:
    """No object of ours keeps fields that its schema does not know: a misspelt one would be ignored."""
    schema = manifest(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    assert not [each for each in _walk(schema) if each.get("x-kubernetes-preserve-unknown-fields")]


KINDS = {kind.plural for kind in foreign()}
HARVESTER = {plural: facts for plural, facts in FACTS.items() if plural in KINDS}


@pytest.mark.parametrize("plural", HARVESTER)
def test_harvesters_kinds_are_a_superset(plural: str) -> None:
    """Every field, default and bound, short name and column of Harvester's definitions is in ours, too."""
    facts = HARVESTER[plural]
    spec = next(item for item in manifests() if item["spec"]["names"]["plural"] == plural)["spec"]
    assert set(facts["shortNames"]) <= set(spec["names"]["shortNames"])
    version = spec["versions"][0]
    columns = {item["name"].upper() for item in version.get("additionalPrinterColumns", ())}
    assert {
        name for name, path in facts["columns"] if plural != "vlanstatuses" or path != ".spec.description"
    } <= columns  # VlanStatus has no spec
    assert bool(version.get("subresources")) == facts["statusSubresource"]
    ours = dict(_fields(version["schema"]["openAPIV3Schema"]))
    for path, field in facts["schema"].items():
        kept = {key: field[key] for key in ("type", "default", "enum", "minimum", "format") if key in field}
        assert kept.items() <= ours[path].items(), path
        assert set(field.get("required", ())) == set(ours[path].get("required", ())), path


def _fields(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """The schemas of all fields, by paths such as `.spec.nics[]`; values of maps are `{}`."""
    yield path or ".", schema
    for name, field in schema.get("properties", {}).items():
        yield from _fields(field, f"{path}.{name}")
    if "items" in schema:
        yield from _fields(schema["items"], f"{path}[]")
    if isinstance(schema.get("additionalProperties"), dict):
        yield from _fields(schema["additionalProperties"], f"{path}{{}}")


def test_an_ambiguous_union_is_refused() -> None:
    """A type that no structural schema can express is an error that names it."""

    class Bad(Object, frozen=True, kw_only=True):
        spec: int | str = 0

    with pytest.raises(TypeError, match="union"):
        manifest(widgets(type=Bad))


def _walk(schema: dict[str, Any]) -> list[dict[str, Any]]:
    below = [*schema.get("properties", {}).values()]
    below += [schema[key] for key in ("items", "additionalProperties") if key in schema]
    return [schema, *(found for each in below for found in _walk(each))]
