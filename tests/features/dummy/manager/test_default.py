"""The network that is made at start, or is not."""

from lanloom.api.core import NAMESPACES
from lanloom.api.dummy import DUMMY_CLUSTER_NETWORKS, MANAGED_BY
from lanloom.features.dummy.rules.flags import Flags
from tests.features.dummy.manager.office import Office, in_an_office

NAME = "br-dummy-cluster"
SPEC = {"bridgeName": "a-br", "nadName": "a", "nadNamespace": "default"}


@in_an_office
async def test_it_is_made_at_start(office: Office) -> None:
    """The leader creates the network of the settings, and marks it as its own making."""
    await office.know_the_kind()
    await office.client.create(NAMESPACES, {"metadata": {"name": "harvester-system"}})
    office.lead(await office.start(Flags()))
    await office.rest()
    (made,) = await office.networks()
    assert (made.metadata.name, made.metadata.annotations) == (NAME, {MANAGED_BY: "dummy-controller"})
    assert (made.spec.bridge_name, made.spec.nad_name) == ("dummy-br", "dummy-bridge-net")
    assert made.spec.nad_namespace == "harvester-system"


@in_an_office
async def test_without_harvester_the_nad_is_lanloom_s(office: Office) -> None:
    """Where Harvester's namespace is missing and none was named, the NAD is in Lanloom's."""
    await office.know_the_kind()
    office.lead(await office.start(Flags()))
    await office.rest()
    (made,) = await office.networks()
    assert made.spec.nad_namespace == "lanloom-system"


@in_an_office
async def test_a_namespace_that_was_named_is_taken(office: Office) -> None:
    """A namespace that an operator named is not judged, though it does not exist."""
    await office.know_the_kind()
    office.lead(await office.start(Flags(nad_namespace="harvester-system")))
    await office.rest()
    (made,) = await office.networks()
    assert made.spec.nad_namespace == "harvester-system"


@in_an_office
async def test_an_administrator_opts_out(office: Office) -> None:
    """Nothing is made where the settings say so, and it is made as soon as they say otherwise."""
    await office.know_the_kind()
    await office.write({"default": "false"})
    office.lead(await office.start(Flags()))
    await office.rest(3600)
    assert await office.networks() == ()
    await office.change({"default": "true"})
    (made,) = await office.networks()
    assert made.metadata.name == NAME


@in_an_office
async def test_one_that_is_there_stays_as_it_is(office: Office) -> None:
    """A network of the name is left alone, whatever it says, and although settings change."""
    await office.know_the_kind()
    await office.client.create(DUMMY_CLUSTER_NETWORKS, {"metadata": {"name": NAME}, "spec": SPEC})
    before = await office.networks()
    office.lead(await office.start(Flags()))
    await office.write({"bridge": "other-br"})
    assert await office.networks() == before


@in_an_office
async def test_one_that_was_deleted_is_not_made_anew(office: Office) -> None:
    """Deleted in a running cluster it stays away until the next leader begins, whatever else is set."""
    await office.know_the_kind()
    settings = await office.start(Flags())
    end = office.lead(settings)
    await office.rest()
    await office.client.delete(DUMMY_CLUSTER_NETWORKS, NAME)
    await office.write({"nodeTimeout": "60"})
    await office.rest(3600)
    assert await office.networks() == ()
    await end()
    office.lead(settings)
    await office.rest()
    assert len(await office.networks()) == 1


@in_an_office
async def test_one_that_is_being_deleted_goes(office: Office) -> None:
    """A leader that begins while the network is being deleted does not create it again when it is gone."""
    await office.know_the_kind()
    body = {"metadata": {"name": NAME, "finalizers": ["example.org/keep"]}, "spec": SPEC}
    await office.client.create(DUMMY_CLUSTER_NETWORKS, body)
    await office.client.delete(DUMMY_CLUSTER_NETWORKS, NAME)
    office.lead(await office.start(Flags()))
    await office.rest()
    await office.client.patch(DUMMY_CLUSTER_NETWORKS, NAME, {"metadata": {"finalizers": None}})
    await office.rest(3600)
    assert await office.networks() == ()


@in_an_office
async def test_a_server_that_is_not_ready_is_asked_again(office: Office) -> None:
    """As long as the server does not know the kind it is tried again, and a change of settings is heard meanwhile."""
    office.lead(await office.start(Flags()))
    await office.rest(3600)
    await office.know_the_kind()
    await office.write({"name": "other"})
    (made,) = await office.networks()
    assert made.metadata.name == "other"


@in_an_office
async def test_it_is_made_late_without_anybody_s_doing(office: Office) -> None:
    """When the server comes to know the kind, the network is there within minutes."""
    office.lead(await office.start(Flags()))
    await office.rest(3600)
    await office.know_the_kind()
    await office.rest(301)
    assert len(await office.networks()) == 1
