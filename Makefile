# Cairn: `make` shows what there is.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

# Set these on the command line: make sim SEEDS=500, make bench ARGS="fan", make torture MINUTES=1 ARGS="--seed 7".
ARGS ?=
MINUTES ?= 10
OTHER ?=
SEEDS ?=
SIM_SECONDS ?= 30
FUZZTIME ?= 2000x
TESTFLAGS ?=
# Tests wait more than they compute: twice as many at a time as there are cores, on a machine with two.
PARALLEL := -parallel 4
# With the race detector. SQLite's own code, translated from C, works on memory that the detector does not watch: it would find nothing there, and take
# five times as long to open a database.
RACE := -race -gcflags=modernc.org/sqlite/lib=-race=false

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
COMMIT ?= $(shell git rev-parse --short=12 HEAD 2>/dev/null)
VERSION_PACKAGE := github.com/cairn-workflow/cairn/internal/version
LDFLAGS := -s -w -X $(VERSION_PACKAGE).version=$(VERSION) -X $(VERSION_PACKAGE).commit=$(COMMIT)

# The linter is built once for each version of it and of Go.
LINT_VERSION := $(shell awk '$$1 == "github.com/golangci/golangci-lint/v2" {print $$2}' tools/go.mod)
LINT := .tools/bin/golangci-lint-$(LINT_VERSION)-$(shell go env GOVERSION)
PGRUN := .tools/bin/pgrun
TIMED := scripts/timed.sh

# Tests that crash everywhere: one goroutine after the other, and so many crashes that the race detector makes them ten times as slow. `make verify` crashes
# everywhere without it, and at fewer places with it.
CRASHES := ^Test(PromiseKill|.*CrashEverywhere|PowerLoss.*)$$
CRASHING := . ./cairntest ./examples/agent ./examples/importer ./internal/store/sqlite

# $(call packages,GROUP) starts a recipe: it sets $$packages, or says that there are none yet and ends the recipe well.
packages = packages=$$(scripts/packages.sh $(1)); [[ -n $$packages ]] || { echo '$@: no packages yet'; exit 0; };

##@ Build

.PHONY: help
help: ## Show this help
	@awk 'BEGIN {FS = ":.*## "} /^##@ / {printf "\n%s\n", substr($$0, 5)} /^[a-z\/-]+:.*## / {printf "  %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: ## Find or install what building and testing needs: PostgreSQL, a C compiler, the linter
	@scripts/setup.sh
	@$(MAKE) -s $(LINT)

.PHONY: build
build: ## Build bin/cairn, one static program
	CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)' -o bin/cairn ./cmd/cairn

.PHONY: run
run: ## Process example orders on a SQLite file: stop it with Ctrl-C or kill -9, run it again, and they go on
	@go build -o bin/orders ./examples/orders && exec bin/orders $(ARGS)

.PHONY: clean
clean: ## Remove what the build made, the linter too
	rm -rf bin .tools

##@ Check

.PHONY: lint
lint: $(LINT) ## Check style, formatting and import rules
	@$(TIMED) lint $(LINT) run ./...

.PHONY: fmt
fmt: $(LINT) ## Format all Go code
	@$(LINT) fmt ./...

.PHONY: test
test: export CAIRN_REQUIRE_POSTGRES := 1
test: setup lint test/unit test/store test/sim test/torture test/fuzz ## Everything a change must pass: setup, lint, unit, store, sim, torture, fuzz

.PHONY: test/unit
test/unit: export TMPDIR := $(shell scripts/tmpdir.sh)
test/unit: $(PGRUN) ## Test all packages but those below, with the race detector
	@$(call packages,unit) $(TIMED) $@ $(PGRUN) -- go test $(RACE) $(PARALLEL) -skip '$(CRASHES)' -timeout 9m $(TESTFLAGS) $$packages

.PHONY: test/store
test/store: $(PGRUN) ## Test the stores and the committer on SQLite and PostgreSQL, short, with the race detector
	@$(call packages,store) $(TIMED) $@ $(PGRUN) -- go test $(RACE) $(PARALLEL) -short -skip '$(CRASHES)' -timeout 5m $(TESTFLAGS) $$packages

.PHONY: test/sim
test/sim: ## Crash everywhere, and simulate for SIM_SECONDS seconds, or as many SEEDS as given
	@$(TIMED) test/crash go test -count=1 -short -timeout 5m -run '$(CRASHES)' $(TESTFLAGS) $(CRASHING)
	@$(call packages,sim) SIM_SECONDS=$(SIM_SECONDS) SEEDS=$(SEEDS) $(TIMED) $@ go test -count=1 -timeout 10m -v $(TESTFLAGS) $$packages | grep -Ev '^(=== |    --- PASS)'

.PHONY: test/torture
test/torture: ## Hurt real processes on both stores for half a minute, and audit what they leave
	@$(call packages,torture) $(TIMED) $@ go test -count=1 -timeout 5m $(TESTFLAGS) $$packages

.PHONY: test/fuzz
test/fuzz: ## Run each fuzz target for FUZZTIME: so many inputs (2000x), or so long (60s)
	@$(TIMED) $@ scripts/fuzz.sh $(FUZZTIME)

.PHONY: record
record: ## Record runs of the examples that are not in their testdata yet; it overwrites none
	go test -count=1 -run '^TestRecordedRuns$$' $$(grep -rl --include='*_test.go' '^func TestRecordedRuns' examples | xargs -n1 dirname | sed 's,^,./,') -record

.PHONY: fixtures
fixtures: ## Write databases with the code of old commits that are not in testdata yet; it overwrites none
	scripts/fixtures.sh

##@ Measure

.PHONY: sim
sim: ## Simulate SEEDS seeds (1000 unless given), however long it takes
	@SIM_SECONDS= SEEDS=$(or $(SEEDS),1000) $(TIMED) $@ scripts/sim.sh $(TESTFLAGS)

.PHONY: torture
torture: ## Hurt real processes for MINUTES on each store, and audit; OTHER=commit lets that version do half of the work
	@MINUTES=$(MINUTES) OTHER=$(OTHER) $(TIMED) $@ scripts/torture.sh $(ARGS)

.PHONY: soak
soak: ## Simulate engines with other seeds each time, until it is stopped or one fails; says once a minute how many it were
	@SOAK=1 $(TIMED) $@ go test -count=1 -timeout 0 -v -run '^TestEngineSeeds$$' $(TESTFLAGS) ./internal/sim/enginesim

.PHONY: bench
bench: ## Run the benchmarks, each store in a process of its own: make bench ARGS="..."
	go run ./bench -store sqlite $(ARGS)
	go run ./bench -store postgres $(ARGS)

.PHONY: verify
verify: export CAIRN_REQUIRE_POSTGRES := 1
verify: export CAIRN_VERIFY := 1
verify: setup lint $(PGRUN) ## Everything without a time limit: race everywhere, 2000 SEEDS, torture for MINUTES, fuzzing, benchmarks
	@SEEDS= $(TIMED) verify/race $(PGRUN) -- go test $(RACE) -count=1 -timeout 0 -skip '$(CRASHES)' $(TESTFLAGS) ./...
	@CAIRN_VERIFY= $(TIMED) verify/crash go test $(RACE) -short -count=1 -timeout 0 -run '$(CRASHES)' $(TESTFLAGS) $(CRASHING)
	@$(TIMED) verify/crash-all go test -count=1 -timeout 0 -run '$(CRASHES)' $(TESTFLAGS) $(CRASHING)
	@$(MAKE) sim SEEDS=$(or $(SEEDS),2000)
	@$(MAKE) torture
	@$(MAKE) test/fuzz FUZZTIME=60s
	@$(TIMED) verify/bench go test -run '^$$' -bench . -benchtime 1x ./...
	@$(MAKE) bench

$(LINT): tools/go.mod tools/go.sum
	@echo 'building golangci-lint $(LINT_VERSION) (once, some minutes)'
	@mkdir -p $(@D)
	@go build -C tools -o ../$@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
	@touch $@

.PHONY: $(PGRUN)
$(PGRUN):
	@go build -o $@ ./internal/pgcluster/pgrun
