"""What `lanloom.lab.start` tells the supervisor that it starts."""

import msgspec
from msgspec import Struct

from lanloom.lab.carrier import Directories
from lanloom.lab.kernel import Choice
from lanloom.lab.layout import LabRecord
from lanloom.lab.uml import UmlKernel


class Settings(Struct, frozen=True):
    """One run of a lab. `uml` is None on the host's kernel; the descriptors are inherited.

    `nodes` is how many nodes there must be at least; `report_fd` takes Progress and then Done or Failed.
    """

    choice: Choice
    directories: Directories
    uml: UmlKernel | None
    nodes: int
    record: LabRecord
    api_fd: int
    report_fd: int


def encode(settings: Settings) -> bytes:
    """The settings as JSON; paths as strings."""
    return msgspec.json.encode(settings, enc_hook=str)


def decode(text: bytes) -> Settings:
    """The settings of `encode`."""
    return msgspec.json.decode(text, type=Settings, dec_hook=lambda kind, value: kind(value))
