"""How much is done: `JOBS` and `KILLS` in the environment."""

import os

import pytest

from harness import WINDOW


@pytest.fixture
def jobs():
    return int(os.environ.get("JOBS", "200"))


@pytest.fixture
def kills():
    return int(os.environ.get("KILLS", "3"))


@pytest.fixture
def few_jobs():
    """Enough for one kill: what is lost is noticed whatever follows."""
    return 3 * WINDOW
