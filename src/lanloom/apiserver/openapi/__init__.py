"""OpenAPI documents of what is served, for `kubectl explain`, `apply` and its check of what an operation
understands.

`/openapi/v2` is one document for all; kubectl before 1.27 reads it, as protobuf only (`encode_swagger`).
`/openapi/v3` is an index and a document for each group and version. Both are made from the served kinds,
so keep them as long as these stay the same.
"""

import hashlib
import json
from collections.abc import Sequence

from lanloom.apiserver.kinds import Raw, ServedKind
from lanloom.apiserver.openapi.paths import paths_of
from lanloom.apiserver.openapi.protobuf import encode_swagger
from lanloom.apiserver.openapi.schemas import V2, V3, definitions_of

__all__ = ["PROTOBUF", "PROTOBUF_ASKED", "document", "encode_swagger", "index", "swagger"]

PROTOBUF = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""The media type of `encode_swagger`. Clients accept it by this name or, before 1.23, by `PROTOBUF_ASKED`."""

PROTOBUF_ASKED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
"""What old clients ask for. An answer can't be of this type: Go refuses to parse it."""

_TITLE = "Kubernetes"


def swagger(kinds: Sequence[ServedKind], version: str) -> Raw:
    """`/openapi/v2`. `version` is the server's version, as v1.20.2."""
    return {
        "swagger": "2.0",
        "info": {"title": _TITLE, "version": version},
        "paths": paths_of(kinds, V2),
        "definitions": definitions_of(kinds, V2),
    }


def index(kinds: Sequence[ServedKind]) -> Raw:
    """`/openapi/v3`: where the documents of groups and versions are. An address changes with its content."""
    names = dict.fromkeys((kind.group, kind.version) for kind in kinds)
    return {"paths": {_name(*each): {"serverRelativeURL": _address(kinds, *each)} for each in names}}


def document(kinds: Sequence[ServedKind], group: str, version: str, server_version: str) -> Raw | None:
    """`/openapi/v3/api/v1` (empty group) or `/openapi/v3/apis/GROUP/VERSION`, None for what isn't served."""
    served = _served(kinds, group, version)
    if not served:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": _TITLE, "version": server_version},
        "paths": paths_of(served, V3),
        "components": {"schemas": definitions_of(served, V3)},
    }


def _served(kinds: Sequence[ServedKind], group: str, version: str) -> list[ServedKind]:
    return [kind for kind in kinds if (kind.group, kind.version) == (group, version)]


def _name(group: str, version: str) -> str:
    return f"apis/{group}/{version}" if group else f"api/{version}"


def _address(kinds: Sequence[ServedKind], group: str, version: str) -> str:
    content = document(kinds, group, version, "")
    digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest().upper()
    return f"/openapi/v3/{_name(group, version)}?hash={digest}"
