"""Settings that change while a manager runs, and the image that its pod reports."""

from typing import Any

import msgspec
import pytest
import yaml

from lanloom.api.core import PODS
from lanloom.features.dummy.manager.settings import image_of
from lanloom.features.dummy.rights import CONFIG_MAP
from lanloom.features.dummy.rules.flags import (
    KEYS,
    Flags,
    read_entries,
    settings,
)
from lanloom.features.dummy.rules.model import Settings
from tests.features.dummy.manager.office import Office, in_an_office
from tests.features.dummy.rules.made import IMAGE
from tests.processes.deployed import ROOT

OTHER_IMAGE = IMAGE.replace("lanloom@", "other@")


@in_an_office
async def test_without_a_word_there_are_defaults(office: Office) -> None:
    """Where nothing is set, the defaults hold."""
    assert (await office.start(Flags())).current() == Settings()


@in_an_office
async def test_the_config_map_takes_effect_as_it_changes(office: Office) -> None:
    """Entries hold from the moment at which they are written, and no longer than they are there; all hear of it."""
    found = await office.start(Flags())
    heard: list[float] = []
    found.on_change(lambda: heard.append(found.current().node_timeout))
    await office.write({"nodeTimeout": "60", "bridge": "other-br"})
    assert (found.current().node_timeout, found.current().bridge) == (60.0, "other-br")
    await office.change({"nodeTimeout": "90"})
    await office.change({"nodeTimeout": None})
    await office.erase()
    assert found.current() == Settings()
    assert heard == [60.0, 90.0, 300.0, 300.0]


@in_an_office
async def test_what_was_given_at_start_holds(office: Office) -> None:
    """Flags and environment go before the ConfigMap."""
    found = await office.start(Flags(node_timeout=30.0))
    await office.write({"nodeTimeout": "60", "name": "net9"})
    assert (found.current().node_timeout, found.current().name) == (30.0, "net9")


@in_an_office
async def test_a_mistake_changes_nothing(office: Office) -> None:
    """An entry that can't be read leaves in force what it said before, and an Event on the ConfigMap says why."""
    found = await office.start(Flags())
    office.lead(found)
    await office.write({"default": "false", "nodeTimeout": "60"})
    assert not found.faults
    await office.change({"nodeTimeout": "soon"})
    assert found.current().node_timeout == 60.0
    (event,) = await office.events()
    assert (event.reason, event.type, event.involved_object.name) == ("InvalidSetting", "Warning", CONFIG_MAP)
    assert event.message == 'nodeTimeout: "soon" is not a number of seconds from 1 to 86400'
    await office.change({"nodeTimeout": "45"})
    assert (found.current().node_timeout, found.faults) == (45.0, ())


@in_an_office
async def test_the_image_is_the_manager_s_own(office: Office) -> None:
    """The image is that of the manager's own pod, as soon as its node reports it; other pods don't matter."""
    found = await office.start(Flags())
    await office.pod({"name": "manager", "imageID": OTHER_IMAGE, "image": "x"}, name="other")
    assert found.current().image == ""
    await office.pod({"name": "manager", "imageID": IMAGE, "image": "x"})
    assert found.current().image == IMAGE
    await office.write({"image": OTHER_IMAGE})
    assert found.current().image == OTHER_IMAGE
    await office.erase()
    assert found.current().image == IMAGE


@in_an_office
async def test_an_image_without_a_digest_is_none(office: Office) -> None:
    """Where the node reports no name with a digest, no image is configured."""
    found = await office.start(Flags())
    await office.pod({"name": "manager", "imageID": IMAGE.rpartition("@")[2], "image": "x"})
    assert found.current().image == ""


def test_the_documented_config_map_says_the_defaults() -> None:
    """The example in deploy/ is read without a fault, changes nothing, and shows every entry there is."""
    text = (ROOT / "deploy/dummy.yaml").read_text()
    found = yaml.safe_load(text)
    assert found["metadata"] == {"name": CONFIG_MAP, "namespace": "lanloom-system"}
    given, faults = read_entries(found["data"], Flags())
    assert (settings(given), faults) == (Settings(), ())
    proposed = [line.removeprefix("  # ") for line in text.splitlines() if line.startswith("  # ")]
    shown = {line.partition(":")[0] for line in proposed} | found["data"].keys()
    assert KEYS.keys() <= shown


@pytest.mark.parametrize("key", ["nadNamespace", "image", "serviceCIDRs", "podCIDRs"])
def test_what_the_documented_config_map_proposes_can_be_read(key: str) -> None:
    """Entries that are commented out in the example are good ones."""
    lines = (ROOT / "deploy/dummy.yaml").read_text().splitlines()
    (line,) = [line for line in lines if line.startswith(f"  # {key}: ")]
    _, faults = read_entries(yaml.safe_load(line.removeprefix("  # ")), Flags())
    assert faults == ()


DIGEST = f"sha256:{'0123456789abcdef' * 4}"
NAMED = f"docker.io/example/lanloom@{DIGEST}"


def reported(*containers: dict[str, Any]) -> str:
    """The image of a pod of whose containers that is reported."""
    return image_of(msgspec.convert({"status": {"containerStatuses": list(containers)}}, PODS.type))


@pytest.mark.parametrize(
    ("image_id", "image"),
    [
        (NAMED, NAMED),
        (f"docker-pullable://{NAMED}", NAMED),
        (f"localhost:5000/lanloom@{DIGEST}", f"localhost:5000/lanloom@{DIGEST}"),
        (DIGEST, ""),
        (f"docker://{DIGEST}", ""),
        ("docker.io/example/lanloom:0.1.0", ""),
        ("", ""),
    ],
)
def test_forms_of_runtimes(image_id: str, image: str) -> None:
    """A name with a digest is taken, in the forms of containerd and Docker; a digest alone names nothing."""
    assert reported({"name": "manager", "imageID": image_id}) == image


@pytest.mark.parametrize(
    ("image", "taken"),
    [
        ("docker.io/library/lanloom:0.1.0", "docker.io/library/lanloom:0.1.0"),
        ("localhost:5000/lanloom", ""),
        (DIGEST, ""),
        ("lanloom", ""),
        ("", ""),
    ],
)
def test_an_image_that_was_loaded_is_known_by_its_tag(image: str, taken: str) -> None:
    """Where a runtime reports a digest alone, the image was loaded, and its name with a tag is taken."""
    assert reported({"name": "manager", "imageID": DIGEST, "image": image}) == taken
    assert reported({"name": "manager", "imageID": "", "image": image}) == ""


def test_the_manager_s_container_counts() -> None:
    """Among others, the container `manager` counts; without it, only one that is alone."""
    other = {"name": "other", "imageID": f"other@{DIGEST}"}
    assert reported(other, {"name": "manager", "imageID": NAMED}) == NAMED
    assert reported(other) == f"other@{DIGEST}"
    assert reported(other, {"name": "third", "imageID": NAMED}) == ""
    assert reported() == ""
