"""What can go wrong in the lab; one place, so that the command line can turn all of it into advice.

::

    LabError            base of everything that the lab raises on purpose
    ├── AssetError      a cached asset (private tree, kernel, package) could not be made
    ├── KernelLacks     this machine can't carry a lab in the wanted way
    ├── BadOption       an option or a name that makes no sense
    ├── NotRunning      no lab runs in this state directory
    ├── AlreadyRunning  one does
    ├── Refused         the lab can't do that with this node
    ├── ProcessFailed      a part of the lab died or did not start
    └── DemoFailed      the demo did not see what it should have

A message says what is wrong and ends with what to do.
"""


class LabError(Exception):
    """Base of the lab's errors: `problem` is what is wrong, `remedy` what the user can do about it."""

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(problem, remedy)
        self.problem = problem
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.problem}\n{self.remedy}"


class AssetError(LabError):
    """A cached asset could not be made."""


class KernelLacks(LabError):
    """This machine can't carry a lab in the wanted way; the message names the missing features."""


class BadOption(LabError):
    """An option or a name that makes no sense."""


class NotRunning(LabError):
    """No lab runs in this state directory."""


class AlreadyRunning(LabError):
    """A lab runs in this state directory already."""


class Refused(LabError):
    """The lab can't do that with this node, for example start one that runs."""


class ProcessFailed(LabError):
    """A part of the lab died or did not start; the message holds the end of its log."""


class DemoFailed(LabError):
    """The demo did not see what it should have; the message says what, and what the cluster says about it."""
