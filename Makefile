# Two commands do everything: `make scan` and `make test`. Both set up .venv first; a second call finds it ready.
PYTHON ?= python3
RELEASE ?= sglang==0.5.9

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
SOURCES := flowcheck tests $(wildcard benchmarks)

.DEFAULT_GOAL := help
.PHONY: help scan test fast long lint format types wheel clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

scan: $(VENV)/.installed ## Scan a released SGLang by name (RELEASE=sglang==X.Y.Z picks another)
	@$(BIN)/flowcheck scan $(RELEASE)

test: lint types $(VENV)/.installed-dev ## Lint, format check, types, and every test that is not marked long
	$(BIN)/python -m pytest -m "not long"

fast: $(VENV)/.installed-dev ## Only the tests that read no release (some minutes)
	$(BIN)/python -m pytest -m "not long and not release"

long: $(VENV)/.installed-dev ## Only the tests marked long
	$(BIN)/python -m pytest -m long

lint: $(VENV)/.installed-dev ## ruff: lint and format check
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)

format: $(VENV)/.installed-dev ## ruff: mend what can be mended, and format
	$(BIN)/ruff check --fix $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

types: $(VENV)/.installed-dev ## mypy, strict
	$(BIN)/mypy

wheel: $(VENV)/.installed-dev ## Build the wheel into dist/
	$(BIN)/python -m hatchling build -t wheel

clean: ## Remove the environment and everything that was built
	rm -rf $(VENV) dist build .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "flowcheck needs Python 3.10 or newer: make PYTHON=python3.x")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.installed: $(VENV)/.created pyproject.toml constraints-dev.txt
	$(PIP) install --quiet --constraint constraints-dev.txt --editable .
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install --quiet --constraint constraints-dev.txt --editable '.[dev]'
	@touch $@
