"""In DSPy's environment: the same teleprompters, cases, metrics and scripted model, with plain DSPy
and through taofold. Prints demos, instructions, scores and numbers of calls of both."""

import asyncio
import contextlib
import io
import json
import re
from typing import Any

import dspy
from dspy.lm15 import Message, Response, TextPart, Usage, response_to_events

from taofold import Limits
from taofold.bridges import dspy as bridge
from taofold.testing.models import FunctionModel

GOOD = "Add the two numbers. Answer with digits only."
CASES = [{"question": f"{i} + {i + 1}", "answer": str(2 * i + 1)} for i in range(12)]
SIGNATURE = "question -> answer"


def decide(outputs: list[str], system: str, last: str, demos: int) -> dict[str, Any]:
    """Returns the scripted model's answer, independent of its requested form."""
    if "answer" not in outputs:
        return {name: proposal(name, last) for name in outputs}
    left, right = map(int, re.findall(r"(\d+) \+ (\d+)", last)[-1])
    # With the instructions or two demos it answers in digits. Small sums are always correct.
    taught = "digits only" in system or demos >= 2 or left + right < 12
    answer = str(left + right) if taught else f"The sum is {left + right}."
    return {"reasoning": f"I add {left} and {right}.", "answer": answer}


def proposal(name: str, last: str) -> Any:
    if name == "module_advice":
        return {"predict": GOOD, "self": GOOD}
    if "instruction" in name or "rules" in name:
        return GOOD
    return f"a {name}"


def yes_no(gold: Any, pred: Any, trace: Any = None) -> bool:
    return bool(gold.answer == pred.answer)


def graded(gold: Any, pred: Any, trace: Any = None) -> float:
    """Right in digits is worth more than right in words."""
    return 0.9 if gold.answer == pred.answer else 0.4 if gold.answer in pred.answer else 0.0


def strict(gold: Any, pred: Any, trace: Any = None) -> Any:
    """Returns the metric of DSPy's documentation: a grade to compare, a bool to bootstrap."""
    grade = graded(gold, pred)
    return grade if trace is None else grade >= 0.5


def feedback(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None,
             pred_trace: Any = None) -> Any:  # fmt: skip
    right = gold.answer == pred.answer
    return dspy.Prediction(score=float(right), feedback=f"should be {gold.answer}, {pred_name}")


def coarse(gold: Any, pred: Any, trace: Any = None, pred_name: Any = None,
           pred_trace: Any = None) -> float:  # fmt: skip
    return graded(gold, pred)


class Plain:
    """DSPy's engine contract over the scripted model, in the form of its own ChatAdapter."""

    supports_response_schema = True
    supports_function_calling = False

    def __init__(self, log: list[str]) -> None:
        self.log = log

    def __deepcopy__(self, memo: Any) -> "Plain":
        return self

    def complete(self, request: Any) -> Any:
        system = request.system if isinstance(request.system, str) else "".join(
            part.text for part in request.system or ()
        )  # fmt: skip
        last = request.messages[-1].text
        demos = sum(m.role == "assistant" for m in request.messages)
        marks = re.findall(r"\[\[ ## (\w+) ## \]\]", last.rsplit("Respond with", 1)[-1])
        as_json = not marks
        if as_json:
            marks = re.findall(r"`(\w+)`", last.rsplit("Respond with", 1)[-1])
        outputs = [name for name in dict.fromkeys(marks) if name != "completed"]
        said = decide(outputs, system, last, demos)
        self.log.append("task" if "answer" in outputs else "critic")
        said = {name: said[name] for name in outputs}
        text = json.dumps(said) if as_json else "\n\n".join(
            f"[[ ## {k} ## ]]\n{v if isinstance(v, str) else json.dumps(v)}"
            for k, v in said.items()
        )  # fmt: skip
        return Response(
            id=None, model=request.model, message=Message.assistant([TextPart(text)]),
            finish_reason="stop", usage=Usage(input_tokens=1, output_tokens=1),
        )  # fmt: skip

    def stream(self, request: Any) -> Any:
        return response_to_events(self.complete(request))

    def close(self) -> None:
        pass


def ours(log: list[str]) -> Any:
    """The same model for taofold, whose prompts want JSON."""

    def say(request: Any) -> str:
        messages = request.conversation
        system, last = messages[0].content, messages[-1].content
        demos = sum(m.role == "assistant" for m in messages)
        wanted = system.rsplit("nothing before or after it:", 1)[-1]
        outputs = re.findall(r"^\s+\"?(\w+)\"?: ", wanted, re.MULTILINE) or re.findall(
            r"(\w+): ", wanted
        )
        outputs = list(dict.fromkeys(outputs))
        said = decide(outputs, system.rsplit("You are given:", 1)[0], last, demos)
        log.append("task" if "answer" in outputs else "critic")
        return json.dumps({name: said[name] for name in outputs})

    return FunctionModel(say)


FEW = {"max_bootstrapped_demos": 3, "max_labeled_demos": 2}
MIPRO = {**FEW, "auto": None, "num_candidates": 3}
GEPA = {"max_metric_calls": 40, "seed": 0, "track_stats": True}
TRIALS = {"num_trials": 4, "minibatch": False}
ROWS: dict[str, tuple[str, Any, dict[str, Any], dict[str, Any], bool]] = {
    # name: teleprompter, metric, options of its class, of its `compile`, with a validation set
    "bootstrap yes/no": ("BootstrapFewShot", yes_no, FEW, {}, False),
    "bootstrap graded": ("BootstrapFewShot", graded, FEW, {}, False),
    "bootstrap graded, threshold": (
        "BootstrapFewShot", graded, {**FEW, "metric_threshold": 0.5}, {}, False,
    ),
    "bootstrap strict": ("BootstrapFewShot", strict, FEW, {}, False),
    "labeled": ("LabeledFewShot", yes_no, {"k": 3}, {}, False),
    "random search yes/no": (
        "BootstrapFewShotWithRandomSearch", yes_no, {**FEW, "num_candidate_programs": 3}, {}, True,
    ),
    "random search graded": (
        "BootstrapFewShotWithRandomSearch", graded, {**FEW, "num_candidate_programs": 3}, {}, True,
    ),
    "MIPROv2 yes/no": ("MIPROv2", yes_no, MIPRO, TRIALS, True),
    "MIPROv2 graded": ("MIPROv2", graded, {**MIPRO, "metric_threshold": 0.5}, TRIALS, True),
    "GEPA feedback": ("GEPA", feedback, GEPA, {}, True),
    "GEPA graded": ("GEPA", coarse, GEPA, {}, True),
    "COPRO yes/no": ("COPRO", yes_no, {"breadth": 3, "depth": 2}, {}, False),
    "COPRO graded": ("COPRO", graded, {"breadth": 3, "depth": 2}, {}, False),
    "SIMBA graded": (
        "SIMBA", graded, {"bsize": 4, "num_candidates": 2, "max_steps": 2, "max_demos": 2},
        {"seed": 1}, False,
    ),
    "InferRules yes/no": ("InferRules", yes_no, {"num_candidates": 2, **FEW}, {}, True),
}  # fmt: skip


def plain(row: str) -> dict[str, Any]:
    name, metric, options, later, validated = ROWS[row]
    log: list[str] = []
    engine = Plain(log)
    lm = dspy.LM("plain/task", engine=engine, cache=False, num_retries=0)
    critic = dspy.LM("plain/critic", engine=engine, cache=False, num_retries=0)
    cases = [dspy.Example(**case).with_inputs("question") for case in CASES]
    fixed = {"metric": metric, "num_threads": 1, "prompt_model": critic, "task_model": lm,
             "reflection_lm": critic}  # fmt: skip
    made: Any = getattr(dspy, name, None) or getattr(dspy.teleprompt, name)
    takes = made.__init__.__code__.co_varnames
    given = {key: value for key, value in fixed.items() if key in takes}
    if name == "InferRules":
        given["metric"] = metric
    later = {**later, "trainset": cases[::2] if validated else cases}
    if validated:
        later["valset"] = cases[1::2]
    if name == "COPRO":
        later["eval_kwargs"] = {"num_threads": 1}
    if name == "LabeledFewShot":
        given = {}
    with dspy.context(lm=lm, adapter=dspy.ChatAdapter()):
        program = made(**given, **options).compile(dspy.ChainOfThought(SIGNATURE), **later)
    return found(program, log)


def found(program: Any, log: list[str]) -> dict[str, Any]:
    predictor = program.predictors()[0]
    return {
        "demos": [
            {
                key: value
                for key, value in dict(demo).items()
                if key in ("question", "reasoning", "answer")
            }
            for demo in predictor.demos
        ],
        "instructions": predictor.signature.instructions,
        "task": log.count("task"),
        "critic": log.count("critic"),
        "score": score_of(program),
    }


def score_of(program: Any) -> Any:
    """Returns the teleprompter's own score of the chosen program."""
    for one in getattr(program, "candidate_programs", None) or []:
        if isinstance(one, dict):
            return round(float(one["score"]), 2)
    if (score := getattr(program, "score", None)) is not None:
        return round(float(score), 2)
    if (results := getattr(program, "detailed_results", None)) is not None:
        return round(max(results.val_aggregate_scores), 4)
    return None


async def through(row: str) -> dict[str, Any]:
    name, metric, options, later, validated = ROWS[row]
    log: list[str] = []
    made = await bridge.compile(
        SIGNATURE, CASES[::2] if validated else CASES, validation=CASES[1::2] if validated else (),
        model=ours(log), metric=metric, teleprompter=name,
        teleprompter_options={**options, **later}, limits=Limits(steps=None),
    )  # fmt: skip
    predictor = made.program.predictors[0]
    return {
        "demos": list(predictor.demos), "instructions": predictor.signature.instructions,
        "task": log.count("task"), "critic": log.count("critic"),
        "score": made.scores.get("teleprompter"),
    }  # fmt: skip


def main() -> None:
    for row in ROWS:
        with contextlib.redirect_stdout(io.StringIO()):
            alone = plain(row)
        # Standard output is the caller's: what a teleprompter prints through us would break this.
        print(json.dumps({"row": row, "plain": alone, "ours": asyncio.run(through(row))}))


if __name__ == "__main__":
    main()
