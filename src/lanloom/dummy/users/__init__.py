"""Who uses a NAD: virtual machines, pods, and what makes pods; by an index as watches tell, or read anew.

`informers` is what is watched, `view` answers from it and tells of changes, `fresh` reads everything once from the API
server (`shared`: for many who ask at once). Both name users by the same rules (`stored`).
"""

from lanloom.dummy.users.fresh import fresh_users
from lanloom.dummy.users.informers import UserInformers, user_informers
from lanloom.dummy.users.shared import SharedLooks
from lanloom.dummy.users.view import Users

__all__ = ["SharedLooks", "UserInformers", "Users", "fresh_users", "user_informers"]
