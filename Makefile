# The two commands of the README need only Python 3.11 to 3.13 and make; the others use the same environment.
# README.md gives the plain commands for people without make.

.DEFAULT_GOAL := help
SHELL := /bin/sh

VENV := .venv
BIN := $(VENV)/bin
# PYTHON=/path/to/python3.12 chooses the interpreter; else the first one on PATH that fits.
PYTHON ?=
LAB ?=
OUT ?= out

# A stamp says that a step is complete. It is written last, so that an interrupted step is repeated, and it is older than a changed
# pyproject.toml or requirements.txt, so that a change installs again.
MADE := $(VENV)/.made
LAB_READY := $(VENV)/.ready-lab
TEST_READY := $(VENV)/.ready-test
LOCKS := pyproject.toml requirements.txt
PIP := $(BIN)/python -m pip --disable-pip-version-check
# An environment whose Python went away, or that was moved with its folder, is made anew.
STALE := $(if $(wildcard $(MADE)),$(shell { [ "$$(cat $(MADE))" = "$(CURDIR)" ] && $(BIN)/python -c ''; } >/dev/null 2>&1 || echo stale))

.PHONY: help lab test build check run bench screens test-full clean $(if $(STALE),$(MADE))

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' Makefile

lab: $(LAB_READY) ## open the labs in JupyterLab, on your own copies in workspace/ (LAB=lab1 for one of them)
	@exec $(BIN)/labkit start $(LAB)

test: $(TEST_READY) ## run the tests (without the slow ones)
	@$(BIN)/python -m pytest -n 2 -q

build: $(TEST_READY) ## make the student notebooks in labs/ from solutions/, and prove them
	@$(BIN)/labkit build

check: $(TEST_READY) ## prove that labs/ is what solutions/ builds, that tests accept and reject what they should
	@$(BIN)/labkit build --check

run: $(TEST_READY) ## execute the solved labs headlessly and write a report to out/run
	@$(BIN)/labkit run $(LAB) --profile fast --out $(OUT)/run

bench: $(TEST_READY) ## measure this repository's own costs: ratios taken in one run, on this machine
	@$(BIN)/python tests/benchmarks/start_up.py
	@$(BIN)/python tests/benchmarks/bench_harness.py
	@$(BIN)/python tests/benchmarks/spyre_formats.py

screens: $(TEST_READY) ## pictures of labs and figures, to look at, in out/screens
	@$(BIN)/labkit screens $(LAB) --out $(OUT)/screens

test-full: $(TEST_READY) ## every test, the proofs of the build, the solved labs
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m pytest -n 2 -q -m ""
	@$(BIN)/labkit build --check
	@$(BIN)/labkit run --profile fast --out $(OUT)/run

clean: ## remove the environment and what the commands wrote, never workspace/
	rm -rf $(VENV) $(OUT) dist build .pytest_cache .ruff_cache .hypothesis

$(MADE):
	@fits='import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))'; \
	found=; \
	for candidate in $(if $(PYTHON),$(PYTHON),python3 python3.13 python3.12 python3.11 python); do \
	  if "$$candidate" -c "$$fits" 2>/dev/null; then found=$$candidate; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	  echo "make: no Python 3.11, 3.12 or 3.13 found$(if $(PYTHON), at $(PYTHON)). Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3" >&2; exit 1; \
	fi; \
	echo "Making $(VENV) with $$("$$found" --version)."; \
	rm -rf $(VENV); \
	"$$found" -m venv $(VENV) || { \
	  rm -rf $(VENV); echo "make: $$found could not make $(VENV) (on Debian and Ubuntu: install the package python3-venv)." >&2; exit 1; }
	@printf '%s\n' "$(CURDIR)" >$@

$(LAB_READY): $(LOCKS) $(MADE)
	@echo "Installing the labs into $(VENV): a few minutes the first time, no output while it works."
	@rm -f $@
	@$(PIP) install -qq -c requirements.txt -e '.[lab]'
	@touch $@

$(TEST_READY): $(LOCKS) $(MADE)
	@echo "Installing the labs and the test tools into $(VENV): a few minutes the first time, no output while it works."
	@rm -f $@
	@$(PIP) install -qq -c requirements.txt -e '.[lab,course,dev]'
	@touch $@ $(LAB_READY)
