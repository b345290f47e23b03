"""The device plugin API's messages by hand, against protobuf's own library."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lanloom.features.lan.agent.kubelet import api
from lanloom.runtime.grpc import INVALID_ARGUMENT, GrpcError
from lanloom_lab.workloads.devicemanager import MESSAGES

TEXT = st.text(max_size=300)


def read(kind: str, message: bytes) -> Any:
    """A message as protobuf's library reads it."""
    return MESSAGES[kind].FromString(message)


@given(TEXT, TEXT)
def test_registrations(endpoint: str, resource: str) -> None:
    """Kubelet reads the version, the endpoint and the resource."""
    found = read("RegisterRequest", api.register_request(endpoint, resource))
    assert (found.version, found.endpoint, found.resource_name) == ("v1beta1", endpoint, resource)


@given(st.lists(st.tuples(TEXT, st.booleans()), max_size=5))
def test_lists(devices: list[tuple[str, bool]]) -> None:
    """Kubelet reads each device and its health."""
    found = read("ListAndWatchResponse", api.device_list(devices))
    states = {True: "Healthy", False: "Unhealthy"}
    assert [(each.ID, each.health) for each in found.devices] == [
        (name, states[well]) for name, well in devices
    ]


@given(st.lists(st.lists(TEXT, max_size=3), max_size=4))
def test_allocations(containers: list[list[str]]) -> None:
    """What kubelet asks for is read, and what it gets is read by kubelet."""
    parts = [MESSAGES["ContainerAllocateRequest"](devices_ids=names) for names in containers]
    message = MESSAGES["AllocateRequest"](container_requests=parts).SerializeToString()
    assert api.read_allocate(message) == tuple(map(tuple, containers))
    answer = read("AllocateResponse", api.allocate_response(containers))
    assert [[each.host_path for each in part.devices] for part in answer.container_responses] == containers


@given(st.lists(TEXT, max_size=3), st.lists(TEXT, max_size=3), st.integers(0, (1 << 31) - 1))
def test_preferences(available: list[str], needed: list[str], count: int) -> None:
    """What kubelet would choose from is read."""
    part = MESSAGES["ContainerPreferredAllocationRequest"](
        available_deviceIDs=available, must_include_deviceIDs=needed, allocation_size=count
    )
    message = MESSAGES["PreferredAllocationRequest"](container_requests=[part]).SerializeToString()
    (found,) = api.read_preferences(message)
    assert found == api.Preference(tuple(available), tuple(needed), count)


@given(st.binary(max_size=100))
def test_any_bytes(message: bytes) -> None:
    """Bytes that are no message are INVALID_ARGUMENT and nothing else."""
    for function in (api.read_allocate, api.read_preferences):
        try:
            function(message)
        except GrpcError as error:
            assert error.status == INVALID_ARGUMENT and error.message


@pytest.mark.parametrize(
    "message",
    [b"\x0a", b"\x0a\x05abc", b"\x80" * 20, b"\x00\x00", b"\x0b\x01", b"\x0a\x03\x0a\x01\xff", b"\x08\x01"],
)
def test_bytes_that_are_no_message(message: bytes) -> None:
    """What is cut off, endless, of an unknown type or no UTF-8 is refused."""
    with pytest.raises(GrpcError):
        api.read_allocate(message)


def test_fields_of_the_future() -> None:
    """Unknown fields of every type are ignored."""
    future = b"\x78\x01" + b"\x7a\x02hi" + b"\x7d1234" + b"\x7912345678"
    assert api.read_allocate(future + b"\x0a\x03\x0a\x01x") == (("x",),)
