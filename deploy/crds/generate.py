"""Writes the CRD manifests beside this file from the types: `python deploy/crds/generate.py`."""

from pathlib import Path

from lanloom.api.crds import manifests, to_yaml


def main() -> None:
    """Writes one file per CRD, named as the CRD."""
    for manifest in manifests():
        Path(__file__).with_name(f"{manifest['metadata']['name']}.yaml").write_text(to_yaml(manifest))


if __name__ == "__main__":
    main()
