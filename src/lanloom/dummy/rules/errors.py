"""What the rules of isolated networks raise. A message says what is wrong, where, and what to do.

DummyError
├── InvalidSpec      a DummyClusterNetwork that can't be made, whatever the cluster is like
├── UnknownImage     no image with a digest is known, of which the bridges' pods could be made
├── BadSetting       a flag, a variable or an entry of the ConfigMap that can't be read
└── Refused          a request that is well said, but that the cluster's state forbids
"""


class DummyError(Exception):
    """Base of all of them; the message is the user's."""


class InvalidSpec(DummyError):
    """The message names every field that is wrong, and what may stand there."""


class UnknownImage(DummyError):
    """The image of the bridges' DaemonSets is not known, or not by its digest."""


class BadSetting(DummyError):
    """A setting of the controller that can't be read; the message says where it was given."""


class Refused(DummyError):
    """The request is refused."""
