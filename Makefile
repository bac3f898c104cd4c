# The first make run or make test also installs everything that is needed.
#
#   make run DATASET=mr SYSTEMS=transformer_f,tfidf_svm SEEDS=0,1,2

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers
PIP := $(BIN)/pip --disable-pip-version-check --quiet
# Install only packages that have a hash in a lock file; this includes build dependencies.
LOCKED := $(PIP) install --require-hashes --no-deps --no-build-isolation --requirement

export DO_NOT_TRACK := 1

# A variable on make's command line is visible in the process list, and make expands $ in it.
ifeq ($(origin DATABASE),command line)
  $(error set DATABASE in the environment (DATABASE=... make serve), or name a file of mode 0600 in DATABASE_FILE: on make's command line its password is seen by everybody on this machine)
endif
unexport DATASET SYSTEMS SEEDS SET NAME

# Pass a variable as a command-line option, quoted for the shell.
option = $(if $(value $(1)),--$(2) '$(subst ','\'',$(value $(1)))')

.DEFAULT_GOAL := help
.PHONY: help run retrain serve stop test checks mutants peers bench bench-accuracy drill mend clean

help: ## show this
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

$(READY): requirements.lock requirements-build.lock requirements-cuda.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("epigram needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	@echo "setting up $(VENV): a few minutes, once"
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@sed -n '/^torch==/,/[^\]$$/p' requirements.lock >$(VENV)/torch.lock
	@# prefer a local wheel of PyTorch (pip's find-links): the wheel of the package index needs CUDA's packages
	@$(LOCKED) $(VENV)/torch.lock --no-index 2>$(VENV)/torch.log || $(LOCKED) $(VENV)/torch.lock --requirement requirements-cuda.lock
	@$(LOCKED) requirements-build.lock
	@$(LOCKED) requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --no-index --editable .
	@# skipped if the peers are installed: some of their dependencies are not
	@test -e $(PEERS) || $(PIP) check
	@touch $@

run: $(READY) ## run the pipeline; DATASET=, SYSTEMS=, SEEDS=, SET="a.b=c d=e" override params.yaml
	@$(BIN)/python -m flows.pipeline \
	  $(call option,DATASET,dataset) $(call option,SYSTEMS,systems) $(call option,SEEDS,seeds) $(call option,NAME,name) \
	  $(foreach change,$(value SET),--set '$(subst ','\'',$(change))')

retrain: $(READY) ## take in new rows, train challengers, promote one that beats the champion
	@$(BIN)/python -m flows.retrain

serve: $(READY) ## start server, dashboard, worker and schedules; Ctrl-C or make stop ends them
	@$(BIN)/python -m flows.serve

stop: $(READY) ## end what make serve started
	@$(BIN)/python -m flows.serve --stop

test: $(READY) ## run the tests
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile

checks: $(READY) ## lint, types, import contracts, known faults of packages
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python -m tests.audit

peers: $(PEERS) ## install what the benchmarks compare with: a pretrained encoder, the fastText library

mutants: $(READY) ## change the code in hundreds of places, one at a time, and count the changes that no test notices; hours
	@$(BIN)/python -m tests.mutation run
	@$(BIN)/python -m tests.mutation report

# Peers that are not dependencies; accelerate, which the Trainer needs, is in requirements.lock.
$(PEERS): $(READY) requirements-peers.lock
	@$(LOCKED) requirements-peers.lock
	@touch $@

bench: $(PEERS) ## measure speed and memory against the best known alternatives; 25 minutes
	@$(BIN)/python -m benchmarks.run

bench-accuracy: $(PEERS) ## measure accuracy after equal epochs, three seeds, for each rate of bench; 20 minutes
	@$(BIN)/python -m benchmarks.run --accuracy

drill: $(READY) ## inject 200 random faults and check each next run; 40 minutes, as root
	@$(BIN)/python -m tests.drill --faults 200 --seed 0

mend: $(READY) ## look at all of DVC's cache and remove what is damaged
	@$(BIN)/python -m epigram.runner.dvc.repair

clean: ## remove every output of the pipeline; your data, .venv and runs stay
	@rm -rf .epigram .dvc/cache .dvc/tmp dvc.lock
	@find data -mindepth 1 -maxdepth 1 ! -name sources ! -name pocket ! -name local -exec rm -rf {} +
