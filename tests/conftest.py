"""What all tests share: a fixed hypothesis profile, so that a test says the same on every machine and every day.

`pytest --hypothesis-profile=explore` looks further, from a new seed; a failure prints the seed and how to use it again.
"""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

BENCH = Path(__file__).parents[1] / "bench"

settings.register_profile("fixed", derandomize=True, deadline=None, print_blob=True)
settings.register_profile("explore", max_examples=2000, deadline=None, print_blob=True)
settings.load_profile("fixed")


@pytest.fixture
def bench_modules(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The modules of `bench/`, which no package holds, can be imported, and nobody else finds them afterwards."""
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [str(BENCH), *sys.path])
    yield
    for name in set(sys.modules) - before:
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(BENCH)):
            del sys.modules[name]
