# make install, or the first make run, installs what a run needs, the first make test also what the tests and checks need.
#
#   make run DATASET=mr SYSTEMS=transformer_f,tfidf_svm SEEDS=0,1,2

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTS := $(VENV)/.tests
PEERS := $(VENV)/.peers
PIP := $(BIN)/pip --disable-pip-version-check --quiet
# Install only packages that have a hash in a lock file; this includes build dependencies.
LOCKED := $(PIP) install --require-hashes --no-deps --no-build-isolation --requirement

export DO_NOT_TRACK := 1

# A variable on make's command line is visible in the process list, and make expands $ in it.
ifeq ($(origin DATABASE),command line)
  $(error DATABASE on make's command line shows its password to all users of this machine; set it in the environment (DATABASE=... make dashboard), or set DATABASE_FILE to a file of mode 0600)
endif
unexport DATASET SYSTEMS SEEDS SET NAME

# Pass a variable as a command-line option, quoted for the shell.
option = $(if $(value $(1)),--$(2) '$(subst ','\'',$(value $(1)))')

.DEFAULT_GOAL := help
.PHONY: help install run retrain dashboard stop test test-all test-avx2 docs checks mutants peers bench bench-accuracy drill repair clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(READY): requirements-run.lock requirements-build.lock requirements-cuda.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("epigram needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	@echo "setting up $(VENV); this takes a few minutes, once"
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@sed -n '/^torch==/,/[^\]$$/p' requirements-run.lock >$(VENV)/torch.lock
	@# prefer a local wheel of PyTorch (pip's find-links): the wheel of the package index needs CUDA's packages
	@$(LOCKED) $(VENV)/torch.lock --no-index 2>$(VENV)/torch.log || $(LOCKED) $(VENV)/torch.lock --requirement requirements-cuda.lock
	@$(LOCKED) requirements-build.lock
	@$(LOCKED) requirements-run.lock
	@$(PIP) install --no-deps --no-build-isolation --no-index --editable .
	@# skipped if the peers are installed: some of their dependencies are not
	@test -e $(PEERS) || $(PIP) check
	@touch $@

$(TESTS): $(READY) requirements-test.lock
	@echo "installing what the tests need; this takes a minute, once"
	@$(LOCKED) requirements-test.lock
	@test -e $(PEERS) || $(PIP) check
	@touch $@

install: $(READY) ## create .venv with all that a run needs; 3 minutes

run: $(READY) ## run the pipeline; DATASET=, SYSTEMS=, SEEDS= and SET="a.b=c d=e" override params.yaml, NAME= names the run
	@$(BIN)/epigram run \
	  $(call option,DATASET,dataset) $(call option,SYSTEMS,systems) $(call option,SEEDS,seeds) $(call option,NAME,name) \
	  $(foreach change,$(value SET),--set '$(subst ','\'',$(change))')

retrain: $(READY) ## add new rows, train challengers, promote one that beats the champion
	@$(BIN)/epigram retrain

dashboard: $(READY) ## start server, dashboard, worker and schedules; stop them with Ctrl-C or make stop
	@$(BIN)/epigram dashboard

stop: $(READY) ## stop what make dashboard started
	@$(BIN)/epigram stop

# With PYTHONDONTWRITEBYTECODE set, each of the many processes that tests start would compile the package again.
PYTEST := env -u PYTHONDONTWRITEBYTECODE $(BIN)/python -m pytest -q -n 3 --dist loadfile

# Three workers on two cores: many tests wait for processes. A file's tests share their servers and models.
# tests/conftest.py orders the files; pytest-xdist by itself would end with those of few tests, which take longest.
test: $(TESTS) ## run the tests, without those that need a browser, server, cluster or wheel
	@$(PYTEST) --no-loadscope-reorder -m "not extended"

test-all: $(TESTS) ## run all tests, and name the slowest ones
	@$(PYTEST) --no-loadscope-reorder --durations=40 --durations-min=15

# oneDNN and PyTorch obey these two variables on processors with more instructions.
test-avx2: $(TESTS) ## run the tests that depend on the precision as on a processor without bfloat16; 1 minute
	@ONEDNN_MAX_CPU_ISA=AVX2 ATEN_CPU_CAPABILITY=avx2 $(PYTEST) \
	  tests/contract/test_every_training_setting.py tests/contract/test_adapters_torch.py tests/parity/test_bfloat16*.py \
	  tests/unit/nn/layers tests/unit/nn/heads/test_output_precision.py tests/unit/models/test_token_batches.py \
	  tests/unit/inference/test_hf.py tests/scenarios/test_precision_products.py

docs: $(TESTS) ## build the site of the documentation in site/; a broken link is an error
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

checks: $(TESTS) docs ## check lint, types, import contracts, links of the docs and known vulnerabilities of packages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.audit

peers: $(PEERS) ## install the packages that the benchmarks compare with, such as fastText

mutants: $(TESTS) ## apply the hand-written mutants and name those that no test detects; hours
	@$(BIN)/python -m tests.mutation

# Peers that are not dependencies; accelerate, which the Trainer needs, is in requirements-test.lock.
$(PEERS): $(TESTS) requirements-peers.lock
	@$(LOCKED) requirements-peers.lock
	@touch $@

bench: $(PEERS) ## compare speed and memory with other libraries; 25 minutes
	@$(BIN)/python -m benchmarks.run

bench-accuracy: $(PEERS) ## compare accuracy with other libraries after equal epochs, three seeds; 20 minutes
	@$(BIN)/python -m benchmarks.run --accuracy

drill: $(TESTS) ## inject 200 random faults and check the run after each; 15 minutes, as root
	@$(BIN)/python -m tests.drill --faults 200 --seed 0

repair: $(READY) ## check all files in DVC's cache and remove damaged ones; 1 minute
	@$(BIN)/epigram repair

clean: ## remove all outputs of the pipeline; keep your data, the part-of-speech words, .venv and runs
	@rm -rf .epigram .dvc/cache .dvc/tmp dvc.lock
	@git clean -fdxq --exclude=/data/sources --exclude=/data/pocket --exclude=/data/local --exclude=/data/pos_versions data
