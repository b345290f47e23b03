"""What can go wrong in the lab; one place, so that the command line can turn all of it into advice.

::

    LabError            base of everything that the lab raises on purpose
    └── AssetError      a cached asset (private tree, kernel, package) could not be made

A message says what is wrong and ends with what to do.
"""


class LabError(Exception):
    """Base of the lab's errors: its text is meant for the user, complete with what to do next."""


class AssetError(LabError):
    """A cached asset could not be made: `problem` is what failed, `remedy` what the user can do about it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n{self.remedy}"
