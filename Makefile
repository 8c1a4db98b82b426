# Every variable here can be given on the command line or in the environment:
#   make test PACKAGES=./internal/billing/... TESTFLAGS='-run Due -v'

GO           ?= go
BIN          ?= bin
VERSION      ?= $(shell git describe --tags --dirty 2>/dev/null || echo 0.1.0-dev)
LDFLAGS      ?= -s -w -X main.version=$(VERSION)
# The version comes from LDFLAGS; asking git again fails where the checkout
# belongs to another user.
BUILDFLAGS   ?= -trimpath -buildvcs=false
CC           ?= cc

PACKAGES     ?= ./...
TESTFLAGS    ?=
# Packages tested at a time. More than two engines' worth of containers on a
# small machine measures the machine and not the code.
TEST_JOBS    ?= 2
# Longest time for one package, and for all of make test.
TEST_TIMEOUT ?= 20m
TEST_LIMIT   ?= 30m
# And for make test-console, which looks at each page several times.
CONSOLE_TIMEOUT ?= 30m

# Tests that kill the container engine: they run alone, after all others.
ENGINE_KILLERS ?= EngineThatIsKilled

# Where make test-engines finds gVisor's runsc, or puts it.
RUNSC        ?= .cache/runsc
# Where make test-jupyter finds a root file system with JupyterLab, or puts it.
JUPYTER      ?= .cache/jupyter.tar
# Where make test-ddp finds a root file system with PyTorch, or puts it.
TORCH        ?= .cache/torch.tar
# Where make test-s3 finds an S3 server, versitygw, or puts it.
VERSITYGW    ?= .cache/versitygw
# Where make test-kubernetes finds Kubernetes' programs and helm, or puts them.
KUBERNETES   ?= .cache/kubernetes
# Where make test-stripe finds Stripe's mock server, or puts it.
STRIPE_MOCK  ?= .cache/stripe-mock

# make chaos: how many kills, of which sequence, from which place of it. Without a
# seed every run is another one.
KILLS        ?= 200
SEED         ?= $(shell date +%s)
FIRST        ?= 0
# Once, not at each use.
SEED         := $(SEED)

NAME         ?=
BENCHFLAGS   ?=
DEMOFLAGS    ?=
GOLANGCI     ?= golangci-lint

# The main binary is static everywhere; only the NVML helper uses cgo.
export CGO_ENABLED = 0

.DEFAULT_GOAL := help

.PHONY: help
help: ## Say what can be made
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 18

# What the console is built from.
CONSOLE_FILES = $(shell find console -path console/node_modules -prune -o -path console/src/api/schema.d.ts -prune -o -type f -print) api/openapi.json

internal/console/dist/.built: $(CONSOLE_FILES) deploy/build-console.sh
	deploy/build-console.sh
	@touch $@

.PHONY: console
console: internal/console/dist/.built ## Build the web console, which becomes part of the binary

.PHONY: build
build: console ## Build bin/suanli (static), and bin/suanli-nvml where there is a C compiler
	$(GO) build $(BUILDFLAGS) -ldflags '$(LDFLAGS)' -o $(BIN)/suanli ./cmd/suanli
	@if [ ! -d cmd/suanli-nvml ]; then :; \
	elif ! command -v $(CC) >/dev/null 2>&1; then \
		echo "no C compiler ($(CC)): built without suanli-nvml, which only hosts with NVIDIA GPUs need"; \
	else \
		echo "CGO_ENABLED=1 $(GO) build -o $(BIN)/suanli-nvml ./cmd/suanli-nvml"; \
		CGO_ENABLED=1 CGO_CFLAGS='-O2 -Wno-deprecated-declarations' CC=$(CC) \
			$(GO) build $(BUILDFLAGS) -ldflags '-s -w' -o $(BIN)/suanli-nvml ./cmd/suanli-nvml; \
	fi

.PHONY: generate
generate: ## Write again what is generated: the OpenAPI document, parts of docs/
	$(GO) generate ./...

.PHONY: lint
lint: ## Check format, imports and the other house rules
	@unformatted=$$(gofmt -l $$(git ls-files '*.go' 2>/dev/null || find . -name '*.go')); \
	if [ -n "$$unformatted" ]; then echo "run gofmt -w on:"; echo "$$unformatted"; exit 1; fi
	@for f in deploy/*.sh deploy/*/*.sh .ci/run; do bash -n "$$f" || exit 1; done
	$(GO) vet $(PACKAGES)
	$(GO) test -count=1 ./internal/lint
	@if command -v $(GOLANGCI) >/dev/null 2>&1; then $(GOLANGCI) run; \
	else echo "$(GOLANGCI) is not installed: its further checks are left out"; \
	echo "  (go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@v2.15.0)"; fi

.PHONY: test
test: console ## Install what tests need, start a database and an engine for them, run all tests
	timeout --kill-after=60s $(TEST_LIMIT) deploy/setup-test.sh env -u SUANLI_TEST_ENGINE_RESTART \
		$(GO) test -p $(TEST_JOBS) -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $(PACKAGES)
ifeq ($(PACKAGES),./...)
	timeout --kill-after=60s 3m deploy/setup-test.sh $(GO) test -run $(ENGINE_KILLERS) ./internal/agent
endif

.PHONY: test-console
test-console: console ## Test the whole console in a browser, and keep pictures of all pages in bin/console-test
	SUANLI_TEST_CONSOLE=all deploy/setup-test.sh \
		$(GO) test -count=1 -v -timeout $(CONSOLE_TIMEOUT) -run TheConsoleInABrowser ./e2e

.PHONY: chaos
chaos: ## Kill parts of a cloud hundreds of times: make chaos KILLS=200 SEED=n
	@run() { SUANLI_TEST_KILLS=$(KILLS) SUANLI_TEST_SEED=$(SEED) SUANLI_TEST_FIRST_KILL=$(FIRST) deploy/setup-test.sh \
		$(GO) test -count=1 -v -timeout $$(($(KILLS) * 2 + 5))m -run WhateverIsKilled ./e2e; }; \
	echo "seed $(SEED), $(KILLS) kills from place $(FIRST)"; \
	run || { echo "seed $(SEED) failed; once more, to see whether it fails again"; run; exit 1; }

SEEDS        ?= 1

.PHONY: drill
drill: ## Break parts of a cloud of many machines, from a seed: make drill SEED=n SEEDS=200
	SUANLI_TEST_SEED=$(SEED) SUANLI_TEST_SEEDS=$(SEEDS) deploy/setup-test.sh \
		$(GO) test -count=1 -v -timeout $$(($(SEEDS) * 2 + 5))m -run WhateverPartFails ./e2e

.PHONY: test-engines
test-engines: $(RUNSC) ## Test hosts with Podman and with gVisor, which are installed or built for it
	SUANLI_TEST_PACKAGES="podman runc" SUANLI_TEST_PODMAN=podman SUANLI_TEST_RUNSC=$(abspath $(RUNSC)) deploy/setup-test.sh \
		$(GO) test -count=1 -v -timeout $(TEST_TIMEOUT) -run 'Podman|GVisor' ./e2e

FOCUS_VENV ?= $(abspath bin/focus-validator)

.PHONY: test-focus
test-focus: ## Check FOCUS exports with the public validator, which is installed for it
	test -x $(FOCUS_VENV)/bin/focus-validator || { python3 -m venv $(FOCUS_VENV) && $(FOCUS_VENV)/bin/pip install -q focus-validator==1.0.0 'multimethod<1.12'; }
	SUANLI_TEST_FOCUS=$(FOCUS_VENV)/bin/focus-validator $(GO) test -count=1 -v -timeout $(TEST_TIMEOUT) -run 'Validator' ./internal/billing

.PHONY: test-jupyter
test-jupyter: $(JUPYTER) ## Test JupyterLab through the gateway, in an image that is built for it
	SUANLI_TEST_JUPYTER=$(abspath $(JUPYTER)) deploy/setup-test.sh \
		$(GO) test -count=1 -v -timeout $(TEST_TIMEOUT) -run JupyterLab ./e2e

.PHONY: test-ddp
test-ddp: $(TORCH) ## Train with PyTorch on several nodes, in an image that is built for it
	SUANLI_TEST_TORCH=$(abspath $(TORCH)) deploy/setup-test.sh \
		$(GO) test -count=1 -v -timeout $(TEST_TIMEOUT) -run PyTorch ./e2e

# Needs root, mmdebstrap and the distribution's archive; a few minutes.
$(TORCH): deploy/torch-image/build.sh
	mkdir -p $(dir $@)
	deploy/torch-image/build.sh $@

.PHONY: test-kubernetes
test-kubernetes: ## Test clusters as hosts on a real API server, and the Helm chart; both are built for it (half an hour)
	GO=$(GO) deploy/kubernetes-test.sh $(KUBERNETES) -timeout $(TEST_TIMEOUT) $(TESTFLAGS)

.PHONY: test-stripe
test-stripe: $(STRIPE_MOCK) ## Test payments against Stripe's own mock, which is fetched for it
	SUANLI_TEST_STRIPE_MOCK=$(abspath $(STRIPE_MOCK)) $(GO) test -count=1 -v -run Mock ./internal/payment/stripe

$(STRIPE_MOCK):
	GOBIN=$(abspath $(dir $@)) $(GO) install github.com/stripe/stripe-mock@v0.203.0

.PHONY: test-s3
test-s3: $(VERSITYGW) ## Test object storage and snapshots against a real S3 server, which is built for it
	SUANLI_TEST_VERSITYGW=$(abspath $(VERSITYGW)) deploy/setup-test.sh \
		$(GO) test -count=1 -v -timeout $(TEST_TIMEOUT) -run 'S3|Snapshot|SavedAtRest|Object|SignedURL|RemovingAKey|WhatIsWrongWith' ./internal/objectstore/... ./internal/volume ./internal/agent/... ./internal/server ./e2e

# Comes as Go source through the module proxy; a few minutes of a processor.
$(VERSITYGW):
	GOBIN=$(abspath $(dir $@)) $(GO) install github.com/versity/versitygw/cmd/versitygw@v1.8.0

# Needs root, mmdebstrap and a Python package index; a minute or three.
$(JUPYTER): deploy/jupyter-image/build.sh deploy/jupyter-image/install.sh
	mkdir -p $(dir $@)
	deploy/jupyter-image/build.sh $@

# gVisor comes as Go source through the module proxy; five minutes of a processor.
$(RUNSC): deploy/build-runsc.sh
	GO=$(GO) deploy/build-runsc.sh $@

.PHONY: bench
bench: build ## Run all benchmarks, or one: make bench NAME=x
	GO=$(GO) BIN=$(BIN) bench/run.sh $(BENCHFLAGS) $(NAME)

.PHONY: demo
demo: build ## Start a cloud on this machine and rent on it, step by step
	BIN=$(BIN) deploy/demo.sh $(DEMOFLAGS)

.PHONY: clean
clean: ## Remove what was built (not what a cloud keeps)
	rm -rf $(BIN) dist .cache
