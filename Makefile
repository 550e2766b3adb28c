# Variables of race and aa: CHALLENGE PARAMS TEST_MODE ES_VERSION NODES NODE_CORES COORDINATOR HEAP PORT DATA SECURITY DELAY_MS TAGS HOSTS CLIENT_OPTIONS STORE INI RACE_ID RALLY_ARGS WORK, of up SKETCH, of plan TARGET_DOCS TARGET_QPS REPLICAS GROWTH HEADROOM DOCUMENTS; see README.md
export CHALLENGE PARAMS TEST_MODE ES_VERSION NODES NODE_CORES COORDINATOR HEAP PORT DATA SECURITY DELAY_MS TAGS HOSTS CLIENT_OPTIONS STORE INI RACE_ID RALLY_ARGS RACE RACES SKETCH TARGET_DOCS TARGET_QPS REPLICAS GROWTH HEADROOM DOCUMENTS WORK
PYTHON ?= python3
.PHONY: race report races compare plan aa offline up down test lint dashboards bench bench-statistics lock

race report races compare plan aa offline up down: _venv/ready
	@_venv/bin/python -m _tools.race $@

test: lint
	_venv/bin/python -m pytest

lint: _venv/ready
	_venv/bin/ruff check . && _venv/bin/ruff format --check . && _venv/bin/mypy

dashboards: _venv/ready
	@_venv/bin/python -m _tools.dashboards

bench: _venv/ready
	@_venv/bin/python -m _tools.bench.corpus
	@_venv/bin/python -m _tools.bench.encoders

# CSV: es_profile_decomp.csv files of races, instead of simulated ones
bench-statistics: _venv/ready
	@_venv/bin/python -m _tools.bench.statistics $(CSV)

lock: _venv/ready
	_venv/bin/uv pip compile --universal --python-version 3.10 --generate-hashes --no-annotate --no-emit-index-url --no-header --upgrade --group test pyproject.toml -o requirements.txt

_venv/ready: requirements.txt
	$(PYTHON) -m venv _venv
	_venv/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@
