# Targets for setting up, running, testing and measuring Headrace. The logic is in infra/install/ and in the `headrace` command.
PYTHON ?= python3
WORKERS ?=
CHAOS ?=
LOCK ?=
PICTURES ?= $(HEADRACE_HOME)/pictures
HEADRACE_HOME ?= .headrace
export HEADRACE_HOME
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help setup setup-dev env lock serve up ps test pictures chaos races kill-points containers-test test-brokers test-mongodb test-bills test-client-suites test-schemas test-searches check check-python check-page types format bench bench-paper overload bench-peers bench-search-accuracy clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: ## Install everything that is needed to run (every other target does it too)
	@$(PYTHON) -m infra.install

setup-dev:
	@$(PYTHON) -m infra.install --dev

env: ## Write .env for `docker compose`, with random secrets, unless it exists
	@$(PYTHON) -m infra.install.environment_file

lock: ## Write the locks of Python packages, infra/install/locks/, from pyproject.toml (LOCK=--upgrade: newest versions)
	@$(PYTHON) -m infra.install.lock $(LOCK)

serve: setup ## Everything in one process: API, chat and a small model on the CPU
	@exec $(BIN)/headrace serve

up: setup ## The platform as separate processes: RabbitMQ, store, billing, gateway, WORKERS=n workers
	@exec $(BIN)/headrace up $(if $(WORKERS),--workers $(WORKERS))

ps: setup ## List the running processes and their load
	@$(BIN)/headrace ps

test: setup-dev ## Every test, with a real RabbitMQ, store and model where they are installed
	cd chat_ui/web && npm run --silent test
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses 3 --dist loadfile --no-loadscope-reorder # more threads would spin and slow one another down

pictures: setup-dev ## A tour of the chat in Chromium over RabbitMQ, with a screenshot of each step in PICTURES (.headrace/pictures)
	@mkdir -p $(PICTURES)
	HEADRACE_SCREENSHOTS=$(abspath $(PICTURES)) $(BIN)/pytest tests/e2e/test_chat_in_browser.py

containers-test: setup-dev ## Build every container image and run docker-compose.yml with Podman: chat, scaling, a kill, a restart (some minutes)
	HEADRACE_TEST_CONTAINERS=1 $(BIN)/pytest -s tests/containers

chaos: setup-dev ## Fault injection on the whole platform: 16 configurations x 180 s (CHAOS_SECONDS, CHAOS_SEED, CHAOS="name ...")
	CHAOS_MUTATIONS=1 CHAOS_ROLLING=1 CHAOS_CHAT=1 CHAOS_CANCELS=1 CHAOS_LAUNCHER=1 $(BIN)/pytest -s \
		tests/chaos/test_mutations.py tests/chaos/test_rolling_restart.py tests/chaos/test_chat.py \
		tests/chaos/test_background_responses.py tests/chaos/test_cancellation.py tests/chaos/test_launcher_storm.py
	$(BIN)/python -m tests.takeovers --publish
	$(BIN)/python -m tests.import_kills
	$(BIN)/python -m tests.chaos --publish $(CHAOS)

test-brokers: setup-dev ## The tests that need RabbitMQ on 3.10, 4.0 and 4.3 (root and debootstrap; half an hour), into docs/reliability.md
	$(BIN)/python -m tests.brokers --publish

test-mongodb: setup-dev ## Every test of the store on a MongoDB of yours: HEADRACE_MONGODB_URL=mongodb://... (databases test_*, dropped)
	@: $${HEADRACE_MONGODB_URL:?is the URL of a MongoDB}
	TEST_MONGODB_URL="$$HEADRACE_MONGODB_URL" env -u HEADRACE_MONGODB_URL $(BIN)/pytest -m store

races: setup-dev ## Billing races: four processes, a thousand iterations each (some minutes)
	HEADRACE_RACE_ITERATIONS=1000 $(BIN)/pytest tests/auth_billing/races --durations=0

test-bills: setup-dev ## 300 mixed requests over RabbitMQ: reported, billed and computed usage are equal
	HEADRACE_TEST_BILLS=300 $(BIN)/pytest -s tests/integration/test_exact_bills.py

test-client-suites: setup-dev ## The tests of OpenAI's, Anthropic's and LangChain's clients against a gateway (downloads them), into docs/client-test-suites.md
	$(BIN)/python -m tests.suites --publish

test-schemas: setup-dev ## 200 schemas, the real model at temperature 1: every answer validates
	HEADRACE_TEST_SCHEMAS=200 $(BIN)/pytest tests/inference_worker/structured/test_real_model.py

test-searches: setup-dev ## 20 questions for each search method with a verifier: paths and scores equal plain loops over transformers (some minutes)
	HEADRACE_TEST_SEARCHES=20 $(BIN)/pytest tests/integration/test_search_parity.py

kill-points: setup-dev ## Answers interrupted at 20 points equal uninterrupted ones: the real model in float32; searches and assistants, with kill -9 of each process in each phase (half an hour)
	HEADRACE_KILL_POINTS=20 $(BIN)/pytest tests/integration/test_identical_continuation.py
	HEADRACE_TEST_KILLS=20 $(BIN)/pytest tests/integration/test_assistant_kills.py tests/integration/test_search_kills.py tests/kills
	HEADRACE_TEST_KILLS=20 $(BIN)/python -m tests.kills --publish

check: check-python check-page ## Linters, types and import contracts, including the web page

check-python: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m chat_ui.http.openapi | diff - chat_ui/web/openapi.json || { echo "the page's types are stale: make types"; exit 1; }

check-page: setup-dev
	cd chat_ui/web && npm run --silent check

types: setup-dev ## Generate the page's types from the OpenAPI document of the chat's API
	$(BIN)/python -m chat_ui.http.openapi > chat_ui/web/openapi.json
	cd chat_ui/web && npm run --silent types

format: setup-dev ## Format the code and sort imports
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup-dev ## Measure the engine and the platform (ten minutes), and write docs/performance.md
	$(BIN)/python -m benchmarks.engine --quick
	$(BIN)/python -m benchmarks.server --engine-alone
	$(BIN)/python -m benchmarks.document

bench-paper: setup-dev ## Measure speed by answer length, clients and rate on the whole platform (half an hour), and write docs/performance.md
	$(BIN)/python -m benchmarks.paper
	$(BIN)/python -m benchmarks.paper --speculation off --table lengths --table batch --starts 0
	$(BIN)/python -m benchmarks.document

bench-routing: setup-dev ## Score the ways of choosing tools and of rewriting follow-ups (four minutes), and write docs/performance.md
	$(BIN)/python -m benchmarks.routing
	$(BIN)/python -m benchmarks.document

overload: setup-dev ## Load at ten times the capacity for a minute: goodput, refusals, memory; write docs/performance.md
	$(BIN)/python -m benchmarks.overload
	$(BIN)/python -m benchmarks.document

bench-search-accuracy: setup-dev ## Train a verifier and measure searches with it (an hour), and write docs/test-time-compute.md
	$(BIN)/python -m benchmarks.test_time_compute.verifier
	$(BIN)/python -m benchmarks.test_time_compute
	$(BIN)/python -m benchmarks.test_time_compute.replay
	$(BIN)/python -m benchmarks.test_time_compute --votes --n 16 --family "word problem" equation "next number" --minutes 10 --publish

bench-peers: setup-dev ## Install other engines (half an hour), measure them and Headrace in turns, write docs/performance.md
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.server --server headrace --server headrace-8-bit --server llama-server \
		--server vllm --engine-alone --rounds 3
	$(BIN)/python -m benchmarks.document

clean: ## Remove what was built and cached; keeps data, secrets and models in $(HEADRACE_HOME)
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
	rm -rf chat_ui/web/node_modules chat_ui/web/dist tests/e2e/clients/node/node_modules tests/oidc/node_modules "$(HEADRACE_HOME)/store-venv"
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
