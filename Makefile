# Every target sets up its own virtual environment (.venv) on first use.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH ?= 2.13.0

.PHONY: demo fuzz test test-long test-torch test-spark test-r check-r r-parts r-docs formalities release test-lowest test-newest test-next screenshots system-parts lint package sbom \
	coverage mutation published shipped-study bench commands limits compare docs clean

$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' \
		|| { echo "allbutone needs Python 3.11 to 3.14; found $$($(PYTHON) --version). Try: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null \
		|| { echo "Installing python3-venv from Debian"; apt-get update -qq && apt-get install -y -qq python3-venv; } \
		|| { echo "Python's venv module is missing. Run: sudo apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check --upgrade 'pip>=25.1'
	@touch $@

$(VENV)/core: $(VENV)/made pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check -e .
	@touch $@

$(VENV)/dev: $(VENV)/core
	$(BIN)/pip install -q --disable-pip-version-check -e '.[dp,excel,spss-sas-stata,duckdb,dask,postgresql]' --group dev
	@touch $@

$(VENV)/docs: $(VENV)/core
	$(BIN)/pip install -q --disable-pip-version-check --group docs
	@touch $@

$(VENV)/fuzz: $(VENV)/dev
	$(BIN)/pip install -q --disable-pip-version-check --group fuzz
	@touch $@

$(VENV)/torch: $(VENV)/dev
	$(BIN)/pip install -q --disable-pip-version-check torch==$(TORCH)
	@touch $@

$(VENV)/spark: $(VENV)/dev
	$(BIN)/pip install -q --disable-pip-version-check -e '.[spark]'
	@touch $@

demo: $(VENV)/core ## Synthesize a simulated cohort into ./demo and show what that gives away
	$(BIN)/allbutone demo --out demo --force
	@echo
	@echo "What is asked first, of all 503 people, before anything is drawn: how much may be released?"
	$(BIN)/allbutone budget demo/cohort.csv --out demo-budget.csv --force
	@echo
	@echo "Nothing, because of row 212. So a board left that person out; this is the case for or against what was drawn of the 502 others:"
	$(BIN)/allbutone report demo/others.csv demo/release --out demo-report.html --force

test: $(VENV)/dev system-parts ## Run the tests
	$(BIN)/pytest

system-parts: ## Install what some tests need from Debian, where that is possible; else those tests are left out
	@command -v chromium >/dev/null \
		|| { echo "Installing chromium from Debian for the browser tests"; apt-get update -qq && apt-get install -y -qq chromium >/dev/null; } \
		|| echo "chromium is missing and could not be installed (try: sudo apt-get install chromium); the browser tests are left out"
	@command -v postgres >/dev/null || ls /usr/lib/postgresql/*/bin/postgres >/dev/null 2>&1 \
		|| { echo "Installing postgresql from Debian for the tests of databases"; apt-get update -qq && apt-get install -y -qq postgresql >/dev/null; } \
		|| echo "postgresql is missing and could not be installed (try: sudo apt-get install postgresql); the tests of databases are left out"

test-long: $(VENV)/dev system-parts ## Run all tests with all their cases, such as 2,000 simulations a calibration; an hour or more
	ALLBUTONE_TEST_LONG=1 $(BIN)/pytest

# What tells whether the parts that a version of a dependency can break still work: numbers, files, commands, pages, figures
CORE_TESTS := $(foreach name,niw moments modes records file_formats release risk hygiene hygiene_values \
	plots_records report_mixed app_server what_loads,$(wildcard tests/*/test_$(name).py))
EXTRAS := excel,spss-sas-stata,duckdb,dp

test-lowest: $(VENV)/made ## Run the core tests on the lowest versions of all dependencies that pyproject.toml allows
	rm -rf build/lowest && mkdir -p build
	$(PYTHON) -m venv build/lowest && build/lowest/bin/pip install -q --upgrade 'pip>=25.1'
	$(BIN)/python checks/lowest.py >build/lowest.txt
	build/lowest/bin/pip install -q -c build/lowest.txt -e '.[$(EXTRAS)]' --group test
	build/lowest/bin/python -m pytest -W default $(CORE_TESTS)  # old libraries may warn

test-newest: $(VENV)/made ## Run the core tests on the newest versions of all dependencies, whatever .venv has
	rm -rf build/newest && mkdir -p build
	$(PYTHON) -m venv build/newest && build/newest/bin/pip install -q --upgrade 'pip>=25.1'
	build/newest/bin/pip install -q --upgrade --upgrade-strategy eager -e '.[$(EXTRAS)]' --group test
	build/newest/bin/python -m pytest $(CORE_TESTS)

# The Python of Debian's next version, in a folder that is a system of its own: the machine's own libraries stay as they are
NEXT := build/next
NEXT_PYTHON := python3.14

$(NEXT)/usr/bin/$(NEXT_PYTHON):
	@command -v debootstrap >/dev/null || apt-get install -y -qq debootstrap >/dev/null \
		|| { echo "debootstrap is missing and could not be installed. Run: sudo apt-get install debootstrap"; exit 1; }
	mkdir -p build && debootstrap --variant=minbase --include=ca-certificates,$(NEXT_PYTHON),$(NEXT_PYTHON)-venv \
		forky $(NEXT) http://deb.debian.org/debian /usr/share/debootstrap/scripts/sid >build/next.log || { tail -5 build/next.log; exit 1; }

test-next: $(NEXT)/usr/bin/$(NEXT_PYTHON) ## Run the core tests on the Python of Debian's next version, 3.14, in build/next (as root)
	rm -rf $(NEXT)/root/tree && mkdir -p $(NEXT)/root/tree && git ls-files | tar -c -T - | tar -x -C $(NEXT)/root/tree
	cp /etc/resolv.conf $(NEXT)/etc/ && cp /etc/ssl/certs/ca-certificates.crt $(NEXT)/etc/ssl/certs/  # those of a proxy, too
	unshare --pid --fork --mount-proc=$(abspath $(NEXT))/proc chroot $(NEXT) env -i HOME=/root PATH=/usr/bin:/bin LANG=C.UTF-8 CI=$(CI) sh -ec '\
		cd /root/tree && $(NEXT_PYTHON) -m venv /root/venv && /root/venv/bin/pip install -q --upgrade "pip>=25.1" \
		&& /root/venv/bin/pip install -q -e ".[$(EXTRAS)]" --group test && /root/venv/bin/python -m pytest $(CORE_TESTS)'

test-torch: $(VENV)/torch ## Run the tests that need PyTorch
	ALLBUTONE_TEST_TORCH=1 $(BIN)/pytest tests -k torch

test-spark: $(VENV)/spark ## Run the tests of tables in Spark, on a local master; installs Debian's headless Java where it is missing
	@command -v java >/dev/null || [ -x "$$JAVA_HOME/bin/java" ] \
		|| { echo "Installing Java from Debian for Spark"; apt-get update -qq && apt-get install -y -qq default-jre-headless >/dev/null; } \
		|| { echo "Java is missing and could not be installed. Run: sudo apt-get install default-jre-headless"; exit 1; }
	ALLBUTONE_TEST_SPARK=1 $(BIN)/pytest tests/tables/test_spark.py tests/tables/test_engines.py tests/disclosure/test_engine_mixed.py tests/disclosure/test_standing_out.py -k spark -n 0

# The R package in r/: Debian's R, and the Python of .venv behind it
R_PARTS := r-base-core r-cran-reticulate r-cran-testthat r-cran-tibble r-cran-haven r-cran-knitr r-cran-rmarkdown
R_PYTHON := RETICULATE_PYTHON=$(CURDIR)/$(BIN)/python R_LIBS=$(CURDIR)/build/r/library

r-parts: ## Install R and what the R package needs from Debian, where R or reticulate is missing
	@Rscript -e 'for (name in c("reticulate", "testthat", "tibble", "haven")) loadNamespace(name)' >/dev/null 2>&1 \
		|| { echo "Installing R and its packages from Debian"; apt-get update -qq && apt-get install -y -qq --no-install-recommends $(R_PARTS) >/dev/null; } \
		|| { echo "R is missing and could not be installed. Run: sudo apt-get install $(R_PARTS)"; exit 1; }

.PHONY: build/r/library
build/r/library: r-parts
	rm -rf build/r && mkdir -p build/r/library
	R CMD INSTALL --library=build/r/library r >build/r/install.log 2>&1 || { cat build/r/install.log; exit 1; }

test-r: $(VENV)/core build/r/library ## Run the tests of the R package: a real session from a data frame to a report
	cd r/tests && $(R_PYTHON) ALLBUTONE_R_MUST_RUN=1 Rscript testthat.R

check-r: $(VENV)/core build/r/library ## Run R CMD check on the R package, its vignette built
	cd build/r && $(R_PYTHON) R CMD build $(CURDIR)/r && _R_CHECK_CRAN_INCOMING_=FALSE $(R_PYTHON) R CMD check --no-manual allbutone_*.tar.gz

r-docs: r-parts ## Write the manual pages of the R package from its comments (needs roxygen2)
	cd r && Rscript -e 'roxygen2::roxygenise(load_code = "source")'

screenshots: $(VENV)/dev system-parts ## Take pictures of the app's pages, and of figures, into docs/
	ALLBUTONE_TEST_LONG=1 ALLBUTONE_SCREENSHOTS=docs $(BIN)/pytest tests/app/test_app_screens.py -n 0
	$(BIN)/python docs/figures.py

lint: $(VENV)/dev ## Style of Python and JavaScript, types and the import contract
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/oxlint --deny-warnings src/allbutone/app/static

# What is given out: built, looked at, and installed into an environment that has nothing else
FRESH := build/fresh/bin

$(VENV)/package: $(VENV)/made pyproject.toml
	$(BIN)/pip install -q --disable-pip-version-check --group package
	@touch $@

package: $(VENV)/package ## Build sdist and wheel into build/dist, check them, and try the wheel in an empty environment
	rm -rf build/dist build/fresh && mkdir -p build
	$(BIN)/python -m build --outdir build/dist . >build/build.log 2>&1 || { cat build/build.log; exit 1; }
	$(BIN)/check-wheel-contents build/dist/*.whl
	$(PYTHON) -m venv build/fresh
	$(FRESH)/pip install -q --disable-pip-version-check --no-compile build/dist/*.whl
	$(FRESH)/python checks/smoke.py
	$(FRESH)/python checks/licences.py >build/licences.md
	cd build && PATH=$(CURDIR)/$(FRESH):$$PATH $(CURDIR)/$(BIN)/basedpyright --verifytypes allbutone --ignoreexternal >types.log \
		|| { tail -40 types.log; exit 1; }

sbom: package $(VENV)/dev ## Write what the base install holds (build/sbom.json, CycloneDX) and all licences, of the extras and tools, too
	$(BIN)/pip install -q --disable-pip-version-check --group sbom
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible -o build/sbom.json $(FRESH)/python
	-$(BIN)/python checks/licences.py >build/licences-all.md
	@echo "Written: build/sbom.json, build/licences.md (base install), build/licences-all.md (extras and tools, too)"

# Linters of what only others can build: the image, conda's recipe, the citation. Apart: their needs are at odds with others'
LINTERS := build/linters/bin

formalities: $(VENV)/made ## Look at Containerfile, conda/recipe.yaml and CITATION.cff with the linters of each
	rm -rf build/linters && mkdir -p build
	$(PYTHON) -m venv build/linters && $(LINTERS)/pip install -q --upgrade 'pip>=25.1'
	$(LINTERS)/pip install -q --group linters
	$(LINTERS)/hadolint Containerfile
	$(LINTERS)/cffconvert --validate --infile CITATION.cff
	$(LINTERS)/python checks/recipe.py conda/recipe.yaml

release: package sbom check-r docs formalities ## Build, check and sign off a version into build/release: all but the upload (docs/releasing.md)
	rm -rf build/release && mkdir -p build/release
	cp build/dist/* build/r/allbutone_*.tar.gz build/sbom.json build/licences.md CITATION.cff LICENSE build/release/
	$(BIN)/python checks/release.py build/release

# The tests of model, adversary and disclosure themselves, without browsers, databases and clusters
NUMERICAL_TESTS := $(foreach name,adversary alone any_model audit augmentation batches_and_devices both_released bound_laws budget_law categories \
	category_storage climb_laws composition engine_mixed entropy exposure_by_hand exposure_law flat_prior gap_patterns grown_table guarantee \
	guarantee_plan inputs lacking lacking_everywhere leave_one_out long_datasets mass mixed mixed_budget mixed_refusals \
	mixed_release mixed_size modes modes_laws moments moments_by_hand niw niw_by_hand posterior prior_file privacy_loss private refused_risks regression risk \
	rounding rule several_missing several_releases simulated_releases sites standing_out streamed_risk torture with_gaps,$(wildcard tests/*/test_$(name).py))

coverage: $(VENV)/dev ## Measure what the numerical core's own tests run; fails below 95 % (statements and branches) of any floor
	$(BIN)/pip install -q --disable-pip-version-check --group coverage
	mkdir -p build
	$(BIN)/pytest -k 'not dask and not postgres' --cov --cov-report=term --cov-report=json:build/coverage.json $(NUMERICAL_TESTS)
	$(BIN)/python checks/branches.py build/coverage.json

mutation: $(VENV)/dev ## Change the numerical core in one place at a time: does a test notice? MUTATION="--sample 100"; all: hours
	$(BIN)/python -m checks.mutation $(MUTATION)

published: $(VENV)/dev ## Run the causes of the differences from the published tables, alone and together (docs/differences.md); 20 core-minutes
	$(BIN)/python -m replication causes
	$(BIN)/python -m replication page >docs/explained.md
	$(BIN)/python -m replication ks

shipped-study: $(VENV)/core ## Run the part of the paper's study that the package brings along (src/allbutone/paper/shipped); after a new version
	$(BIN)/python -m replication study

compare: $(VENV)/dev ## Set other tools beside this one on the same tables, each in an environment of its own; writes docs/records/compare.md and compare-ten.md
	TORCH=$(TORCH) $(BIN)/python -m comparison
	TORCH=$(TORCH) $(BIN)/python -m comparison.likeness
	TORCH=$(TORCH) $(BIN)/python -m comparison.ten

fuzz: $(VENV)/fuzz ## Run spoiled inputs against everything that reads: FUZZ="--inputs 100000 --seconds 3600"
	$(BIN)/python -m fuzz $(FUZZ)

bench: $(VENV)/dev ## Measure everything beside what it is compared with and write docs/records/benchmarks.md; needs an idle machine
	$(BIN)/python -m benchmarks

commands: $(VENV)/core ## Write docs/commands.md from the commands
	$(BIN)/python docs/commands_page.py

limits: ## Write the table of docs/limits.md from what the tests run of every kind of table
	$(PYTHON) docs/limits_page.py

docs: $(VENV)/docs system-parts ## Build the documentation's site into build/docs; it reads offline
	$(BIN)/python -m sphinx -q -W --keep-going docs build/docs
	$(BIN)/python checks/site.py build/docs
	@echo "Open build/docs/index.html"

clean:
	rm -rf $(VENV) build docs/generated demo demo-report.html .pytest_cache .mypy_cache .ruff_cache .hypothesis
