"""Users of a NAD: virtual machines, pods, and controllers of pods; by an index over the stores, or read live.

`stored` is what is followed, its index, and how users are named. `view` answers from the stores and reports changes, or
lists everything once from the API server.
"""

from lanloom.features.dummy.users.port import SharedUsers
from lanloom.features.dummy.users.stored import UserInformers, user_informers
from lanloom.features.dummy.users.view import Users, list_live_users, shared_live_users

__all__ = ["SharedUsers", "UserInformers", "Users", "list_live_users", "shared_live_users", "user_informers"]
