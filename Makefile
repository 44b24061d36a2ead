# The same commands for developers and CI. Each makes what it needs first.
.DEFAULT_GOAL := help
SHELL := /bin/sh
.DELETE_ON_ERROR:
.PHONY: help venv java format lint lint-types lint-rules audit house unit integration e2e test model chaos chaos-migrations demo bench clean soak

BIN := .venv/bin
INSTALLED := .venv/.installed
WITH_JAVA := JAVA_HOME="$$(scripts/find-java)"
PYTEST := $(BIN)/python -m pytest
# Test files in parallel on two cores, in the order of tests/order.py; a test with several drivers needs both cores.
TWO_AT_ONCE := -n 2 --dist loadfile --no-loadscope-reorder
# A benchmark is a script; modules that the scripts share have no __main__.
BENCHMARKS := $(filter-out render,$(basename $(notdir $(shell grep -ls __main__ benchmarks/*.py))))

help: ## list the commands
	@awk -F ':.*## ' '/^[a-z0-9%-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo "  make bench-NAME       run one benchmark: $(or $(BENCHMARKS),none yet)"

venv: $(INSTALLED) ## create .venv with the pinned versions

$(INSTALLED): pyproject.toml constraints.txt
	@scripts/make-venv
	@touch $@

java: ## find Java 17 or newer; on Debian as root, install it
	@scripts/find-java --install

format: venv ## format the code and apply the fixes of ruff
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: venv ## check format and rules (ruff), layers (import-linter), types (mypy), secrets, and once a day the packages (pip-audit)
	@$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint-types lint-rules

lint-types: venv
	$(BIN)/mypy

lint-rules: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/python scripts/house.py --lint
	git ls-files -z | xargs -0 $(BIN)/detect-secrets-hook --cores 2 --disable-plugin Base64HighEntropyString --disable-plugin HexHighEntropyString
	scripts/audit-packages --daily

audit: venv ## compare the pinned packages with the known vulnerabilities (pip-audit); skipped if they cannot be reached
	scripts/audit-packages

house: venv ## show modules and lines per folder, forbidden words and import contracts; fail if a bound is exceeded
	$(BIN)/python scripts/house.py

unit: venv ## run the unit tests (seconds)
	$(PYTEST) tests/unit tests/contracts tests/model -m "not integration" $(TWO_AT_ONCE) --timeout=20

integration: venv java ## run the tests with a real S3 endpoint, real databases and Spark, including the slow ones
	$(WITH_JAVA) $(PYTEST) tests/integration tests/contracts -m integration $(TWO_AT_ONCE) --timeout=300

e2e: venv java ## run the tests that kill and hang real drivers, including the slow ones
	$(WITH_JAVA) $(PYTEST) tests/e2e -m "not crowded" $(TWO_AT_ONCE) --timeout=900
	$(WITH_JAVA) $(PYTEST) tests/e2e -m crowded --timeout=900

test: lint java ## run lint and all tests except the slow ones, the cheapest first
	$(WITH_JAVA) $(PYTEST) tests/unit tests/contracts tests/model -m "not slow" $(TWO_AT_ONCE) --timeout=300
	$(WITH_JAVA) $(PYTEST) tests/e2e tests/integration -m "not slow and not crowded" $(TWO_AT_ONCE) --timeout=300
	$(WITH_JAVA) $(PYTEST) tests/e2e -m "not slow and crowded" --timeout=900

model: venv ## search all interleavings of two replicas, sensor, operator and faults over 3 epochs; minutes, one core
	$(BIN)/python -m tests.model $(MODEL)

chaos: venv java ## kill drivers in every tier and in all 30 changes of tier; about 70 minutes (CHAOS="--seed 8 …")
	$(WITH_JAVA) $(BIN)/python -m tests.chaos.walk $(CHAOS)

chaos-migrations: venv java ## kill source, target, run or Dagster at each step of each migration protocol; two hours
	$(WITH_JAVA) $(BIN)/python -m tests.chaos.migrations $(CHAOS)

soak: venv java ## several streams under all known faults at once, seeded; 60 minutes (SOAK="--minutes 5 --seed 3 …")
	$(WITH_JAVA) $(BIN)/python -m tests.chaos.soak $(SOAK)

demo: venv java ## run a stream, kill its driver, recover it, and prove that nothing was lost
	$(WITH_JAVA) $(BIN)/holdfast demo

bench-%: venv java
	$(WITH_JAVA) $(BIN)/python -m benchmarks.$*

bench: venv java ## run all benchmarks, then write docs/benchmarks.md from the results
	@failed=; for name in $(BENCHMARKS); do $(MAKE) --no-print-directory bench-$$name || failed="$$failed $$name"; done; \
	$(BIN)/python -m benchmarks.render && { [ -z "$$failed" ] || { echo "bars that do not hold:$$failed"; exit 1; }; }

clean: ## remove caches and builds (keeps .venv and .holdfast)
	rm -rf build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
