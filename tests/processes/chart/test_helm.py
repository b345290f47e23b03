"""The chart as helm sees it: lint, and the same manifests that Lanloom renders by itself."""

import json

import pytest

from lanloom.processes.chart import source
from lanloom_lab.assets import default_cache
from tests.harness.servers.helm import Helm, HelmFailed, helm_library
from tests.processes.chart.sets import documents, value_sets

pytestmark = pytest.mark.slow
SETS = value_sets()


@pytest.fixture(scope="module")
def helm() -> Helm:
    """Helm without a cluster."""
    return Helm(helm_library(default_cache(), print))


@pytest.mark.parametrize("name", SETS)
def test_lint(helm: Helm, name: str) -> None:
    """Helm finds no fault in the chart, for any set of values."""
    report = helm.lint(SETS[name])
    assert (report["errors"], [item for item in report["messages"] if item["severity"] > 1]) == ([], [])


@pytest.mark.parametrize("name", SETS)
def test_helm_renders_what_lanloom_renders(helm: Helm, name: str) -> None:
    """Both renderers give the same objects of each template, so neither knows what the other does not."""
    texts = {f"{name}.yaml": text for name, text in source.rendered(SETS[name]).items()}
    theirs = {each: documents(text) for each, text in helm.render(SETS[name]).items() if each != "NOTES.txt"}
    ours = {each: documents(text) for each, text in texts.items()}
    assert {each: found for each, found in theirs.items() if found} == ours


def test_the_notes_name_the_next_commands(helm: Helm) -> None:
    """The notes after an installation have three commands: wait, look, and try the networks."""
    lines = helm.render({})["NOTES.txt"].splitlines()
    commands = [line.split()[:2] for line in lines if line.startswith("  ")]
    assert commands == [["kubectl", "-n"], ["lanloom", "status"], ["lanloom", "check"]]


@pytest.mark.parametrize(
    "values", [{"image": {"tagg": "1"}}, {"mgmtVlan": 4095}, {"paths": {"cniBin": "opt"}}]
)
def test_helm_refuses_values_that_do_not_fit(helm: Helm, values: dict[str, object]) -> None:
    """The schema of the chart refuses what Lanloom refuses."""
    with pytest.raises(HelmFailed, match="values don't meet the specifications of the schema"):
        helm.render(values)
    assert json.dumps(helm.lint(values)["messages"])
