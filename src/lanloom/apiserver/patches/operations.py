"""JSON patches (RFC 6902): a list of operations that all apply, or none."""

import copy
from typing import Any

from jsonpatch import JsonPatch, JsonPatchException
from jsonpointer import JsonPointer, JsonPointerException

from lanloom.apiserver.errors import BadRequest, EntityTooLarge, Invalid

_MOST_OPERATIONS = 10_000
_REFUSED = "the server rejected our request due to an error in our request"


def json_patch(current: dict[str, Any], operations: Any) -> dict[str, Any]:
    """The object after all operations. Raises BadRequest, EntityTooLarge or Invalid."""
    if not isinstance(operations, list) or not all(isinstance(each, dict) for each in operations):
        raise BadRequest("a JSON patch must be a list of operations, each an object")
    if len(operations) > _MOST_OPERATIONS:
        raise EntityTooLarge(
            "Request entity too large: The allowed maximum operations in a JSON patch is "
            f"{_MOST_OPERATIONS}, got {len(operations)}"
        )
    result: Any = copy.deepcopy(current)
    for number, operation in enumerate(operations, 1):
        result = _applied(result, operation, number)
    if not isinstance(result, dict):
        raise _refused("the patch makes something else than an object")
    return result


def _applied(document: Any, operation: dict[str, Any], number: int) -> Any:
    try:
        if _adds(document, operation):
            operation = {**operation, "op": "add"}
        return JsonPatch([operation]).apply(document, in_place=True)
    except (JsonPatchException, JsonPointerException, TypeError, KeyError, ValueError) as error:
        what = f"{operation.get('op', 'without op')} {operation.get('path', 'without path')}"
        raise _refused(f"operation {number} of the patch ({what}) can't be applied to the object") from error


def _adds(document: Any, operation: dict[str, Any]) -> bool:
    """Whether it replaces an object's field, which Kubernetes adds where RFC 6902 wants one to be there."""
    if operation.get("op") != "replace" or not operation.get("path"):
        return False
    parent, _ = JsonPointer(operation["path"]).to_last(document)
    return isinstance(parent, dict)


def _refused(why: str) -> Invalid:
    """The message is Kubernetes' own; the reason stands in the causes, which kubectl shows."""
    return Invalid(
        _REFUSED, details={"causes": [{"reason": "FieldValueInvalid", "message": why, "field": "patch"}]}
    )
