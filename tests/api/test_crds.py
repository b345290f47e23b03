"""The CRDs say what the Structs say."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import yaml
from msgspec import Meta, Struct

from lanloom.api.crds import RESOURCES, manifest, manifests
from lanloom.api.meta import Condition, Object
from lanloom.api.resource import Column, Resource
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
    for name, text in deployed().items():
        assert (ROOT / "deploy" / name).read_text() == text, name
    files = {path.name for path in (ROOT / "deploy/crds").iterdir()}
    assert files == {f"{crd['metadata']['name']}.yaml" for crd in manifests()}


@pytest.mark.parametrize("crd", manifests(), ids=lambda crd: crd["metadata"]["name"])
def test_name_and_storage_are_as_kubernetes_demands(crd: dict[str, Any]) -> None:
    """A CRD is named plural.group and has exactly one version that is stored."""
    spec = crd["spec"]
    assert crd["metadata"]["name"] == f"{spec['names']['plural']}.{spec['group']}"
    assert sum(version["storage"] for version in spec["versions"]) == 1


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda resource: resource.plural)
def test_only_harvester_kinds_keep_unknown_fields(resource: Resource[Any]) -> None:
    """Fields of Harvester that Lanloom doesn't model survive at every depth; other kinds are pruned."""
    harvester = resource.group == "network.harvesterhci.io"
    schema = manifest(resource)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    objects = [each for each in _walk(schema) if "properties" in each]
    assert {each.get("x-kubernetes-preserve-unknown-fields", False) for each in objects} == {harvester}


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
