"""What can go wrong with the host's reload unit.

HostError
"""


class HostError(Exception):
    """What is wrong, and what to do about it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}. {remedy}")
