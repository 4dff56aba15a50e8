# Two commands on a fresh machine: `make demo` and `make test`. Each builds .venv by itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TOOLS := $(VENV)/.tools
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all lint format docs clean

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-10s %s\n", $$1, $$2}'

# Rebuilt when the declared or the pinned dependencies change, reused otherwise.
$(READY): pyproject.toml constraints.txt
	@test -x $(BIN)/python && $(BIN)/python -m pip --version >/dev/null 2>&1 \
	  || $(PYTHON) -m venv --clear $(VENV) \
	  || { $(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv --clear $(VENV); }
	$(INSTALL) -e .
	@touch $@

# What the tests need besides: linters, a browser driver, and all extras.
$(TOOLS): $(READY)
	$(INSTALL) -e '.[dev]'
	@touch $@

setup: $(TOOLS) ## build the environment in .venv, only if it is not current

demo: $(READY) ## BN Tricks against plain replay on embedded images, some four minutes
	$(BIN)/bnt demo

lint: $(TOOLS) ## ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

test: lint ## lint, types and the fast tests
	$(BIN)/pytest -n 2 --dist worksteal -m 'not slow'

test-all: export BNT_NO_SKIP = 1
test-all: test ## those and what needs extras or time; a skip is a failure
	$(BIN)/pytest -n 2 --dist worksteal -m slow

format: $(TOOLS) ## let ruff rewrite the sources
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(TOOLS) ## the documentation as a site in build/site, to be opened from disk
	$(BIN)/sphinx-build -q -W --keep-going -d build/doctrees docs build/site
	@echo "open build/site/index.html"

clean: ## remove the environment and all caches
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
