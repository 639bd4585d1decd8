"""In DSPy's environment: typed signatures against a real llama.cpp server with random weights."""

import asyncio
import json
import sys
from typing import Any

from taofold.bridges import dspy
from taofold.core.values import Profile
from taofold.models.transport import aclose_all
from taofold.runtime.providers import resolve

TYPED = "question -> tool: Literal['add', 'finish'], risky: bool"


async def main(url: str, key: str) -> list[Any]:
    profile = Profile(window=16384, window_known=True, json_schema=True)
    model = resolve("openai-compatible:random", base_url=url, api_key=key, profile=profile)
    told: list[Any] = []
    for adapter in ("json", "taofold"):
        said = await dspy.cot("Is it safe?", signature=TYPED, module="predict", model=model,
                              adapter=adapter, temperature=1.0, max_tokens=400)  # fmt: skip
        told.append({"adapter": adapter, "answer": said.answer, "error": said.error,
                     "tokens": said.run.usage.output_tokens, "model": said.run.state.model_calls,
                     "litellm": "litellm.main" in sys.modules})  # fmt: skip
    await aclose_all()
    return told


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(*sys.argv[1:]))))
