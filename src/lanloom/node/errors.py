"""What can go wrong on a host.

NodeError
├── LinkError              the kernel refused a change; names the step and the kernel's reason
│   ├── LinkMissing        a link that a step needs is not there
│   ├── KernelUnsupported  this kernel lacks what a step needs
│   ├── LinkInUse          a bridge can't be removed, because it has ports
│   └── NotOurs            a step would change or delete a link without the mark that it needs
├── NamespaceError         a network namespace can't be made, opened, entered or removed
│   └── NamespaceMissing   there is none at a path
├── ProfileError           a profile file can't be read, written or removed
├── RecordError            a record of the agent's own can't be read or written
└── NetworkManagerError    NetworkManager gave an error
    └── NetworkManagerMissing   it isn't running or does not answer, or its D-Bus socket can't be reached
"""


class NodeError(Exception):
    """Base of every error of this package."""


class LinkError(NodeError):
    """The kernel refused a change of a link."""


class LinkMissing(LinkError):
    """A link that is needed is not there."""


class KernelUnsupported(LinkError):
    """This kernel has not what a step needs, such as 802.1Q; the message names it."""


class NotOurs(LinkError):
    """A link that Lanloom did not create, or made for another, would have been changed or deleted; nothing was done."""


class LinkInUse(LinkError):
    """A bridge has ports, which the message names; nothing was done."""


class NamespaceError(NodeError):
    """A network namespace can't be made, opened, entered or removed."""


class NamespaceMissing(NamespaceError):
    """There is no network namespace at a path: nothing, or a file of another kind."""


class ProfileError(NodeError):
    """A profile file can't be read, written or removed; the old file is whole."""


class RecordError(NodeError):
    """A record can't be read or written; what was there before is whole."""


class NetworkManagerError(NodeError):
    """NetworkManager answered with an error."""


class NetworkManagerMissing(NetworkManagerError):
    """NetworkManager can't be reached, or does not answer."""
