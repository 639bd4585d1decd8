"""Trains a ticket router with DSPy and runs the saved program on any model.

python examples/dspy/tickets.py teach routing.json --model openai:gpt-5-mini
python examples/dspy/tickets.py ask routing.json "I was charged twice" --model ollama:llama3.2

Only `teach` needs DSPy (`pip install 'taofold[dspy]'`). The file is plain JSON with a version.
"""

import argparse
import asyncio
import json
import sys
from pathlib import Path

from taofold.bridges import dspy

TICKET = dspy.signature(
    "ticket -> team: Literal['billing', 'technical', 'sales']",
    "Route the ticket to the team that can close it.",
)
CASES = [
    {"ticket": "My card was charged twice in May.", "team": "billing"},
    {"ticket": "The app closes when I open the map.", "team": "technical"},
    {"ticket": "What would forty seats cost us?", "team": "sales"},
    {"ticket": "Please send the invoice to our new address.", "team": "billing"},
    {"ticket": "Export to CSV leaves out the last column.", "team": "technical"},
    {"ticket": "Is there a discount for schools?", "team": "sales"},
]
UNSEEN = [
    {"ticket": "I want my money back for the unused month.", "team": "billing"},
    {"ticket": "Login fails with error 403 since this morning.", "team": "technical"},
    {"ticket": "We would like a demo of the enterprise plan.", "team": "sales"},
]


def teach(file: Path, model: str) -> str:
    """Compile and write the program."""
    made = asyncio.run(
        dspy.optimize(
            TICKET, CASES, validation=UNSEEN, model=model, teleprompter="MIPROv2",
            teleprompter_options={"num_candidates": 4, "num_trials": 6, "minibatch": False},
        )
    )  # fmt: skip
    file.write_text(json.dumps(made.program.export(), indent=2))
    return f"version {made.program.version}, scores {dict(made.scores)}: {file}"


def ask(file: Path, ticket: str, model: str) -> str:
    """Runs the program in the file. DSPy need not be installed."""
    program = dspy.imported(file.read_text())
    said = asyncio.run(dspy.cot(ticket, program=program, model=model))
    return str(said.answer) if said.success else f"no answer: {said.error}"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=("teach", "ask"))
    parser.add_argument("file", type=Path)
    parser.add_argument("ticket", nargs="?", default="I was charged twice for May")
    parser.add_argument("--model", default="openai:gpt-5-mini")
    given = parser.parse_args()
    if given.verb == "teach":
        said = teach(given.file, given.model)
    else:
        said = ask(given.file, given.ticket, given.model)
    sys.stdout.write(f"{said}\n")


if __name__ == "__main__":
    main()
