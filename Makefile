# Everything sets itself up: a machine with make and Python 3.11 to 3.13 needs nothing else.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
KERNELS := $(VENV)/.kernels
# half of the lock's packages: their downloads and files keep one process waiting, so two do it at once
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --no-deps --require-hashes -r
# a third of the installed code, of which next to nothing is ever imported: compiled when it is
SELDOM  := /tests/|/site-packages/(databricks|docker|docutils|fontTools|git|google|grpc|gunicorn|moto|pip|pygments|setuptools|snowballstemmer|sphinx|wcwidth|websockets)/
# one worker more than cores, as a sixth of the time of tests is waiting;
# a module's tests on one worker, which makes their fixture once; in the tree's order, so that no long module is left for the end;
# a worker that dies is not replaced, as pytest-xdist then waits for ever if the test was its module's last
WORKERS := -n $(shell expr $$(getconf _NPROCESSORS_ONLN) + 1) --dist loadfile --no-loadscope-reorder --max-worker-restart 0

# samples of the campaigns, and tests of what makes pages of studies: no claim of the product rests on them alone
APART := --ignore=tests/campaigns --ignore=tests/benchmarks

# pytest rewrites asserts, to show the values in one that fails: 15 s for each worker; so only what failed runs with that, again
PROMISES = $(BIN)/python -m pytest $(WORKERS) $(APART) -m "not thorough"

.PHONY: run test test-all test-fast server-test campaign kernels lint format ui docs docs-links dist lock clean help

run: $(READY)  ## the whole pipeline on a real log and on a simulated cluster, and what it found
	@$(BIN)/queuecast run

test: $(KERNELS)  ## what the product promises, each promise once
	@$(PROMISES) --assert=plain || { $(PROMISES) --last-failed -n 0; exit 1; }

test-all: $(KERNELS)  ## those, larger samples and second cases, samples of the campaigns, and the tests of benchmarks
	@$(BIN)/python -m pytest $(WORKERS)

test-fast: $(KERNELS)  ## the tests that take a third of a second at most each, three quarters of a minute on two cores
	@$(BIN)/python -m pytest $(WORKERS) $(APART) -m "not slow and not thorough and not end_to_end"

server-test: $(KERNELS)  ## a server's PostgreSQL, object store, MLflow, Dagster and Dask, started, used and stopped (half an hour on two cores)
	@$(BIN)/python -m tests.server

campaign: $(KERNELS)  ## an hour of attempts to break it: fresh examples, mutated inputs, kills, full disks
	@$(BIN)/python -m pytest $(WORKERS) tests/campaigns tests/benchmarks
	@$(BIN)/python -m tests.campaigns

kernels: $(KERNELS)  ## compile all of the simulator; without it each part is compiled when it is first used

$(KERNELS): $(READY) $(shell find features models sim -name '*.py')
	@$(BIN)/python -m pipelines.cli.compiling
	@touch $@

lint: $(READY)  ## style and types
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/pyrefly check --summary=none
	@$(BIN)/lint-imports --no-logo --no-cache

format: $(READY)
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

ui: $(READY)  ## the web server on what was materialised
	@$(BIN)/queuecast ui

SPHINX := $(BIN)/python -m sphinx -q -E -W --keep-going -d build/doctrees

docs: $(READY)  ## the site of docs/ in build/docs; every link inside it is checked
	@$(SPHINX) -b html docs build/docs
	@echo "build/docs/index.html"

docs-links: $(READY)  ## the same, and every link to other sites is asked for
	@$(SPHINX) -b linkcheck docs build/links

dist: $(READY)  ## a wheel in dist/ to install on a server: pip install 'dist/queuecast-VERSION-py3-none-any.whl[server]'
	@$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --no-build-isolation --wheel-dir dist .
	@ls dist

lock: $(READY)  ## bring requirements.lock up to date with pyproject.toml (needs uv)
	uv pip compile pyproject.toml --extra dev --extra docs --extra server --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header -q -o requirements.lock

clean:  ## remove the environment and caches; what was materialised stays
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

help:
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/:/'

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' \
	  || { echo "Queuecast needs Python 3.11 to 3.13; say which with make PYTHON=..."; exit 1; }
	@[ ! -L $(VENV) ] || { echo "$(VENV) is a link, and setting it up would clear what it links to: do that there"; exit 1; }
	@echo "setting up $(VENV) (about a minute and a half, once)"
	@$(PYTHON) -m venv --clear $(VENV)
	@awk 'BEGIN {part = 0} /^[A-Za-z0-9]/ {part = !part} {print > ("$(VENV)/lock." part)}' requirements.lock
	@{ $(INSTALL) $(VENV)/lock.0 & half=$$!; $(INSTALL) $(VENV)/lock.1; second=$$?; wait $$half && [ $$second = 0 ] \
	  && $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable . \
	  && $(BIN)/python -m pip check --disable-pip-version-check; } > $(VENV)/install.log 2>&1 \
	  || { cat $(VENV)/install.log; echo "the installation failed: the lines above are in $(VENV)/install.log"; exit 1; }
	@$(BIN)/python -m compileall -q -j 0 -x '$(SELDOM)' $(VENV)/lib pipelines features models sim || true
	@touch $@
