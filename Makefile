# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
ENVIRONMENT := .venv/.ready

.PHONY: demo test test-slow test-faults soak lint format benchmarks clean

demo: $(ENVIRONMENT)  ## two processes train on bundled real data; table, findings.json, page
	$(BIN)/cutlayer demo

test: $(ENVIRONMENT) lint  ## all checks
	$(BIN)/pytest -m "not slow" -n 2 --dist worksteal --cov --cov-report=term:skip-covered

test-slow: $(ENVIRONMENT)  ## what takes longer
	$(BIN)/pytest -m slow --ignore tests/faults

test-faults: $(ENVIRONMENT)  ## a thousand kills and the rest of tests/faults; FAULTS="--kills 200 --freezes 100"
	$(BIN)/pytest tests/faults $(FAULTS)

soak: $(ENVIRONMENT)  ## a million small steps over each transport; STEPS=100000 for fewer
	$(BIN)/pytest tests/faults/test_soak.py --soak-steps $(or $(STEPS),1000000)

lint: $(ENVIRONMENT)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

format: $(ENVIRONMENT)
	$(BIN)/ruff check --fix
	$(BIN)/ruff format

benchmarks: $(ENVIRONMENT)
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

# ISLP only lends its Caravan table; its own requirements are large and not needed.
$(ENVIRONMENT): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("cutlayer needs Python 3.11 or newer; set PYTHON=") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/pip install --quiet --constraint constraints.txt --no-deps ISLP
	touch $@

clean:
	rm -rf .venv
