"""Tags of a feature file are ids of scenarios."""

from collections.abc import Callable
from typing import Any

import pytest


def pytest_bdd_apply_tag(tag: str, function: Callable[..., Any]) -> bool:
    pytest.mark.scenario(tag)(function)
    return True
