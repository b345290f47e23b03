"""Objects as a current Kubernetes cluster and its neighbours write them: what Lanloom must be able to read."""

import json
from pathlib import Path
from typing import Any

Raw = dict[str, Any]


def objects() -> list[Raw]:
    """Every recorded object."""
    files = sorted(Path(__file__).parent.glob("*.json"))
    return [item for file in files for item in json.loads(file.read_text())["objects"]]
