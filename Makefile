# `make` lists the targets, the variables and the challenges. Values are taken as they are: what is given on the command
# line is neither expanded nor unknown.
PYTHON ?= python3
GIVEN := $(foreach v,$(.VARIABLES),$(if $(findstring command line,$(origin $v)),$v))
$(foreach v,$(GIVEN),$(eval override $v := $$(value $v))$(eval export $v))
export GIVEN
.DEFAULT_GOAL := help
.PHONY: variables help race report results races compare changes plan noise micro explain offline up down matrix test test-long lint docs dashboards bench bench-statistics look lock clean

variables:
	@$(PYTHON) _tools/race/variables.py

help: variables
	@if [ -e _venv/ready ]; then _venv/bin/python -m _tools.race.help; else $(PYTHON) _tools/race/help.py; fi

race report results races compare changes plan noise micro explain offline up down matrix: variables _venv/ready
	@_venv/bin/python -m _tools.race $@

test: lint
	_venv/bin/python -m pytest -n 2 # all races on one of the two processes

test-long: variables _venv/ready
	_venv/bin/python -m pytest -m long || [ $$? -eq 5 ] # of pytest: there is none

lint: variables _venv/ready
	_venv/bin/ruff check . && _venv/bin/ruff format --check . && _venv/bin/mypy

docs: variables _venv/ready
	@_venv/bin/python -m _tools.docs

dashboards: variables _venv/ready
	@_venv/bin/python -m _tools.dashboards

bench: variables _venv/ready
	@_venv/bin/python -m _tools.bench.corpus

bench-statistics: variables _venv/ready
	@_venv/bin/python -m _tools.bench.statistics

look: variables _venv/ready
	@_venv/bin/python -m _tools.race.look

lock: variables _venv/ready
	_venv/bin/uv pip compile --universal --python-version 3.10 --generate-hashes --no-annotate --no-emit-index-url --no-header --upgrade --group test pyproject.toml -o requirements.txt

clean: variables
	@if [ -e _venv/ready ]; then _venv/bin/python -m _tools.race down; fi
	@$(PYTHON) _tools/race/clean.py

_venv/ready: requirements.txt
	@echo "set-up, step 1 of 2: a virtual environment in _venv"
	@$(PYTHON) -m venv _venv
	@echo "set-up, step 2 of 2: $$(grep -c == requirements.txt) packages into it, about 0.8 GB of disk"
	@_venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@
