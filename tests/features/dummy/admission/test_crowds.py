"""A tenant that asks for more than there is room or time for, by pods that it may create."""

import asyncio
import copy
from typing import Any

import msgspec

from lanloom.api.admission import AdmissionRequest
from lanloom.api.core import PODS
from lanloom.api.resource import Resource
from lanloom.nads.admission import NOTE_SECONDS
from lanloom.nads.guard import NAMESPACE_MAX, Reservation, is_crowded
from lanloom_embedded.local import LocalClient
from tests.features.dummy.admission.requests import admission_of, first_storage, pod, server, with_uids
from tests.features.dummy.admission.reviews import OURS, annotated, reviewed
from tests.harness.admission import request
from tests.harness.virtual import START, run


def test_one_namespace_can_not_keep_others_out() -> None:
    """A tenant that asks without end has to wait, while requests of other namespaces are noted, in the same breath,
    too.
    """
    crowd = [request(PODS, pod(f"p{number:03}")) for number in range(NAMESPACE_MAX + 20)]
    found = reviewed(*crowd, request(PODS, pod("web", namespace="other")))
    assert found.messages[:NAMESPACE_MAX] == [""] * NAMESPACE_MAX
    assert all("try again in a minute" in message for message in found.messages[NAMESPACE_MAX:-1])
    assert found.messages[-1] == ""
    assert len(found.notes) == NAMESPACE_MAX + 1


def test_what_is_noted_counts_until_it_is_seen() -> None:
    """A namespace has room again as its requests are seen or must have ended."""
    text = msgspec.json.encode(
        [Reservation(f"u{number}", 0, START + 9, "Pod a/p", "a") for number in range(NAMESPACE_MAX)]
    ).decode()
    assert is_crowded(annotated(text), "a", 0, lambda _: None, START)
    assert not is_crowded(annotated(text), "b", 0, lambda _: None, START)
    assert not is_crowded(annotated(text), "a", 0, lambda uid: 5 if uid == "u7" else None, START)
    assert not is_crowded(annotated(text), "a", 0, lambda _: None, START + 9)
    assert not is_crowded(annotated("{"), "a", 0, lambda _: None, START)


def test_notes_stay_short() -> None:
    """However long the name of an object is, its note takes little of the room that all have."""
    name = "x" * 253
    ((_, _, title),) = reviewed(request(PODS, pod(name))).notes
    assert title == f"Pod default/{name}"[:120]


class Slow(LocalClient):
    """A client whose answers take a second."""

    async def get(self, resource: Resource[Any], name: str, namespace: str = "") -> Any:
        """As the port says."""
        await asyncio.sleep(1)
        return await super().get(resource, name, namespace)


def test_an_answer_comes_in_time_however_many_networks_there_are() -> None:
    """A pod that names many unknown NADs is answered before the API server gives up waiting, and refused."""
    storage = first_storage()

    async def ask() -> tuple[str, float]:
        real, uids = await server(OURS, copy.deepcopy(storage))
        tasks = list["asyncio.Task[None]"]()
        admission = await admission_of(Slow(real), LocalClient(real), tasks)
        started = asyncio.get_running_loop().time()
        many = request(PODS, pod(networks=",".join(f"nets/net{number}" for number in range(100))))
        verdict = await admission.refer(with_uids(uids, many, AdmissionRequest))
        for task in tasks:
            task.cancel()
        return verdict.message, asyncio.get_running_loop().time() - started

    message, seconds = run(ask())
    assert "does not answer in time; try again" in message
    assert seconds == NOTE_SECONDS
