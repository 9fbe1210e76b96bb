# Needs python3 (3.11 or newer) and make; everything else goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
DOCS_STAMP := .venv/.installed-docs
PIP_FLAGS := --quiet --disable-pip-version-check

.DEFAULT_GOAL := help
.PHONY: help demo test docs format lock clean
.DELETE_ON_ERROR:

help:
	@echo 'make demo    prune a network on the handwritten digits to half of its MACs; results in runs/demo'
	@echo 'make test    format, lint, types, tests'
	@echo 'make docs    build the documentation as a site: site/index.html'
	@echo 'make format  format the code and fix what the linter can fix'
	@echo 'make lock    write requirements.lock and requirements-docs.lock anew from pyproject.toml'
	@echo 'make clean   remove .venv, caches, builds and the site (runs/ stays)'

demo: $(STAMP)
	$(BIN)/tas prune --out runs/demo

test: $(STAMP)
	$(BIN)/ruff format --check
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/pytest -n 2 --dist worksteal

# strict: a link that leads nowhere, a public name without a docstring and any other warning fail
docs: $(DOCS_STAMP)
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict
	@echo 'site/index.html (with its search: $(BIN)/mkdocs serve)'

format: $(STAMP)
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

# The stamp is made last and removed first: without it .venv is new or half-made and is built afresh,
# with it only what changed is installed.
$(STAMP): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'error: $(PYTHON) is missing or older than Python 3.11; try make PYTHON=/path/to/python3.11' >&2; exit 1; }
	@if [ -e $(STAMP) ] && $(BIN)/python -m pip --version >/dev/null 2>&1; then rm $(STAMP); \
	  else echo 'Installing into .venv (a few minutes, once) ...'; $(PYTHON) -m venv --clear .venv; fi
	@$(BIN)/python -m pip install $(PIP_FLAGS) -r requirements.lock
	@$(BIN)/python -m pip install $(PIP_FLAGS) --no-deps --no-build-isolation -e .
	@touch $(STAMP)

$(DOCS_STAMP): $(STAMP) requirements-docs.lock
	@$(BIN)/python -m pip install $(PIP_FLAGS) --constraint requirements.lock -r requirements-docs.lock
	@touch $(DOCS_STAMP)

# torch is asked for by its exact version: a range may choose another build of it. Its CUDA packages
# stay out of the lock, because whether they are needed depends on the machine; pip adds them there.
TORCH := torch==2.13.0
lock:
	@set -e; env=$$(mktemp -d); trap 'rm -rf "$$env"' EXIT; \
	$(PYTHON) -m venv "$$env"; \
	"$$env/bin/python" -m pip install $(PIP_FLAGS) '$(TORCH)' '.[dev]'; \
	"$$env/bin/python" -m pip freeze --all --exclude pip --exclude transformable > "$$env/frozen"; \
	{ echo '# Exact versions of all that "make demo" and "make test" need. Written by "make lock": a fresh'; \
	  echo '# environment with $(TORCH) and this package with its extra "dev", frozen.'; \
	  grep -viE '^(cuda|nvidia|triton)' "$$env/frozen" | sed -E 's/\+[a-z0-9.]+$$//'; } > requirements.lock; \
	"$$env/bin/python" -m pip install $(PIP_FLAGS) --constraint "$$env/frozen" '.[docs]'; \
	"$$env/bin/python" -m pip freeze --all --exclude pip --exclude transformable > "$$env/with-docs"; \
	{ echo '# Exact versions of what "make docs" needs besides requirements.lock. Written by "make lock".'; \
	  grep -vxF -f "$$env/frozen" "$$env/with-docs"; } > requirements-docs.lock

clean:
	rm -rf .venv build dist site src/*.egg-info .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find src tests -name __pycache__ -prune -exec rm -rf {} +
