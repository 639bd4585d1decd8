"""DSPy: programs compiled with its teleprompters through our models, and run with or without it.

    from taofold.bridges import dspy

    made = await dspy.compile("question -> answer: int", cases, model="openai:gpt-5")
    said = await dspy.cot("2 + 3", program=made.program, model="openai:gpt-5")

DSPy itself (`pip install 'taofold[dspy]'`) is imported when something is compiled or run by it.
"""

from taofold.bridges.dspy.calls import (
    Compilation,
    compile,  # noqa: A004 - DSPy's word
    cot,
    list_compiled,
    optimize,
    react,
)
from taofold.bridges.dspy.compilation import Compile
from taofold.bridges.dspy.program import Predictor, Program, from_dspy, imported
from taofold.bridges.dspy.signature import Signature, Slot, signature
from taofold.bridges.dspy.strategies import Compiled, Through, program_strategy

__all__ = [
    "Compilation",
    "Compile",
    "Compiled",
    "Predictor",
    "Program",
    "Signature",
    "Slot",
    "Through",
    "compile",
    "cot",
    "from_dspy",
    "imported",
    "list_compiled",
    "optimize",
    "program_strategy",
    "react",
    "signature",
]
