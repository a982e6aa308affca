# From a bare clone with Python 3.11 or newer: `make demo` runs the main job, `make test` the tests.
# Both make what they need in .venv, once: the stamps there are renewed when setup.cfg or pyproject.toml change.
# Another interpreter: `make demo PYTHON=python3.13`.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
METADATA := setup.cfg pyproject.toml
PURE := contract stack fastpath serialization discovery fragmentation transport topics model requests simulation recorded

# Python keeps its bytecode, whatever the environment says: hundreds of tests start programs, and without bytecode each
# of them would compile glue first.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test quick check style types site dist mutants format clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

demo: $(VENV)/.installed ## four endpoints in four processes share a topic, shown live
	@$(BIN)/python -m glue.cmd.demo

test: $(VENV)/.installed-dev ## all tests; what they need is installed where possible
	@tests/install-debian-packages
	@tests/install-node-packages
	$(BIN)/python -m pytest --numprocesses 4 --dist loadscope $(ARGUMENTS)

quick: $(VENV)/.installed-dev ## tests of the pure layers alone: no socket, no thread, no Java; a minute
	$(BIN)/python -m pytest --numprocesses 2 --dist loadscope -m "not slow" $(PURE:%=tests/%) $(ARGUMENTS)

check: style types ## format, lint, types, import rules, the documentation's examples
	$(BIN)/python -m pytest tests/docs tests/repository/test_style.py

style: $(VENV)/.installed-dev ## format, lint, import rules
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/.installed-dev ## types, checked strictly
	$(BIN)/mypy

site: $(VENV)/.installed-docs ## the documentation as HTML in site/html; its notebook runs, no link is dead
	@rm -rf site
	@$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --conf-dir docs . site/html

dist: $(VENV)/.installed-dev ## sdist and wheel in dist/; the demo runs from the wheel in an empty environment
	@rm -rf build dist
	@$(BIN)/python -m build --quiet
	@$(BIN)/python -m twine check --strict dist/*
	@tests/try-wheel $(BIN)/python dist/*.whl

mutants: $(VENV)/.installed-dev ## plant bugs and show those that no test finds; SEED=7 COUNT=100 PATHS="glue/topics spark"
	@$(BIN)/python -m tests.mutants $(if $(SEED),--seed $(SEED)) $(if $(COUNT),--count $(COUNT)) \
	  $(if $(PATHS),--paths $(PATHS)) $(ARGUMENTS)

format: $(VENV)/.installed-dev ## rewrite the sources as `make check` wants them
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean: ## remove everything that the other targets made
	rm -rf $(VENV) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "glue needs Python 3.11 or newer, and $(PYTHON) is not: try make PYTHON=python3.11" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

# The package is installed as editable: the sources are run where they stand, so a change needs no new install.
$(VENV)/.installed: $(METADATA) | $(BIN)/python
	@echo "installing glue into $(VENV)"
	@$(INSTALL) --editable .
	@touch $@

$(VENV)/.installed-dev: $(METADATA) | $(BIN)/python
	@echo "installing glue and what its tests need into $(VENV)"
	@$(INSTALL) --editable '.[dev]'
	@touch $@ $(VENV)/.installed

$(VENV)/.installed-docs: $(METADATA) | $(BIN)/python
	@echo "installing glue and what its site needs into $(VENV)"
	@$(INSTALL) --editable '.[docs]'
	@touch $@ $(VENV)/.installed
