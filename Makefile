# Everything a person runs here. `make help` lists it. Needs GNU make, bash and Python 3.11 or newer.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

PYTHON ?= python3
VENV ?= .venv
PY := "$(VENV)/bin/python"
PIP := $(PY) -m pip --quiet --disable-pip-version-check
CODE := collector detectors dashboards engine_hooks notify lab pagewitness.py hatch_build.py benchmarks docs tests
STAMP := $(VENV)/.installed
# What `make test` leaves to the targets below it stands in pyproject.toml, as pytest's default -m.
ARGS ?=
# A process for each core, up to four: each has stores of its own, which take memory.
AT_ONCE := -n auto --maxprocesses 4 --dist loadfile

.PHONY: help venv demo engine-demo incident test test-slow test-incident test-engine test-engine-all lint types layers soak bench overhead docs lock dist clean

help: ## this list
	@sed -n 's/^\([a-z-]*\):[^#]*## /  make \1\t/p' Makefile | expand -t 20

venv: $(STAMP) ## the virtual environment: pinned, hashed packages and both distributions, editable

$(STAMP): constraints.txt pyproject.toml engine_hooks/pyproject.toml engine_hooks/version.py hatch_build.py
	@echo "== venv: $(VENV), the packages of constraints.txt by hash, then this tree"
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "pagewitness needs Python 3.11 or newer, and $(PYTHON) is older: make PYTHON=python3.11 $@" >&2; exit 1; }
	@"$(PYTHON)" -m venv "$(VENV)"
	@$(PIP) install --require-hashes -r constraints.txt
	@$(PIP) install --no-deps --no-build-isolation -e ./engine_hooks -e .
	@touch "$(STAMP)"

demo: $(STAMP) ## replay the recorded capture of a leak, and say who was affected
	@$(PY) -m lab.demo $(ARGS)

engine-demo: $(STAMP) ## the same live: a vulnerable and a fixed engine pair on this CPU (Linux, root, 2.6 GB of disk)
	@$(PY) -m lab.engine_demo $(ARGS)

incident: $(STAMP) ## simulate the incident of August and September 2026, ask who was affected, and hold it against the truth
	@$(PY) -m pagewitness lab incident $(ARGS)

soak: $(STAMP) ## random fleets, faults and damaged telemetry: is any answer wrong? 2,000 of them take an hour
	@$(PY) -m pagewitness lab soak $(ARGS)

test: lint types layers ## lint, types, layers, and every test that needs no engine and is not slow
	@echo "== tests"
	@$(PY) -m pytest -q $(AT_ONCE) $(ARGS)

test-slow: $(STAMP) ## the slow tests
	@echo "== slow tests"
	@$(PY) -m pytest -q -m slow --timeout 600 $(AT_ONCE) $(ARGS)
	@echo "== verdicts against content, thoroughly"
	@HYPOTHESIS_PROFILE=thorough $(PY) -m pytest -q tests/detectors/test_soundness.py --timeout 600 $(AT_ONCE) --dist load $(ARGS)

test-incident: $(STAMP) ## the incident at its real size: five seeds, and lost telemetry (half an hour and more)
	@$(PY) -m pytest -q -m "incident or slow" tests/lab/incident --timeout 3600 $(ARGS)

test-engine: $(STAMP) ## the tests on the real engine, which it installs first; a skip is a failure
	@echo "== engine: installing into .lab/, its own environment"
	@$(PY) -m lab.engine install
	@echo "== engine tests"
	@CI=true $(PY) -m pytest -q -m engine --timeout 600 $(ARGS)

test-engine-all: $(STAMP) ## the tests on every engine version and story; prints what attaches on each as one JSON line
	@echo "== engine: installing every version into .lab/" >&2
	@$(PY) -m lab.engine install --all
	@echo "== engine tests: every version, every story" >&2
	@CI=true $(PY) -m pytest -q -m engine_all --timeout 900 $(ARGS) >&2
	@$(PY) -m lab.engine matrix

lint: $(STAMP) ## ruff: rules and format
	@echo "== lint"
	@$(PY) -m ruff check $(CODE)
	@$(PY) -m ruff format --check $(CODE)

types: $(STAMP) ## mypy --strict
	@echo "== types"
	@$(PY) -m mypy $(CODE)

layers: $(STAMP) ## import-linter: imports point upstream only
	@echo "== layers"
	@$(PY) -c 'from importlinter.cli import lint_imports_command; lint_imports_command()' --no-cache

bench: $(STAMP) ## measure, and write docs/performance.md
	@$(PY) -m benchmarks $(ARGS)

overhead: $(STAMP) ## measure what the hooks cost in the real engine, which it installs first, and write that section
	@$(PY) -m lab.engine install
	@$(PY) -m benchmarks.overhead

docs: $(STAMP) ## rewrite the pages that are made from the code
	@$(PY) docs/generate.py

lock: ## rewrite constraints.txt from both pyproject.toml (UPGRADE=1: the newest of all)
	@PYTHON="$(PYTHON)" .ci/lock

dist: $(STAMP) ## wheels and source distributions of both, in dist/
	@$(PY) -m build --no-isolation --outdir dist engine_hooks
	@$(PY) -m build --no-isolation --outdir dist .

clean: ## remove what the targets above made, but for the engine's environment in .lab/
	rm -rf "$(VENV)" .demo dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
