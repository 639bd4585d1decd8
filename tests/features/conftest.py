"""Tags of a feature file are ids of scenarios, and of items of the document."""

from collections.abc import Callable
from typing import Any

import pytest


def pytest_bdd_apply_tag(tag: str, function: Callable[..., Any]) -> bool:
    kind = "document_item" if tag[0].isdigit() else "scenario"
    getattr(pytest.mark, kind)(tag)(function)
    return True
