"""A typed signature through DSPy against a genuine llama.cpp server."""

import json
from pathlib import Path

import pytest

from tests import environments
from tests.bridges.dspy.test_compile import HERE, settings
from tests.llama import KEY, serving
from tests.prerequisites import LLAMA

pytestmark = [
    pytest.mark.dspy,
    pytest.mark.real_server,
    LLAMA.mark,
]


def test_random_weights_fill_a_typed_signature_under_either_adapter(tmp_path: Path) -> None:
    environment = environments.needs("dspy")
    with serving("random") as url:
        env = settings(tmp_path, NO_PROXY="127.0.0.1", no_proxy="127.0.0.1")
        ran = environment.run(HERE / "typed.py", url, KEY, env=env, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert [one["adapter"] for one in told] == ["json", "taofold"]
    for one in told:
        # Random weights produce readable output only if decoding follows the schema.
        assert one["error"] == "", one
        assert one["answer"]["tool"] in ("add", "finish")
        assert isinstance(one["answer"]["risky"], bool)
        assert one["tokens"] > 0
        assert one["model"] == 1
        assert not one["litellm"]
