# Two commands do everything: `make scan` and `make test`; `make probe` runs model code. All set up .venv first; a second call
# finds it ready.
PYTHON ?= python3
RELEASE ?= sglang==0.5.9
PROBED ?= sglang==0.5.10
RELEASES ?= 0.5.6

VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
KIMI := --draft fixtures/kimi/draft --target fixtures/kimi/target --trained-boundaries 3,31,59
SOURCES := flowcheck tests $(wildcard benchmarks)

.DEFAULT_GOAL := help
.PHONY: help scan probe test fast long cases lint format types wheel clean

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

scan: $(VENV)/.installed ## Scan a released SGLang by name (RELEASE=sglang==X.Y.Z picks another)
	@$(BIN)/flowcheck scan $(RELEASE)

probe: $(VENV)/.installed-probe ## Run the model code of a release on 8 simulated ranks, then on 8 processes (PROBED=sglang==X.Y.Z)
	@$(BIN)/flowcheck probe $(PROBED) $(KIMI) --backend fake --yes
	@$(BIN)/flowcheck probe $(PROBED) $(KIMI) --backend gloo --yes

test: lint types $(VENV)/.installed-dev ## Lint, format check, types, and every test that is not marked long
	$(BIN)/python -m pytest -m "not long"

fast: $(VENV)/.installed-dev ## Only the tests that read no release (some minutes)
	$(BIN)/python -m pytest -m "not long and not release"

long: $(VENV)/.installed-dev ## Only the tests marked long
	$(BIN)/python -m pytest -m long

cases: $(VENV)/.installed-dev ## Known defects of target classes: found, missed, said where they are not (RELEASES="0.5.6 0.5.9")
	@$(BIN)/python -m tests.releases.cases_table $(RELEASES)

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

$(VENV)/.installed-probe: $(VENV)/.installed
	$(PIP) install --quiet --constraint constraints-dev.txt --editable '.[probe]'
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install --quiet --constraint constraints-dev.txt --editable '.[dev]'
	@touch $@
