"""`lanloom install`: print the manifests of an installation, the same that the Helm chart makes."""

from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem


def _complete_distributions(
    _ctx: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from lanloom.processes.chart import source

    return [CompletionItem(name) for name in source.distributions() if name.startswith(incomplete)]


@click.command(name="install")
@click.option(
    "--values",
    "-f",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Values of the chart in YAML. Can be repeated; later files override earlier ones.",
)
@click.option(
    "--distribution",
    metavar="NAME",
    shell_complete=_complete_distributions,
    help="Use the directories of a distribution of Kubernetes, such as k3s.",
)
@click.option(
    "--include-crds",
    is_flag=True,
    help="Print the kinds of Harvester, Multus and k8slan, too. Only for a cluster that has none of them.",
)
@click.option("--output", "-o", type=click.Choice(["yaml"]), default="yaml", help="Output format.")
def command(files: tuple[Path, ...], distribution: str | None, include_crds: bool, output: str) -> None:
    """Print the manifests of an installation, for `kubectl apply`.

    The manifests are those of the Helm chart; helm is not needed. No cluster is contacted. Without --include-crds, run
    `lanloom crds --apply` first: it leaves the kinds of other projects as they are.

    Exit code: 0 on success, 1 for values that do not fit.

    \b
    Examples:
      lanloom install | kubectl apply -f -
      lanloom install --values my-values.yaml --distribution k3s | kubectl apply -f -
    """
    from lanloom.processes.chart import source

    given = [_read(path) for path in files]
    if distribution is not None:
        if distribution not in source.distributions():
            known = ", ".join(source.distributions())
            raise click.ClickException(f"distribution {distribution} is not known; use one of: {known}")
        given.insert(0, source.distribution(distribution))
    try:
        text = source.manifests(*given, include_foreign=include_crds)
    except ValueError as error:
        raise click.ClickException(f"the values do not fit: {str(error).replace('`$.', '`')}") from None
    click.echo(text, nl=False)


def _read(path: Path) -> dict[str, Any]:
    import yaml

    try:
        found = yaml.safe_load(path.read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{path} is not YAML: {error}") from None
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise click.ClickException(f"{path} has no mapping of values")
    return found
