"""A resource of the tests' own: the kit knows no feature, so its tests need none."""

from lanloom.api.meta import Object, ObjectMeta
from lanloom.api.resource import Resource


class Thing(Object, frozen=True, kw_only=True):
    """Something with a colour, by which it is indexed, and any text."""

    colour: str = ""
    text: str = ""


THINGS = Resource(
    group="example.org", version="v1", kind="Thing", plural="things", type=Thing, namespaced=True
)

RED = {"metadata": {"namespace": "default", "name": "a", "resourceVersion": "7"}, "colour": "red"}
"""A Thing as an API server sends it."""


def thing(name: str, version: int = 0, colour: str = "", text: str = "") -> Thing:
    """A Thing in the namespace `default`."""
    meta = ObjectMeta(namespace="default", name=name, resource_version=str(version) if version else "")
    return Thing(metadata=meta, colour=colour, text=text)
