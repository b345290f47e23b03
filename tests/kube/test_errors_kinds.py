"""The kinds of errors: what a webhook refuses is refused, with whatever code."""

import pytest

from lanloom.kube.errors import Forbidden, ServerError, from_status

DENIED = 'admission webhook "validator.harvester-system.harvester-network-webhook" denied the request: no'
AWAY = 'Internal error occurred: failed calling webhook "validate.lanloom.io": connection refused'


@pytest.mark.parametrize(
    ("code", "message", "kind"),
    [
        (403, DENIED, Forbidden),
        (500, DENIED, Forbidden),
        (503, DENIED, Forbidden),
        (500, AWAY, ServerError),
        (500, "etcd is unwell", ServerError),
        (429, DENIED, ServerError),
    ],
)
def test_a_refusal_is_no_fault_of_the_server(code: int, message: str, kind: type[Exception]) -> None:
    """Another try does not help where a webhook refused; where none could be asked, it does."""
    error = from_status(code, {"message": message, "reason": "InternalError"})
    assert (type(error), str(error)) == (kind, message)
