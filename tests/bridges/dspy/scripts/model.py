"""A model for tests of compiling: it answers in digits only when its prompt teaches it to."""

import json
import re

GOOD = "Add the two numbers. Answer with digits only."


def say(request):
    messages = request.conversation
    system, last = messages[0].content, messages[-1].content
    whole = system + last
    if request.role == "critic":
        return proposal(whole)
    numbers = re.findall(r"(\d+) \+ (\d+)", last)[-1]
    total = str(sum(map(int, numbers)))
    # The instructions, or two worked cases with answers in digits, teach the model.
    shown = [m.content for m in messages[1:-1] if m.role == "assistant"]
    taught = "digits only" in system or len([s for s in shown if '"reasoning"' in s]) >= 2
    # Small numbers are correct without teaching, so bootstrapping has cases.
    small = int(total) < 12
    answer = total if taught or small else f"The sum is {total}."
    return json.dumps({"reasoning": "I add them.", "answer": answer})


def proposal(whole):
    if "new_instruction" in whole:
        return json.dumps({"new_instruction": GOOD})
    names = re.findall(r"(\w+): string", whole.rsplit("nothing before or after it", 1)[-1])
    said = {name: f"a {name}" for name in names}
    if "proposed_instruction" in said:
        said["proposed_instruction"] = GOOD
    return json.dumps(said)


CASES = [{"question": f"{i} + {i + 1}", "answer": str(2 * i + 1)} for i in range(12)]


class Custom:
    """Somebody's own teleprompter: it sets the instructions it is made with."""

    def __init__(self, metric, instructions):
        self.metric, self.instructions = metric, instructions

    def compile(self, student, *, trainset):
        for predictor in student.predictors():
            predictor.signature = predictor.signature.with_instructions(self.instructions)
        assert self.metric(trainset[0], trainset[0]) == 1.0
        return student
