# make demo | test | test-random | test-onnx | test-torch | lint | docs | docs-versions | notebooks | bench | bench-dynamic | bench-models | fuzz. Each makes .venv and installs what it needs; the second time that takes no time.
#
#   make test XGBOOST=xgboost-cpu     700 MB less on the disk: the same module without the CUDA library (see README.md)
#   make test PYTHON=python3.12 JOBS=8 ARGS="-k matmul"
#   make test-random SEED=7                   the tests in another order; the seed is the time where none is given, and is printed
#   make test-onnx ARGS="reduce_sum"         onnx's own backend tests, those whose names match; without ARGS all
#   make test-torch ARGS="--cap 2"           torch's own samples of its operators on engines; goes on where it was stopped
#   make bench ARGS="--quick"                 beside numpy, torch, onnxruntime, JAX …: two minutes instead of twenty
#   make bench-dynamic ARGS="--suite P8 --quick"          kernels of every shape beside other ways to serve shapes

PYTHON  ?= python3
XGBOOST ?= xgboost
JOBS    ?= 2
ROUNDS  ?= 2000
SEED    ?= $(shell date +%s)
ARGS    ?=

VENV := .venv
BIN  := $(VENV)/bin
PIP  := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: demo test test-random test-onnx test-torch lint docs docs-versions notebooks bench bench-dynamic bench-models fuzz clean
.DELETE_ON_ERROR:

demo: $(VENV)/installed-demo
	$(BIN)/python -m tutorials.demo $(ARGS)

test: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-random: $(VENV)/installed-dev
	$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --random-order $(SEED) $(ARGS)

test-onnx: $(VENV)/installed-dev
	$(BIN)/python -m tests.frontends.rig -j $(JOBS) $(ARGS)

test-torch: $(VENV)/installed-torch-tests
	$(BIN)/python -m tests.frontends.torch.opinfo $(ARGS)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell

docs: $(VENV)/installed-docs
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build
	@echo "the site is in docs/_build/index.html"

docs-versions: $(VENV)/installed-docs
	$(BIN)/python -m docs.versions

notebooks: $(VENV)/installed-tutorials
	$(BIN)/python -m tutorials.notebooks $(ARGS)

bench: $(VENV)/installed-bench
	$(BIN)/python -m benchmarks.run $(ARGS)

bench-dynamic: $(VENV)/installed-bench
	$(BIN)/python -m benchmarks.dynamic $(ARGS)

bench-models: $(VENV)/installed-bench
	$(BIN)/python -m benchmarks.models.fetch
	$(BIN)/python -m benchmarks.models $(ARGS)

fuzz: $(VENV)/installed-dev
	TENSORLANG_FUZZ_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest -n $(JOBS) -m fuzz $(ARGS)

$(VENV)/bin/python:
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and \"Python 3.11 or newer is needed, this is \" + sys.version)"
	$(PYTHON) -m venv $(VENV)

# A stamp for each set of extras, remade when the requirements change. The order-only venv is not remade when its time stamp moves.
$(VENV)/installed-%: pyproject.toml .ci/requirements.py | $(VENV)/bin/python
	$(BIN)/python .ci/requirements.py $* --xgboost $(XGBOOST) > $(VENV)/requirements-$*.txt
	$(PIP) install -q -r $(VENV)/requirements-$*.txt
	$(PIP) install -q --no-deps -e .
	touch $@

clean:
	rm -rf $(VENV) docs/made docs/_build docs/jupyter_execute build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
