# Two commands on a fresh machine: `make demo` and `make test`. Each builds .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
UV := build/uv/bin/uv
PINS := uv pip compile --python-version 3.11.0 --python-platform linux --all-extras \
  --no-annotate --no-header -o build/pins.txt pyproject.toml
TESTS := -m pytest -n 2 --dist worksteal -m

# What `make test-deep` runs, and the interpreters of `make test-pythons`.
DEEP := coverage mutants test-contract test-crashes test-fresh test-light test-lowest \
  test-neighbours test-pythons
PYTHONS ?= 3.12 3.13

.DEFAULT_GOAL := help
.PHONY: help setup demo bench test test-all test-deep $(DEEP) lint format docs pins clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

# $(call environment,FOLDER) makes an empty environment with pip. Debian's Python may lack venv and
# refuse to install packages beside its own (PEP 668), but it installs them into another folder.
define environment
$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
  || { echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11" >&2; exit 1; }; \
$(PYTHON) -m venv --clear $(1) >/dev/null 2>&1 \
  || { $(PYTHON) -m pip install --quiet --upgrade --target build/virtualenv virtualenv \
       && PYTHONPATH=build/virtualenv $(PYTHON) -m virtualenv --quiet --clear $(1); } \
  || { echo "$(PYTHON) cannot create $(1): install its venv module (on Debian and Ubuntu:" \
            "apt install python3-venv), or give another one by make PYTHON=..." >&2; exit 1; }
endef

# Rebuilt when the declared or the pinned dependencies change, reused otherwise.
$(READY): pyproject.toml constraints.txt
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { $(call environment,$(VENV)); }
	$(INSTALL) -e '.[all]'
	@touch $@

# What the tests need besides: linters, a browser driver, and all extras.
$(TOOLS): $(READY)
	$(INSTALL) -e '.[dev]'
	@touch $@

setup: $(TOOLS) ## build the environment in .venv, only if it is not current

demo: $(READY) ## BN Tricks against plain replay on embedded images, some four minutes
	$(BIN)/bnt demo

bench: $(READY) ## what things cost against plain PyTorch, an hour or two; ARGS='--parts steps --json'
	@$(BIN)/python benchmarks/bench.py $(ARGS)

lint: $(TOOLS) ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: lint ## lint, types and the fast tests
	$(BIN)/python $(TESTS) 'not slow'

test-all: export BNT_NO_SKIP = 1
test-all: test ## those and what needs extras or time; a skip is a failure
	$(BIN)/python $(TESTS) slow

# Everything below needs fresh environments, several GB of packages or a long time: not for every
# change. A further check of that kind is one more target in DEEP.
test-deep: $(DEEP) ## fresh environments, lowest versions, other Pythons: GBs and half an hour or more

coverage: $(TOOLS) ## branches that the fast tests pass through, which must not become fewer
	$(BIN)/coverage erase
	$(BIN)/coverage run $(TESTS) 'not slow'
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report

mutants: $(TOOLS) ## breaks thresholds and formulas one by one: a test must notice; ARGS='LEVEL batch.py'
	$(BIN)/python tests/mutants.py $(ARGS)

test-contract: export BNT_EVERY_POINT = 1
test-contract: $(TOOLS) ## every method, layer and stream that ships, in all parts of the contract
	$(BIN)/python $(TESTS) slow tests/sweeps/test_contract.py

test-crashes: export BNT_EVERY_POINT = 1
test-crashes: $(TOOLS) ## kills commands before each change they make, a thousand damages a kind of file
	$(BIN)/python $(TESTS) slow tests/test_crash_points.py tests/test_damages.py

test-fresh: ## both commands of the README in an empty clone
	@folder=$$(mktemp -d) && trap "rm -rf $$folder" EXIT && git clone --quiet . $$folder/clone \
	  && $(MAKE) -C $$folder/clone PYTHON=$(PYTHON) demo \
	  && $(MAKE) -C $$folder/clone PYTHON=$(PYTHON) test

test-light: ## the README's Python where only `pip install .` was run
	@$(call environment,build/light)
	build/light/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt .
	build/light/bin/python tests/light.py

test-lowest: $(UV) ## laws and references with the lowest versions that pyproject.toml allows
	$(UV) venv --quiet --clear --python $(PYTHON) build/lowest
	$(UV) pip install --quiet --python build/lowest --resolution lowest-direct -e '.[dev]'
	build/lowest/bin/python $(TESTS) 'law or reference'

test-neighbours: $(UV) ## the code of docs/coming-from.md, by Avalanche and Lightning themselves
	$(UV) venv --quiet --clear --python $(PYTHON) build/neighbours
	$(UV) pip install --quiet --python build/neighbours --constraint constraints.txt \
	  -e . avalanche-lib lightning pytest
	build/neighbours/bin/python -m pytest --noconftest -o addopts= -q tests/neighbours.py

test-pythons: $(PYTHONS:%=build/python-%) ## laws and references on the other Pythons we claim

build/python-%: FORCE $(UV)
	$(UV) venv --quiet --clear --python $* $@
	$(UV) pip install --quiet --python $@ --constraint constraints.txt -e '.[dev]'
	$@/bin/python $(TESTS) 'law or reference'

FORCE:

format: $(TOOLS) ## let ruff rewrite the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(TOOLS) ## the documentation as a site in build/site, to be opened from disk
	$(BIN)/sphinx-build -q -W --keep-going -d build/doctrees docs build/site
	@echo "open build/site/index.html"

# Apart from .venv, which cannot be built if a pin is wrong.
$(UV):
	@$(call environment,build/uv)
	build/uv/bin/python -m pip install --quiet --disable-pip-version-check uv

# UPGRADE='--upgrade-package ruff' moves one pin, UPGRADE=--upgrade all of them.
pins: $(UV) ## resolve constraints.txt anew for the lowest Python, keeping the versions that fit
	cp constraints.txt build/pins.txt
	build/uv/bin/$(PINS) --quiet $(UPGRADE)
	sed '/^[^#]/,$$d' constraints.txt >build/constraints.txt
	grep -vE '^(cuda|nvidia)-|^triton=' build/pins.txt >>build/constraints.txt
	mv build/constraints.txt constraints.txt

clean: ## remove the environment and all caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
