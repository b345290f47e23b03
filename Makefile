# The few commands that a checkout needs. `make` alone lists them.
# What is slow to make (the lab's tree, a kernel, a kube-apiserver) is kept in ${XDG_CACHE_HOME:-~/.cache}/lanloom.

.DEFAULT_GOAL := help
.PHONY: help setup demo test check e2e bench lock manifests image man release screenshots clean soak

python := .venv/bin/python

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z0-9]+:.*## / { printf "  make %-11s  %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what is missing: Debian packages, .venv, pinned requirements
	@scripts/setup

demo: setup ## a three-node lab, a VLAN network on it, and away again (KEEP=1 leaves it running)
	@.venv/bin/lanloom lab demo $(if $(KEEP),--keep)

test: setup ## everything: static checks, all tests, a closing line that counts them
	@scripts/test

soak: setup ## play all simulations and kills, of which `make test` plays a fifth: half an hour (SEEDS_TIMES=50 for a night)
	@LANLOOM_SEEDS_TIMES=$(or $(SEEDS_TIMES),5) $(python) -m pytest --numprocesses auto --dist worksteal tests/sim tests/features/lan/kernel tests/features/liveupdate/kernel tests/lab/test_host_unit.py

check: setup ## the fast part, under a minute
	@scripts/check

e2e: setup ## the chart on real nodes (kubelet, containerd), from helm install to the end, and the upgrade (as root)
	@$(python) -m pytest -m realserver tests/e2e tests/upgrade tests/image tests/harness/nodes tests/features/lan/realserver tests/features/lan/agent/test_real_node.py

bench: setup ## measure, print a table, write JSON
	@$(python) -m bench

lock: setup ## regenerate requirements/*.txt from pyproject.toml (ARGS=--upgrade for newer versions)
	@scripts/lock $(ARGS)

manifests: setup ## rewrite what in deploy/ follows from the code
	@$(python) -m scripts.manifests

image: setup ## make in dist/ the container image, without Docker (ARGS="--architecture all": arm64, too)
	@$(python) -m scripts.image $(ARGS)

man: setup ## make the man pages from the help, in dist/man
	@$(python) -m scripts.man

release: setup ## make in dist/ what a release consists of: wheel, sources, chart, manifests, images, checksums
	@$(python) -m scripts.release

screenshots: setup ## take pictures of the console's pages: build/screenshots, docs/console.svg
	@$(python) -m tests.console.browser.screenshots

clean: ## remove what was made in this checkout (the cache stays)
	@rm -rf .venv .mypy_cache .ruff_cache .import_linter_cache .hypothesis .coverage build dist mutants src/lanloom/runtime/cni/cni-shim
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
