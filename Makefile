# Every target makes what it needs first and is safe to interrupt and run again.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup model demo test test-all clients lint format bench clean
.DEFAULT_GOAL := setup

# A venv without pip is one whose making was interrupted: it is made to its end.
$(STAMP): pyproject.toml
	@$(BIN)/python -m pip --version > /dev/null 2>&1 || { \
	  echo "making $(VENV)"; \
	  $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null && $(PYTHON) -m venv $(VENV); } || \
	  { echo "sapwood needs Python 3.11 or newer with venv; set PYTHON=/path/to/python3.11" >&2; exit 2; }
	@echo "installing sapwood and its dependencies (torch is the large one; a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

setup: $(STAMP) model
	@echo "ready: $(BIN)/sapwood --help"

model: $(STAMP)
	@$(BIN)/sapwood fetch smollm2 > /dev/null

demo: $(STAMP) model
	@$(BIN)/python examples/demo.py

# Two workers use two cores; each takes whole files, in their order, so that what a file shares is made once.
WORKERS ?= 2
SIDE_BY_SIDE = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: $(STAMP) model
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE)

test-all: $(STAMP) model
	@$(BIN)/python -m pytest $(SIDE_BY_SIDE) -m 'not clients' --hypothesis-profile=full

# Real coding agents, installed from npm and PyPI into a cache folder, through a gateway.
clients: $(STAMP)
	@$(BIN)/python -m pytest -m clients -rs tests/clients tests/agents/servers/test_servers_known.py

lint: $(STAMP)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(STAMP)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: $(STAMP) model
	@$(BIN)/python -m benchmarks.compare --clients 4 --tokens 64 $(BENCH)
	@$(BIN)/python -m benchmarks.compare --clients 16 --tokens 32 $(BENCH)
	@$(BIN)/python -m benchmarks.single_stream
	@$(BIN)/python -m benchmarks.cached_turn
	@$(BIN)/python -m benchmarks.decode_step
	@$(BIN)/python -m benchmarks.overhead
	@$(BIN)/python -m benchmarks.replay
	@$(BIN)/python -m benchmarks.history
	@$(BIN)/python -m benchmarks.grammar --peer vllm
	@$(BIN)/python -m benchmarks.grammar_http
	@$(BIN)/python -m benchmarks.jump_forward
	@$(BIN)/python -m benchmarks.tool_turns
	@$(BIN)/python -m benchmarks.gateway_latency
	@$(BIN)/python -m benchmarks.gateway_streams
	@$(BIN)/python -m benchmarks.gateway_streams --soak
	@$(BIN)/python -m benchmarks.agent_sessions
	@$(BIN)/python -m benchmarks.behind_gateway
	@$(BIN)/python -m benchmarks.routing $(if $(TRACE),--trace $(TRACE))

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build *.egg-info
