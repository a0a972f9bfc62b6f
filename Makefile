# `make demo` and `make test` are all a newcomer needs; both set up first, once.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
PIP = .venv/bin/python -m pip --disable-pip-version-check install -qq --no-input
# Modules are compiled once and kept, whatever the shell says: vLLM's take longer to compile than to run.
export PYTHONDONTWRITEBYTECODE =
SAMPLE = magistrate/sample/dialogues.jsonl

.PHONY: setup model demo demo-ray demo-server test stress lint figures clean

setup: .venv/.ready

# PyTorch and the rest are fetched side by side. The rest goes in without following its dependencies; see requirements/cpu.txt.
.venv/.ready: pyproject.toml requirements/torch.txt requirements/cpu.txt requirements/dev.txt
	@echo "Setting up .venv: a few minutes the first time"
	@$(PYTHON) -m venv .venv
	@$(PIP) --no-compile -r requirements/torch.txt & torch=$$!; \
	  $(PIP) --no-compile --no-deps -r requirements/cpu.txt -r requirements/dev.txt && wait $$torch
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

# The judge is in the repository but for its base, which is fetched once.
model: setup
	@.venv/bin/magistrate models fetch magistrate-135m >/dev/null

demo: model
	@.venv/bin/magistrate score $(SAMPLE) --judge llm-eval --output demo-verdicts.jsonl --overwrite

# A Ray cluster of three nodes on this machine, one of which is killed on the way.
demo-ray: model
	@.venv/bin/python scripts/demo_ray.py

demo-server: model
	@.venv/bin/python scripts/demo_server.py

# Two at a time, a file's tests together, in the groups and the order that tests/conftest.py gives them. PyTorch's threads wait by
# spinning: with two for each of two tests, two cores do little else.
test: setup
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -n 2 --dist loadfile --durations=15

stress: setup
	OMP_NUM_THREADS=1 .venv/bin/python -m pytest -m stress

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

# How large and how tangled the code is; `ARGS=--list` names what is counted.
figures: setup
	@.venv/bin/python scripts/figures.py $(ARGS)

clean:
	rm -rf .venv build *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis demo-verdicts*
