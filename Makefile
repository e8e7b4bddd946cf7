# Two commands do everything on a fresh machine: `make reproduce` and `make test`.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: reproduce test lint clean

.venv/installed: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[reproduce,test,lint]'
	touch $@

reproduce: .venv/installed
	$(BIN)/kibitz reproduce

test: lint
	$(BIN)/python -m pytest -q

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

clean:
	rm -rf .venv
