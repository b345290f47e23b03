"""Asks whether the API server would accept a deletion, without one."""

from lanloom.kube.errors import ApiError, BadRequest, NotFound
from lanloom.kube.http import HttpClient
from lanloom.processes.blockers.kinds import Target
from lanloom.processes.blockers.reading import Trial

_OPTIONS = {"apiVersion": "v1", "kind": "DeleteOptions", "dryRun": ["All"]}


def trial_with(client: HttpClient) -> Trial:
    """The trial by a dry run, which every webhook is asked about."""

    async def trial(target: Target) -> str:
        path = target.resource.path(target.key.namespace, target.key.name)
        try:
            await client.request("DELETE", path, _OPTIONS)
        except (
            NotFound,
            BadRequest,
        ):  # gone meanwhile; or a webhook with side effects, which can't be asked so
            return ""
        except ApiError as error:
            return str(error)
        return ""

    return trial
