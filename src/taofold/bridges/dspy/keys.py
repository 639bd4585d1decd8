"""The keys of `reason.dspy.*`, and those of `settings.dspy` that stand in for them."""

from typing import Annotated, Any, Literal

from pydantic import Field

from taofold.actions.kind import Asking, Keys, Text
from taofold.actions.reason_keys import Count
from taofold.bridges.dspy.native import STEPS

Values = dict[str, Any]


class Common(Asking):
    """What every use of a program has."""

    signature: str = "question -> answer"
    instructions: str = ""
    inputs: Values | None = None
    """The input fields by name; one alone may be given as text instead."""
    compiled_key: str = ""
    """Use the program that was compiled or imported under this name."""
    program: Any = None
    """Use this program: what `reason.dspy.export` gave."""
    enabled: bool = True
    """False: never through DSPy, even where it is installed."""


class CotKeys(Common):
    """Of `reason.dspy.cot`."""

    problem: Text = ""
    module_type: Literal["cot", "predict"] = "cot"
    adapter: Literal["taofold", "json", "chat"] = "taofold"


class ReactKeys(Common):
    """Of `reason.dspy.react`."""

    goal: Text = ""
    tools: list[str] | None = None
    max_steps: Count = STEPS


class CompileKeys(Keys):
    """Of `reason.dspy.compile` and `.optimize`."""

    signature: str = "question -> answer"
    instructions: str = ""
    module_type: Literal["predict", "cot", "react"] = "cot"
    training_data: list[Values] = []
    validation_data: list[Values] = []
    metric: str = "exact_match"
    """exact_match, presence, or module:function."""
    teleprompter: str = "BootstrapFewShot"
    """One of DSPy's, or module:Class."""
    options: Values = {}
    """Of the teleprompter."""
    compiled_key: str = ""
    """The name it is kept under; the node's, if nothing is said."""
    score: bool = False
    """Score the program before and after, which costs calls; `reason.dspy.optimize` always does."""
    tools: list[str] | None = None
    max_steps: Count = STEPS
    enabled: bool = True
    model: str = ""
    prompt_model: str = ""
    """The model that writes instructions (MIPROv2, GEPA); `model`, if nothing is said."""
    temperature: Annotated[float, Field(ge=0)] | None = None


class ExportKeys(Keys):
    """Of `reason.dspy.export`."""

    compiled_key: Annotated[str, Field(min_length=1)]


class ImportKeys(Keys):
    """Of `reason.dspy.import`."""

    program: Any
    compiled_key: str = ""


class ListKeys(Keys):
    """Of `reason.dspy.list_compiled`."""
