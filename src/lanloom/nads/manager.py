"""The manager's part: the users of all NADs for every feature, and the webhook of references."""

from functools import partial

from lanloom.api.multus import NADS
from lanloom.nads.admission import ReferenceAdmission
from lanloom.nads.users import NadUsers, user_informers
from lanloom.runtime.context import ManagerContext, ManagerPart
from lanloom.runtime.ports import NAD_CLAIMS, Port

NAD_USERS: Port[NadUsers] = Port("users of NADs")


def build(context: ManagerContext) -> ManagerPart:
    """Build the users and the webhook. Claims come from a feature that is built later, or from none."""
    users = NadUsers(context.client, user_informers(context.informers), context.now)
    context.provide(NAD_USERS, users)
    nads = context.informers.get(NADS)
    return ManagerPart(
        admission=ReferenceAdmission(
            context.client, nads.store.get, users.seen, partial(context.find, NAD_CLAIMS), now=context.now
        ),
    )
