"""Errors of the lab, in one place, so that the command line can end each with its remedy.

::

    LabError            base of all errors that the lab raises
    ├── AssetError      a cached asset (private tree, kernel, package) could not be created
    ├── KernelFeatureMissing     this machine can't run a lab on the requested kernel
    ├── BadOption       an invalid option or name
    ├── NotRunning      no lab runs in this state directory
    ├── AlreadyRunning  one does
    ├── Refused         the request is invalid for this node
    ├── ProcessFailed      a process of the lab ended or did not start
    └── DemoFailed      the demo did not observe an expected result

A message says what is wrong and ends with the remedy.
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
    """A cached asset could not be created."""


class KernelFeatureMissing(LabError):
    """This machine can't run a lab on the requested kernel; the message names the missing features."""


class BadOption(LabError):
    """An invalid option or name."""


class NotRunning(LabError):
    """No lab runs in this state directory."""


class AlreadyRunning(LabError):
    """A lab already runs in this state directory."""


class Refused(LabError):
    """The request is invalid for this node, for example the start of a running one."""


class ProcessFailed(LabError):
    """A process of the lab ended or did not start; the message contains the end of its log."""


class DemoFailed(LabError):
    """The demo did not observe an expected result; the message contains it, and the state of the cluster."""
