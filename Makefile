# One verb per wish. A machine needs Python 3.11 or newer and make; everything else goes into .venv.

.DEFAULT_GOAL := help
.SUFFIXES:
.PHONY: help setup demo brain test test-process test-compose image compose-up compose-down sim sim-nightly drill bench bench-quick retrieval figures check format proto transcripts up down lock clean

# From the root of the checkout, `proto/` and `log/` must not shadow what is installed.
export PYTHONSAFEPATH := 1

BIN := .venv/bin
READY := .venv/.ready
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11)
# Without the safe path: a package that has to be built here may import itself from its own folder.
INSTALL := env -u PYTHONSAFEPATH $(BIN)/python -m pip install --quiet --disable-pip-version-check
LOCK := $(BIN)/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-header --no-annotate
IMAGE := $(or $(VERIDICAL_IMAGE),veridical:local)
BASE_IMAGE ?= python:3.12-slim
STUBS := proto/generated
SCRATCH := build/make

help: ## Say what can be asked for
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(READY) ## Make .venv as the lock file says (every other verb does this first)

$(READY): requirements.lock pyproject.toml
	@$(BIN)/python -m pip --version >/dev/null 2>&1 || { \
		for python in $(PYTHONS); do \
			if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
		done; \
		test -n "$$found" || { echo "No Python 3.11 or newer among: $(PYTHONS). Name one: make PYTHON=..." >&2; exit 1; }; \
		echo "Making .venv with $$found"; \
		$$found -m venv --clear .venv || { echo "On Debian: apt-get install python3-venv" >&2; exit 1; }; \
	}
	@echo "Installing what requirements.lock names"
	@$(INSTALL) --require-hashes -r requirements.lock
	@$(INSTALL) --no-deps --no-build-isolation -e .
	@touch $@

demo: $(READY) ## Tell the story: three nodes, a thousand real facts, a killed leader, an audit
	@$(BIN)/python examples/demo.py

brain: $(READY) ## Tell another: a fleet shares one memory on three nodes, with trust, scopes and a killed leader
	@$(BIN)/python examples/demo_shared_brain.py

test: $(READY) ## Prove the code: unit tests and simulations, no node processes, no waiting
	$(BIN)/pytest -q -n auto

test-process: $(READY) ## Prove it with real processes: kills, stops, restarts, and the README as it stands
	$(BIN)/pytest -q -m process

test-compose: $(READY) image ## Prove the deployment with real containers (needs a running Docker engine)
	VERIDICAL_IMAGE=$(IMAGE) $(BIN)/pytest -q -m docker

image: ## Build the container image, from BASE_IMAGE=python:3.12-slim or another
	docker build --quiet --file compose/Dockerfile --build-arg BASE_IMAGE=$(BASE_IMAGE) --tag $(IMAGE) .

compose-up: image ## Start three nodes in containers, and wait until they answer
	VERIDICAL_IMAGE=$(IMAGE) docker compose --file compose/compose.yaml up --detach --wait

compose-down: ## Stop them; their volumes stay
	VERIDICAL_IMAGE=$(IMAGE) docker compose --file compose/compose.yaml down

sim: $(READY) ## Run 1000 seeds of simulated clusters, and show that every mutant of the protocol is caught
	$(BIN)/veridical sim

sim-nightly: $(READY) ## The same with 20000 seeds, for hours: goes on where it was stopped, writes docs/simulation.md
	$(BIN)/veridical sim --seeds 20000 --state build/simulation.json --out docs/simulation.md

drill: $(READY) ## Break a cluster of real nodes under load in every way, and write docs/drill.md
	$(BIN)/veridical drill all --out docs/drill.md

bench: .venv/.bench ## Measure beside etcd (where installed), PySyncObj and SQLite; see make bench OPTIONS=--help
	@PYTHONPATH=bench $(BIN)/python bench/run.py $(if $(findstring --only,$(OPTIONS)),,--json bench/figures.json) $(OPTIONS)

bench-quick: .venv/.bench ## Show that every measurement works, in loops too short to count
	@PYTHONPATH=bench $(BIN)/python bench/run.py --quick $(OPTIONS)

retrieval: $(READY) ## Measure how well recall finds, beside plain BM25, and write docs/retrieval.md
	@PYTHONPATH=bench $(BIN)/python -m retrieval.run $(OPTIONS)

figures: $(READY) ## Write the README's figures from what the last make bench found
	@PYTHONPATH=bench $(BIN)/python bench/readme.py

.venv/.bench: $(READY) bench/requirements.lock
	@$(INSTALL) --no-build-isolation --require-hashes -r bench/requirements.lock
	@touch $@

check: $(READY) ## Lint, format, types, import layers, and stubs that equal what protoc writes
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-cache
	@$(MAKE) --no-print-directory proto STUBS=$(SCRATCH)/stubs
	diff -r -x '__init__.py' -x '__pycache__' $(SCRATCH)/stubs proto/generated
	@rm -rf $(SCRATCH)

format: $(READY) ## Format the code and sort its imports
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

proto: $(READY) ## Write proto/generated from proto/*.proto
	@rm -rf $(SCRATCH)/protoc $(STUBS)/*_pb2*
	@mkdir -p $(SCRATCH)/protoc $(STUBS)
	@PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m grpc_tools.protoc -Iveridical/proto=proto \
		--python_out=$(SCRATCH)/protoc --grpc_python_out=$(SCRATCH)/protoc \
		--mypy_out=quiet:$(SCRATCH)/protoc --mypy_grpc_out=quiet:$(SCRATCH)/protoc proto/*.proto
	@for stub in $(SCRATCH)/protoc/veridical/proto/*; do \
		case $$stub in *_pb2_grpc.py*) grep -q 'class .*Stub' "$$stub" || continue;; esac; \
		sed 's/^from veridical\.proto import /from . import /' "$$stub" > "$(STUBS)/$${stub##*/}"; \
	done
	@rm -rf $(SCRATCH)/protoc

transcripts: $(READY) ## Write tests/transcripts anew, as the core tells them now
	$(BIN)/python tests/rewrite_transcripts.py

up: $(READY) ## Start three local nodes and leave them running
	@$(BIN)/veridical up

down: $(READY) ## Stop them
	@$(BIN)/veridical down

lock: $(READY) ## Bring requirements.lock to the newest releases that pyproject.toml allows
	$(INSTALL) uv
	$(LOCK) --group dev --output-file requirements.lock pyproject.toml
	$(LOCK) --group bench --output-file bench/requirements.lock
	$(LOCK) --constraints requirements.lock --output-file compose/requirements.lock pyproject.toml

clean: ## Remove what the other verbs left, except .venv
	rm -rf build dist *.egg-info .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
