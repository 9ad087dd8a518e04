# The two commands are `make run` and `make test`. Everything else is a part of them.
#
#   make run [ARGS="--for 60 --json"]   the whole product here: gateway, Spark, simulated phones, dashboard
#   make test                           install everything, run every suite (also what CI runs)
#   make setup check sim bench shots recordings soak apk-gate clean

SHELL := /bin/bash
PYTHON ?= $(firstword $(foreach p,python3.13 python3.12 python3.11 python3,$(if $(shell $(p) -c 'import sys; print(sys.version_info >= (3,11) or "")' 2>/dev/null),$(p))))
VENV := .venv
BIN := $(VENV)/bin
SEEDS ?= 500
NAME ?= engine
PIP := $(BIN)/python -m pip install --disable-pip-version-check --quiet --constraint constraints.txt

.PHONY: setup run test check sim bench shots recordings soak apk-gate coverage clean java system venv
.DEFAULT_GOAL := help

help:
	@sed -n '3,5s/^# *//p' Makefile

venv: $(BIN)/python

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer was not found; install it, or name it: make PYTHON=/path/to/python3"; exit 1; }
	@echo "==> making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV)

java:
	@tests/find_java

system:
	@tests/install_system_packages

# What `make run` needs, and nothing more: no Kivy, no browser, no apt beyond Java.
$(VENV)/.run-installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "==> installing the gateway, Spark and the node (about 500 MB, once)"
	@$(PIP) --editable '.[cloud]'
	@touch $@

$(VENV)/.all-installed: pyproject.toml constraints.txt | $(BIN)/python
	@echo "==> installing everything: product, phone app, test tools"
	@$(PIP) --editable '.[cloud,mobile,dev]'
	@touch $@ $(VENV)/.run-installed

setup: java system $(VENV)/.all-installed

run: java $(VENV)/.run-installed
	@$(BIN)/resurge up $(ARGS)

test:
	@$(if $(PYTHON),$(PYTHON),python3) tests/stages.py

check: $(VENV)/.all-installed
	@$(BIN)/python tests/stages.py check

sim: setup
	@$(BIN)/python -m tests.simulation.run --seeds $(SEEDS) --json

bench: setup
	@$(PIP) --editable '.[cloud,bench]'
	@$(BIN)/resurge bench $(NAME) --json

shots: setup
	@$(BIN)/python -m tests.user_interface.shots
	@$(BIN)/python -m tests.user_interface.phone_shots

recordings: setup
	@$(BIN)/python tests/stages.py recordings

soak: setup
	@$(BIN)/python tests/stages.py soak

apk-gate: setup
	@$(BIN)/python -m tests.packaging.gate $(ARGS)

coverage: setup
	@$(BIN)/python -m tests.coverage

clean:
	@rm -rf $(VENV) .resurge .mypy_cache .ruff_cache .pytest_cache .hypothesis build *.egg-info
