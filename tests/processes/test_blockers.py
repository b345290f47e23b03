"""What is said of the deletion of any object."""

from lanloom.api.meta import Object, ObjectMeta, OwnerReference
from lanloom.processes.blockers import controller_notes, refusal


def owned(**more: bool) -> Object:
    """An object with an owner."""
    owner = OwnerReference(api_version="apps/v1", kind="ReplicaSet", name="web", uid="u", **more)
    return Object(metadata=ObjectMeta(name="web-0", namespace="shop", owner_references=(owner,)))


def test_an_object_that_is_recreated() -> None:
    """An object of a controller is to be deleted there; another owner recreates nothing."""
    (note,) = controller_notes(owned(controller=True))
    assert "created by ReplicaSet web" in note
    assert controller_notes(owned()) == ()


def test_refusals_name_the_webhook() -> None:
    """A webhook's refusal is shown in its own words, and whose it is; other refusals are the server's."""
    found = refusal('admission webhook "validate.lanloom.io" denied the request: not now')
    assert (found.whose, found.why) == ("the admission webhook validate.lanloom.io", "not now")
    assert refusal("nads is forbidden").whose == "the API server"
