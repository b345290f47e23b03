"""Who uses which network, read from the API server at this moment."""

from lanloom.dummy.rules.model import UserView
from lanloom.kube.ports import Client


async def fresh_users(client: Client) -> UserView:
    """Lists everything that may use a network. Raises KubeError where that can't be known: then all may be in use."""
    raise NotImplementedError
