# Every target runs from a clean clone. `make help` lists them.

MODULE  := github.com/quorumlock/redlock
BIN     := .cache/bin
FUZZTIME ?= 60s

.DEFAULT_GOAL := help
.PHONY: help setup test check soak chaos bench fuzz demo cover fmt model sim mutants matrix observe

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: ## install what the tests need, or say what is missing
	@.ci/setup

test: setup ## all tests of all modules under the race detector, on real servers
	go test -race -timeout 8m work

check: $(BIN)/staticcheck $(BIN)/golangci-lint $(BIN)/gofumpt $(BIN)/govulncheck ## format, vet, staticcheck, unseen errors, other systems, links and pages, known vulnerabilities
	@unformatted=$$($(BIN)/gofumpt -l .); test -z "$$unformatted" || \
		{ printf 'run make fmt:\n%s\n' "$$unformatted"; exit 1; }
	go vet work
	$(BIN)/staticcheck work
	@for dir in $$(go list -m -f '{{.Dir}}'); do (cd "$$dir" && $(CURDIR)/$(BIN)/golangci-lint run -c $(CURDIR)/.golangci.yml ./...) || exit 1; done
	GOOS=darwin go vet ./... ./cmd/redlock/...
	GOOS=windows go vet ./... ./cmd/redlock/...
	GOARCH=386 CGO_ENABLED=0 go vet ./...
	go test -count=1 ./internal/docs
	.ci/vulncheck

model: ## explore the protocol exhaustively, and find each known bad variant (minutes)
	go run ./internal/model/cmd/explore

SIM_COUNT ?= 20000
sim: ## seeded schedules of faults in virtual time; SEED=n runs one twice (minutes)
	SIM_SEED=$(SEED) SIM_COUNT=$(SIM_COUNT) go test -count=1 -timeout 30m -run TestSchedules -v ./internal/sim

mutants: setup ## break a copy in many ways, and see that a test notices each (minutes)
	go run ./internal/mutants/cmd/mutants

soak: setup ## long runs with faults (minutes)
	REDLOCK_SOAK=1 go test -race -run Soak -timeout 30m work
	REDLOCK_SOAK=1 go test -run SoakManyHeldLocks -v . # all 10,000, and what each costs

FOR ?= 10m
chaos: setup ## faults on real servers and processes for FOR (10m), histories checked; SEED=n draws them again
	internal/chaos/setup
	go build -o $(BIN)/chaos ./internal/chaos
	$(BIN)/chaos -for $(FOR) $(if $(SEED),-seed $(SEED))
	$(BIN)/chaos -for 1m -guard off -restart-majority -expect-violation

DIR ?= .cache/servers
matrix: ## the tests of the core and the adapters on every server in DIR/bin
	@mkdir -p .cache/matrix; status=0; \
	for server in $(abspath $(DIR))/bin/*; do \
		for dir in . pool/redigo pool/goredis pool/rueidis pool/valkey; do \
			log=.cache/matrix/$${server##*/}-$$(echo $$dir | tr / -).log; \
			if REDIS_SERVER=$$server go test -count=1 -timeout 5m ./$$dir >$$log 2>&1; then r=ok; \
			else r="$$(grep -c -- '--- FAIL' $$log) failed, see $$log"; status=1; fi; \
			printf '%-10s %-14s %s\n' "$${server##*/}" "$$dir" "$$r"; \
		done; \
	done; exit $$status

observe: ## rewrite the run that docs/observability.md shows
	@mkdir -p .cache
	go run ./redlockotel/example -print -buckets=false > .cache/observe.txt
	@awk '/^<!-- run:end/ { skip = 0 } !skip { print } /^<!-- run:begin/ { skip = 1; print "```"; \
		while ((getline line < ".cache/observe.txt") > 0) print line; print "```" }' \
		docs/observability.md > .cache/observability.md
	@cp .cache/observability.md docs/observability.md

bench: setup ## the comparison with other libraries, on real servers
	cd bench && go run . -json ../.cache/bench.json -svg ../docs/bench.svg -markdown ../docs/benchmarks.md $(BENCH)

# One at a time: that is all that go test -fuzz takes.
fuzz: setup ## each fuzz target for FUZZTIME (60s)
	@mkdir -p .cache; set -e; grep -rh --include='*_test.go' -H '^func Fuzz' . | \
	sed -E 's|^(.*)/[^/]+:func (Fuzz[A-Za-z0-9_]*).*|\1 \2|' | sort -u | \
	while read -r dir name; do \
		echo "$$dir $$name"; tries=3; \
		until go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(FUZZTIME) "$$dir" 2>&1 | tee .cache/fuzz.log; grep -q '^ok' .cache/fuzz.log; do \
			tries=$$((tries - 1)); \
			{ [ $$tries -gt 0 ] && grep -q 'context deadline exceeded' .cache/fuzz.log && ! grep -q 'Failing input' .cache/fuzz.log; } || exit 1; \
			echo "again: Go before 1.27 may end with that when the time is up (go.dev/issue/75804)"; \
		done; \
	done

demo: ## locks, faults and recoveries to watch, without any server
	go run ./cmd/redlock demo

cover: setup ## coverage of the core, and what no test reaches
	@mkdir -p .cache
	go test -coverprofile=.cache/cover.out -coverpkg=$(MODULE),$(MODULE)/pool/...,$(MODULE)/redlocktest ./...
	@.ci/uncovered .cache/cover.out

fmt: $(BIN)/gofumpt ## format all Go code
	$(BIN)/gofumpt -w .

# A workspace takes no other go.mod, hence GOWORK=off.
$(BIN)/staticcheck: PACKAGE = honnef.co/go/tools/cmd/staticcheck
$(BIN)/gofumpt: PACKAGE = mvdan.cc/gofumpt
$(BIN)/govulncheck: PACKAGE = golang.org/x/vuln/cmd/govulncheck
$(BIN)/staticcheck $(BIN)/gofumpt $(BIN)/govulncheck: tools.mod tools.sum
	GOWORK=off go build -modfile=tools.mod -o $@ $(PACKAGE)

# Of its own, for it would choose the versions of the others.
$(BIN)/golangci-lint: lint.mod lint.sum
	GOWORK=off go build -modfile=lint.mod -o $@ github.com/golangci/golangci-lint/v2/cmd/golangci-lint
