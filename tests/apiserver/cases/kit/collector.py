"""The garbage collector, which runs beside an API server and learns of objects and of new kinds when it gets to it."""

import time

from tests.apiserver.cases.kit.objects import config_map, owner, widget
from tests.apiserver.cases.kit.script import Api

COLLECTOR_SECONDS = 150.0
"""Until it is given up. It looks for new kinds every 30 seconds, and stands still while one goes that it just found."""


def collector_is_up_to_date(api: Api) -> None:
    """Wait until the collector has seen what was made so far, and knows the shared kinds.

    A dependant that it has not seen does not hold its owner, nor is it orphaned.
    """
    with api.quietly():
        other = api.post("widgets", widget("other"))
        reference = owner("example.com/v1", "Widget", "other", other.uid)
        api.post("configmaps", config_map("last", ownerReferences=[reference]))
        api.delete("widgets/other")
        deadline = time.monotonic() + COLLECTOR_SECONDS
        while api.get("configmaps/last", expect=-1).status != 404 and time.monotonic() < deadline:
            time.sleep(0.05)
