"""Cases from our YAML, from files of pydantic-evals and Inspect, or from a past run.

A case is a goal for the agent, with scorers that judge the answer:

    agent: support.yaml          # optional: else named on the command line
    repeat: 3
    score:                       # for every case
      - judge: The answer is polite.
    cases:
      - goal: What is the capital of Norway?
        expect: Oslo             # the output itself
      - name: figures
        goal: Sum up sales.csv as JSON.
        schema: {total: number}
        contains: [total]
        command: jq -e '.total > 0'

Data sets of pydantic-evals (YAML or JSON) and of Inspect (JSON lines with `input` and `target`) are
read too.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, cast

import msgspec
from pydantic import Field

from taofold.agent import Agent
from taofold.core.errors import ConfigError
from taofold.core.json_values import render
from taofold.core.state import RunState
from taofold.core.text import near
from taofold.evals.scorers import Scorer, command, contains, exact, judge, schema, success
from taofold.files.checked_yaml import Fault, KeyPath, Strict, YamlDocument, check, load, refuse
from taofold.reserved_places import read_named
from taofold.runtime.ratings import Rating

UNSET: Final = msgspec.UNSET
_LONGEST_NAME: Final = 40


@dataclass(frozen=True)
class Case:
    """One goal for the agent, with its expected result.

    Without scorers and without `expect`, a run passes if it finished with success.

    Example:
        ```python
        from taofold.evals import Case, contains

        cases = [
            Case("What is 6 × 7?", expect=42),
            Case("Name a prime between 10 and 12.", scorers=[contains("11")]),
        ]
        ```

    Args:
        goal: The goal.
        expect: The expected output. Unset: there is no single correct output.
        name: The name in reports. Default: the goal.
        scorers: Functions that score the result.
        note: A note for readers, such as the purpose of the case. Not used for scoring.
    """

    goal: str
    expect: Any = UNSET
    name: str = ""
    scorers: Sequence[Scorer] = ()
    note: str = ""

    @property
    def label(self) -> str:
        """The name, or the goal if it has none."""
        return self.name or self.goal

    @property
    def judged_by(self) -> tuple[Scorer, ...]:
        """Its scorers, including the one for `expect`."""
        # `expect` comes first: an obviously wrong output needs no judge.
        own = tuple(self.scorers) if self.expect is UNSET else (exact, *self.scorers)
        return own or (success,)


@dataclass(frozen=True)
class CaseFile:
    """A file of cases. `agent` is a path relative to it; "" = the file names none."""

    cases: tuple[Case, ...]
    agent: str = ""
    repeat: int = 1


class ScoreKeys(Strict):
    """Scorers in a file."""

    contains: str | list[str] = []
    schema_: Annotated[Any, Field(alias="schema")] = None
    command: str = ""
    judge: str = ""

    def scorers(self, folder: Path, judging: "Judging") -> list[Scorer]:
        """Returns the scorers that these keys name, as functions."""
        scorers: list[Scorer] = []
        if self.contains:
            texts = [self.contains] if isinstance(self.contains, str) else self.contains
            scorers.append(contains(*texts))
        if self.schema_ is not None:
            scorers.append(schema(self.schema_))
        if self.command:
            scorers.append(command(self.command, folder))
        if self.judge:
            scorers.append(judging(self.judge))
        return scorers


class CaseKeys(ScoreKeys):
    """One case in a file."""

    goal: Annotated[str, Field(min_length=1)]
    name: str = ""
    note: str = ""
    expect: Any = UNSET


class FileKeys(Strict):
    """The keys of a file of cases."""

    cases: Annotated[list[CaseKeys], Field(min_length=1)]
    agent: str = ""
    repeat: Annotated[int, Field(ge=1)] = 1
    score: list[ScoreKeys] = []


class Judging:
    """Creates judges for criteria.

    `agent` returns the agent whose model judges; called on demand.
    """

    def __init__(self, agent: Callable[[], Agent[Any, Any]] | None) -> None:
        self._agent = agent

    def __call__(self, criterion: str) -> Scorer:
        """Returns the scorer for one criterion."""
        if self._agent is None:
            raise ConfigError("a judge needs a model: pass judge=Agent(…)", path="judge")
        return judge(criterion, self._agent())


def read_cases(path: Path | str, judge: Callable[[], Agent[Any, Any]] | None = None) -> CaseFile:
    """Reads the cases of a file.

    Args:
        path: YAML or JSON in our format or that of pydantic-evals, or JSON lines of Inspect
            (`.jsonl`).
        judge: Returns the agent whose model judges, if a case needs it.

    Raises:
        ExceptionGroup: One ConfigError per fault, with its line.
        ConfigError: A sample of Inspect cannot be read.
    """
    path = Path(path)
    if path.suffix == ".jsonl":
        return CaseFile(tuple(_inspect(path)))
    document, faults = load(path)
    if document is None:
        refuse(faults, "the cases cannot be read")
    # Detected by the cases: both formats have `cases`, only pydantic-evals has `inputs`.
    foreign = "cases" in document.value and any(
        "inputs" in case for case in _list(document.value["cases"]) if isinstance(case, dict)
    )
    if foreign:
        return _pydantic(document, Judging(judge))
    keys, faults = check(document, FileKeys)
    if keys is None:
        refuse(faults, "the cases cannot be read")
    return _case_file(document, keys, Judging(judge))


def _case_file(document: YamlDocument, keys: FileKeys, judging: Judging) -> CaseFile:
    faults: list[Fault] = []
    cases: list[Case] = []
    for number, entry in enumerate(keys.cases):
        scorers: list[Scorer] = []
        # The shared scorers belong to every case: checking them once reports each fault once.
        for location, score in [(("cases", number), entry), *_shared_scores(keys)]:
            try:
                scorers += score.scorers(document.folder, judging)
            except ConfigError as error:
                faults.append(document.fault(location, str(error)))
        cases.append(Case(entry.goal, entry.expect, entry.name, tuple(scorers), entry.note))
    if faults:
        refuse(list(dict.fromkeys(faults)), "the cases cannot be used")
    return CaseFile(_with_unique_names(cases), keys.agent, keys.repeat)


def _shared_scores(keys: FileKeys) -> list[tuple[KeyPath, ScoreKeys]]:
    return [(("score", number), score) for number, score in enumerate(keys.score)]


def _with_unique_names(cases: Sequence[Case]) -> tuple[Case, ...]:
    """Returns the cases with unique names."""
    counts: dict[str, int] = {}
    named: list[Case] = []
    for case in cases:
        name = case.name or " ".join(case.goal.split())[:_LONGEST_NAME]
        # Reports and resumption identify cases by name, so no two cases may share one.
        counts[name] = counts.get(name, 0) + 1
        name = name if counts[name] == 1 else f"{name} #{counts[name]}"
        named.append(replace(case, name=name))
    return tuple(named)


# --- data sets of other tools
# ------------------------------------------------------------------------

_EVALUATORS: Final[Mapping[str, Callable[[Any, Judging], Scorer]]] = {
    "Contains": lambda option, _: contains(str(option)),
    "EqualsExpected": lambda _, __: exact,
    "IsInstance": lambda option, _: schema(option),
    "LLMJudge": lambda option, judging: judging(str(option)),
}
"""Evaluators of pydantic-evals: maps the one argument of each to our scorer."""


def _pydantic(document: YamlDocument, judging: Judging) -> CaseFile:
    """Reads a data set of pydantic-evals: `inputs`, `expected_output`, `evaluators`."""
    faults: list[Fault] = []
    shared = _evaluators(
        document, ("evaluators",), document.value.get("evaluators"), faults, judging
    )
    cases: list[Case] = []
    for number, entry in enumerate(_list(document.value["cases"])):
        location: KeyPath = ("cases", number)
        if not isinstance(entry, dict) or "inputs" not in entry:
            faults.append(document.fault(location, "a case of this format has inputs"))
            continue
        case = cast("dict[str, Any]", entry)
        own = _evaluators(
            document, (*location, "evaluators"), case.get("evaluators"), faults, judging
        )
        scorers = [*own, *shared]
        expected = case.get("expected_output")
        expected = UNSET if expected is None else expected
        if exact not in scorers and scorers:
            # informational in that format; compared only if an evaluator requires it
            expected = UNSET
        rest = tuple([scorer for scorer in scorers if scorer is not exact])
        cases.append(Case(render(case["inputs"]), expected, str(case.get("name") or ""), rest))

    if faults:
        refuse(faults, "the data set cannot be used")
    return CaseFile(_with_unique_names(cases))


def _evaluators(
    document: YamlDocument, key_path: KeyPath, given: Any, faults: list[Fault], judging: Judging
) -> list[Scorer]:
    scorers: list[Scorer] = []
    for number, entry in enumerate(_list(given)):
        name, options = entry, None
        if isinstance(entry, dict) and len(cast("dict[str, Any]", entry)) == 1:
            ((name, options),) = cast("dict[str, Any]", entry).items()
        if isinstance(options, dict):
            parameters = cast("dict[str, Any]", options)
            # Each evaluator has another name for its one argument; a bare value stands for it.
            options = parameters.get("value", parameters.get("rubric", parameters.get("type_name")))

        location = (*key_path, number)
        make = _EVALUATORS.get(name) if isinstance(name, str) else None
        if make is None:
            hint = near(str(name), _EVALUATORS)
            fault = f"the evaluator {name!r} is not known here"
            faults.append(document.fault(location, fault, hint))
            continue
        try:
            scorers.append(make(options, judging))
        except ConfigError as error:
            faults.append(document.fault(location, str(error)))
    return scorers


def _inspect(path: Path) -> list[Case]:
    """Reads samples of Inspect: `input`, `target`, `id`. The answer must contain the target."""
    cases: list[Case] = []
    try:
        lines = read_named(path).decode("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot be read: {error}", path=str(path)) from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            sample: Any = msgspec.json.decode(line)
        except msgspec.DecodeError as error:
            raise ConfigError(str(error), path=f"{path}:{number}") from error
        if not isinstance(sample, dict) or "input" not in sample:
            raise ConfigError("a sample needs `input` and `target`", path=f"{path}:{number}")
        fields = cast("dict[str, Any]", sample)
        targets = [str(target) for target in _list(fields.get("target", []))]
        scorers = (contains(*targets),) if targets else ()
        cases.append(Case(render(fields["input"]), UNSET, str(fields.get("id", "")), scorers))
    if not cases:
        raise ConfigError("holds no sample", path=str(path))
    return list(_with_unique_names(cases))


def from_state(state: RunState, ratings: Sequence[Rating] = ()) -> Case:
    """Creates a case from a run: the same goal, with its output as the expected one.

    A run without success, or with a rating below 0.5, gives a case without an expectation. The
    notes of the ratings are kept for a reviewer.

    Example:
        ```python
        from taofold.evals import from_state

        case = from_state(result.state)
        ```

    Args:
        state: The state of the run (`RunResult.state`).
        ratings: The run's ratings.

    Returns:
        The case.
    """
    right = state.success and all(rating.value >= 0.5 for rating in ratings)
    return Case(
        state.goal,
        state.output if right else UNSET,
        note="; ".join([_opinion(rating) for rating in ratings]),
    )


def _opinion(rating: Rating) -> str:
    note = f": {rating.note}" if rating.note else ""
    return f"rated {rating.value:g} by {rating.by}{note}"


def _list(value: Any) -> list[Any]:
    if value is None:
        return []
    return cast("list[Any]", value) if isinstance(value, list) else [value]
