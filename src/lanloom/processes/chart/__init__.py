"""The manifests of an installation: the Helm chart of `deploy/chart/lanloom`, rendered with and without helm.

The chart is the only source of the manifests. Its templates keep to a subset of helm's language that `render`
evaluates, so that `lanloom install` needs no helm. The files in `deploy/` are the chart with its defaults.
"""
