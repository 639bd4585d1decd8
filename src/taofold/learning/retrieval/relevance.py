"""How much a pattern has to do with a case, and how much two patterns are alike.

The error is what counts: its class, and its message against the signature. Words in common, of
the text around or of the message, are no likeness of errors; they decide where nothing fails.
"""

import re
from collections.abc import Iterable
from difflib import SequenceMatcher
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from msgspec.structs import replace

from taofold.core.failing_checks import Check, is_assertion, is_exception
from taofold.diagnostics import causes_of
from taofold.learning.extraction.diffs import (
    BOUND,
    HOLE,
    KNOWN,
    delta,
    dice,
    new_words,
    sides,
    tokens,
)
from taofold.learning.extraction.generalisation import (
    error_type_of,
    frames_of,
    pattern_of,
    raised_at,
    seen_at,
)
from taofold.learning.patterns.case import CaseContext, LoopCase
from taofold.learning.patterns.kinds import (
    Approach,
    Avoidance,
    CodeTemplate,
    ErrorFix,
    ErrorSignature,
    Fix,
)
from taofold.learning.patterns.pattern import Pattern
from taofold.learning.retrieval.contrast import other_cause, quoted, same_library
from taofold.learning.retrieval.index import (
    STOPS,
    classname,
    literal,
    matches,
    plain_words,
    telling,
    words,
)

_MOST_ERRORS: Final = 30
"""Different errors of a case that are looked at."""
_MESSAGE: Final = 2000
"""Characters of a message that are looked at."""
_FEWEST: Final = 3
"""Words that a text counts for at least: else two texts of one word each would be the same text."""


class Question(NamedTuple):
    """A case prepared for comparison."""

    case: LoopCase
    chains: tuple[tuple[Check, ...], ...]
    """One check of each error, for forty tests that fail alike must not hide the next error, each
    with what led to it (`chain_of`)."""
    searches: tuple[tuple[str, ...], ...]
    """The terms of each error, and last those of the task: each is searched for by itself, or the
    rare words of one error would leave no room for those of another."""
    words: frozenset[str]
    """Those of the terms that say something."""


def context_of(case: LoopCase) -> CaseContext:
    """The case, small enough to be kept."""
    errors = {check.error_type for check, *_ in _distinct(case) if check.error_type}
    return CaseContext(tuple(sorted(errors)), case.language, case.repository)


def ask(case: LoopCase) -> Question:
    """Prepare `case`."""
    chains = _distinct(case)
    each = [form for chain in chains for form in chain]
    searches = [(*_class_of(check), *words(check.message[:_MESSAGE])) for check in each]
    searches.append(tuple(telling(case.task[:_MESSAGE])))
    said = _telling([term for terms in searches for term in terms])
    return Question(case, chains, tuple(filter(None, searches)), said)


def _distinct(case: LoopCase) -> tuple[tuple[Check, ...], ...]:
    """The chain of each error that fails, by its classes, its sentences and its place."""
    errors: dict[tuple[str, ...], tuple[Check, ...]] = {}
    for check in (*case.failing, *case.exchanged):
        chain = chain_of(check)
        forms = [text for form in chain for text in (form.error_type, pattern_of(form.message))]
        errors.setdefault((*forms, seen_at(check)), chain)
    return tuple(errors.values())[:_MOST_ERRORS]


def chain_of(check: Check) -> tuple[Check, ...]:
    """The check, and as others of the same place the exceptions that led to its own."""
    causes = causes_of(check)
    return (check, *[replace(check, error_type=e, message=said) for e, said in causes])


def _chain_of(signature: ErrorSignature) -> tuple[ErrorSignature, ...]:
    """The same of what a lesson is about."""
    causes = [cause.partition(": ")[::2] for cause in signature.causes]
    return (
        signature,
        *[
            replace(
                signature,
                type=error_type_of(error),
                name=error,
                pattern=pattern_of(said),
                example=said,
                raised="",
            )
            for error, said in causes
        ],
    )


def _class_of(check: Check) -> list[str]:
    return [classname(check.error_type)] if check.error_type else []


def _telling(terms: Iterable[str]) -> frozenset[str]:
    return frozenset([term for term in terms if len(term) > 1 and not term.isdigit()]) - STOPS


_LONGEST: Final = 4000
Fields: TypeAlias = tuple[tuple[str, ...], ...]


def likeness(one: Pattern, other: Pattern) -> float:
    """How alike two patterns are, 0 to 1: Dice's coefficient of each of their fields, the mean.

    Patterns of different kinds, classes of errors, categories or languages are never the same.
    """
    (sort, fields), (other_sort, others) = _fields(one), _fields(other)
    if sort != other_sort:
        return 0.0
    # What neither says is no likeness.
    pairs = [pair for pair in zip(fields, others, strict=True) if any(pair)]
    values = [dice(*pair) for pair in pairs] or [1.0]
    mean = sum(values) / len(values)
    # Another change, which comes last, is another lesson, however alike the messages are.
    return min(mean, values[-1]) if one.kind == "error" else mean


def _fields(pattern: Pattern) -> tuple[tuple[str | bool, ...], Fields]:
    """What must be equal, and the bags of words that are compared."""
    signature = pattern.signature
    error = signature.name or signature.type if signature is not None else ""
    message = tuple(words(literal(signature.pattern)[:_LONGEST])) if signature is not None else ()
    match pattern.body:
        case ErrorFix(fix=fix):
            change = (
                delta(*sides(fix.diff[:_LONGEST]))
                if fix.diff
                else tokens(HOLE.sub("ID", fix.code[:_LONGEST]))
            )
            return ("error", error, fix.category, fix.template, bool(fix.diff)), (
                message,
                tuple(change),
            )
        case Approach() as body:
            text = "\n".join([*body.steps, body.description])
            return ("success", body.category), (tuple(words(text[:_LONGEST])), body.tools)
        case Avoidance() as body:
            return ("anti", error, body.mode), (tuple(words(body.approach[:_LONGEST])), message)
        case CodeTemplate() as body:
            # Holes are all the same, the names that stayed are what it is.
            return ("template", body.language), (
                tuple(tokens(HOLE.sub("ID", body.code[:_LONGEST]))),
            )


LEAST: Final = 0.12
"""Below this a pattern has nothing to do with the case."""
GENERIC_ERRORS: Final = frozenset(
    {"", "Error", "Exception", "error", "command", "timeout", "shell", "panic"}
)
"""Classes that do not tell one cause from another."""
_SAME_WORDS: Final = 0.6
_SAME_SENTENCE: Final = 0.5
_NEARLY: Final = 0.8
_SAME_PLACE: Final = 0.6
_SENTENCE: Final = 30
"""Words of a message that are compared in order."""
_FEWEST_SHARED: Final = 2
"""Words that two texts must share: one, such as "total", stands in anything."""
_NOT_YET: Final = "it says no more than the message: it is told once this loop has failed at it"
_TELLING_VALUE: Final = re.compile(r"\d{3}|['\"][^'\"]{3,}['\"]")
_NO_NEED: Final = "it answers no error: it is told once this loop has failed at one"
_LOCAL: Final = re.compile(
    # A name is not there, or an index is out of bounds; who owns a value; what type it has.
    r"(?:Key|Index|Name|Reference|UnboundLocal|ZeroDivision)Error|E0425|E0433|F821|no-undef"
    r"|undefined-variable|name-defined|E0382|E0499|E050[2-7]|E0515|E0596|E0597|E0716"
    r"|E0061|E0308|TS2322|TS2345|TS2554|arg-type|call-arg|return-value|assignment|var-annotated"
)
"""Errors whose message names nothing but the program's own: the cause is the program at hand."""
_NAMED: Final = re.compile(r"(?:Name|UnboundLocal|ModuleNotFound)Error")
_DECLARES: Final = re.compile(r"\s*(?:global|nonlocal)\b")
_ARITY: Final = re.compile(r"\bpositional argument|\bkeyword argument|\bmultiple values for\b")
"""What is said of a call that does not fit: the same."""
_OWN: Final = re.compile(
    r"'\.\*' object has no attribute|type object '\.\*' has no attribute"
    r"|.*\bis not a (?:function|constructor)|.*\bvalues to unpack"
    r"|'(?:\.\*|int|float|str|bool|list|dict|tuple|set)' object is not"
)
"""The same of what a class or value of the program lacks: other types tell the cause."""
_MISSING: Final = re.compile(
    r"(?:Attribute|ModuleNotFound|Import|Syntax|Indentation)Error|shell|ERR_MODULE_NOT_FOUND"
    r"|TS23(?:04|07|39)"
)
_ABSENT: Final = re.compile(r"not found|No such|denied|syntax error|Is a directory")
"""Of what a shell says."""
_OF_NOTHING: Final = re.compile(r"(?:Type|Attribute)Error|panic|TS(?:1804[78]|253[12])")
_NOTHING: Final = re.compile(r"\b(?:None|NoneType|null|undefined|nil)\b(?! map)")
"""A nil map is none of them: nobody made it, and nothing else is wrong."""


class Relevance(NamedTuple):
    """How relevant a pattern is, 0 to 1, and the failing check that it answers (-1 = none).

    `refused` says why it is not told although it is about such an error.
    `seen` are the error of the lesson and the one here that are alike: of a chain any exception.
    """

    value: float
    answers: int = -1
    refused: str = ""
    seen: tuple[ErrorSignature, Check] | None = None


def relevance(pattern: Pattern, stems: str, question: Question) -> Relevance:
    """How relevant `pattern`, whose text has these `stems`, is to the case."""
    case, body = question.case, pattern.body
    text = _overlap(question.words, _telling(stems.split(" ")))
    match body:
        case ErrorFix() | Avoidance():
            if body.signature is None or not question.chains:
                return Relevance(text)
            return _of_error(pattern, body.signature, question)
        # Ways of working answer no error: a loop that has failed at nothing needs none.
        case Approach() | CodeTemplate() if not case.failed:
            return Relevance(0.0, refused=_NO_NEED if text >= LEAST else "")
        case CodeTemplate(language=language) if not {language, case.language} & {"other", ""}:
            return Relevance(text if language == case.language else 0.0)
        case Approach() | CodeTemplate():
            return Relevance(text)


def _of_error(pattern: Pattern, signature: ErrorSignature, question: Question) -> Relevance:
    """The failing check that is most like the signature decides."""
    # Nothing unless some failing check speaks for it: words alone bring lessons on other errors.
    best = Relevance(0.0)
    silence = ""
    there = _chain_of(signature)
    for number, here in enumerate(question.chains):
        # One error that is reported of several others is no error of its own.
        chained = len(there) > 1 and len(here) > 1
        if chained and not any(_error(one, other) for one in there[1:] for other in here[1:]):
            continue
        for form, failing in product(there, here):
            error = _error(form, failing) or _SAME_PLACE * _recurs_at_home(
                pattern, form, failing, question.case
            )
            if not error or error <= best.value:
                continue
            known = _no_news(pattern, form, failing, question.case)
            silence = known or silence
            if not known:
                best = Relevance(error, number, seen=(form, failing))
    return best if best.value else Relevance(0.0, refused=silence)


def _error(signature: ErrorSignature, failing: Check) -> float:
    """How much a failing check is the error of the signature, 0 to 1; 0 for another one."""
    here = _SAME_PLACE * same_place(signature, failing)
    # An assertion's words are of the values that were compared, or of the test's author.
    if is_assertion(failing):
        return here
    named = failing.error_type not in GENERIC_ERRORS
    # Files of the seed's schema name one of nine types, of which the ninth says nothing.
    own = signature.name or signature.type
    name = failing.error_type if signature.name else error_type_of(failing.error_type)
    if named and own not in (name, "Other"):
        return 0.0
    alike = same_sentence(literal(signature.pattern), failing.message)
    if matches(signature.pattern, failing.message):
        alike = 1.0
    if named and own == name != "Other":
        # A class such as TypeError has many causes: the words must agree.
        agreed = alike >= _SAME_WORDS or not is_exception(failing)
        return 0.3 + 0.7 * alike if agreed else 0.0
    # The class says nothing: the words must, or the place. Generic ones are those of many errors.
    agreed = alike >= _SAME_SENTENCE and bool(telling(literal(signature.pattern)))
    return max(alike if agreed else 0.0, here)


def _no_news(pattern: Pattern, signature: ErrorSignature, failing: Check, case: LoopCase) -> str:
    """Why a reader who meets this error is not told of it (yet); "" if they are."""
    # An error that became a wrong value was not mended either.
    failed = failing.id in case.failed or failing in case.exchanged
    done = _fix(pattern)
    if isinstance(pattern.body, ErrorFix) and stands(pattern.body, failing):
        return "what its change puts in stands in the code that fails here"
    otherwise = other_cause(signature, done.diff, failing, failed=failed)
    if otherwise and not is_assertion(failing):
        return otherwise
    match pattern.body:
        case ErrorFix(fix=fix):
            alike = _says_the_same(signature, failing) and not is_assertion(failing)
            again = same_place(signature, failing) or _recurs_at_home(
                pattern, signature, failing, case
            )
            news = again or alike
            # What only a file claims may be anything.
            hard = news and not (pattern.claimed or _obvious(fix, failing))
            hard = hard and (again or _brings(signature, fix))
            vain = bool(fix.vain)
        case Avoidance():
            # Dead ends spare a reader who meets the very message the way there; to others they say
            # something once these have failed too, unless it is known what does not fail.
            hard = matches(signature.pattern, failing.message) and not pattern.claimed
            vain = False
        case _:
            return ""
    # A lesson of a file, without a message word for word, is taken as it is.
    known = signature.example and not same_case(signature, failing)
    own = any(map(_OWN.match, (signature.pattern, pattern_of(failing.message))))
    # What a library lacks it lacks for all who use it.
    vain |= same_library(signature, done.files, failing)
    # It helped another loop, or it is more than the name that the message asks for.
    known = known and not (
        pattern.helped or len(pattern.found) > 1 or _uncommon(pattern, signature, failing)
    )
    if known and (own or _of_every_day(failing, vain=vain, failed=failed)):
        return "such an error has its cause in the program at hand"
    return "" if hard or failed else _NOT_YET


def _uncommon(pattern: Pattern, signature: ErrorSignature, failing: Check) -> bool:
    """Is a name missing, or an argument, and the cure not to write, define or correct that name?"""
    diff = _fix(pattern).diff
    arity = is_exception(failing) and bool(_ARITY.search(failing.message))
    if not diff or not (arity or _NAMED.fullmatch(failing.error_type)):
        return False
    changed = [[line for line in lines if not _DECLARES.match(line)] for lines in sides(diff)]
    gone, new = ({token.strip("\"'") for token in tokens("\n".join(side))} for side in changed)
    names = {part for name in quoted(signature.example) for part in name.split(".")}
    touched = (gone ^ new) | {*BOUND.findall("\n".join(changed[1]))}
    # An argument more or less is of the program, unless it is the language's.
    own = arity and (new - gone).isdisjoint({*KNOWN, "self", "cls"})
    return not own and names.isdisjoint(touched)


def _brings(signature: ErrorSignature, fix: Fix) -> bool:
    """Does the change put in a word that was not there: of the language, a library, or a text?

    Signs, numbers and names that stood there are about the program that it was made in.
    """
    asked = {token.strip("\"'") for token in tokens(f"{signature.example}\n{signature.caller}")}
    brought = {word.strip("\"'") for word in new_words(fix.diff)}
    return not fix.diff or not brought <= asked


def _fix(pattern: Pattern) -> Fix:
    return pattern.body.fix if isinstance(pattern.body, ErrorFix) else Fix()


def _says_the_same(signature: ErrorSignature, failing: Check) -> bool:
    """Is it the same sentence but for names, or for one word in five?"""
    alike = same_sentence(literal(signature.pattern), failing.message)
    return matches(signature.pattern, failing.message) or alike >= _NEARLY


def _obvious(fix: Fix, failing: Check) -> bool:
    """Does the message itself name all that the change puts in, or all that it takes out?

    That of a linter or compiler does. An exception's says what went wrong, and no more.
    """
    if is_exception(failing) or is_assertion(failing):
        return False
    gone, new = ({*tokens("\n".join(lines))} for lines in sides(fix.diff))
    changed = (new - gone) or (gone - new)
    said = plain_words(failing.message)
    # A sign beside words says nothing, a bracket or a comma never does.
    worded = [token for token in changed if token[0].isalnum() or token[0] in "\"'"]
    signs = [token for token in changed if len(token) > 1]
    return all(
        token.lower() in said if token[0].isalnum() else token in failing.message
        for token in worded or signs
    )


def _of_every_day(failing: Check, *, vain: bool, failed: bool) -> bool:
    """Is it an error that every program has, so that a lesson of another one says nothing?"""
    # Of a call an interpreter says it in the message, a linter by its rule.
    arity = is_exception(failing) and bool(_ARITY.search(failing.message))
    if arity or _LOCAL.fullmatch(failing.error_type):
        return True
    # Why something is missing may be told by what was tried in vain; why it is nothing at all has
    # so many causes that only a loop which has failed at it is to look at those of others.
    if _of_many_causes(failing):
        return not (vain and failed)
    absent = failing.error_type != "shell" or _ABSENT.search(failing.message)
    return bool(_MISSING.fullmatch(failing.error_type) and absent) and not vain


def same_case(signature: ErrorSignature, failing: Check) -> bool:
    """Is it the same value that is named, or the same place that fails?"""
    # A message without a value is the same everywhere, and so is what one asks of nothing at all.
    valued = bool(re.search(r"\*|\\S", signature.pattern)) and not _of_many_causes(failing)
    return (valued and signature.example == failing.message) or same_place(signature, failing)


def _of_many_causes(failing: Check) -> bool:
    """Is something nothing at all, without end, or not where it was looked for?"""
    named = _OF_NOTHING.fullmatch(failing.error_type) and _NOTHING.search(failing.message)
    return bool(named) or failing.error_type in ("RecursionError", "FileNotFoundError")


def same_place(signature: ErrorSignature, failing: Check) -> bool:
    """Does the function fail where the lesson was learnt, or the file in the same words?"""
    # Compilers tell no function, and every crate has a `src/lib.rs`.
    known = ":" in signature.seen or (signature.seen and signature.example == failing.message)
    return bool(known) and signature.seen == seen_at(failing)


def _recurs_at_home(
    pattern: Pattern, signature: ErrorSignature, failing: Check, case: LoopCase
) -> bool:
    """Does an assertion of the lesson's own project fail again with the very values?

    Of small numbers and empty values that says nothing.
    """
    return (
        "" != case.repository == pattern.scope.repository
        and signature.example == failing.message
        and bool(_TELLING_VALUE.search(failing.message))
    )


def recurs(lesson: ErrorFix, failing: Check) -> bool:
    """Is it the error of the lesson, in the very function, raised by the line or by its cure?"""
    signature, raised = lesson.signature, raised_at(failing)
    lines = {signature.raised, *[line.strip() for line in sides(lesson.fix.diff)[1]]}
    return (
        ":" in signature.seen
        and same_place(signature, failing)
        and failing.error_type == signature.name
        and matches(signature.pattern, failing.message)
        and (not (raised and signature.raised) or raised in lines)
    )


def stands(lesson: ErrorFix, failing: Check) -> bool:
    """Does all that the lesson puts in stand in the function that fails, which it changed?"""
    new = [line.strip() for line in sides(lesson.fix.diff)[1] if line.strip()]
    code = {line.strip() for frame in frames_of(failing) for line in frame.code.split("\n")}
    return bool(new) and code.issuperset(new) and recurs(lesson, failing)


def same_sentence(one: str, other: str) -> float:
    """How much two messages are one sentence with other names in it, 0 to 1.

    Dice's coefficient of the words that stand in the same order in both; 0 if these are fewer than
    two. Words that say nothing elsewhere count here: "has no" is not "is not".
    """
    left, right = plain_words(one)[:_SENTENCE], plain_words(other)[:_SENTENCE]
    shared = sum(
        [block.size for block in SequenceMatcher(None, left, right, False).get_matching_blocks()]
    )
    return 2 * shared / (len(left) + len(right)) if shared >= _FEWEST_SHARED else 0.0


def _overlap(one: frozenset[str], other: frozenset[str]) -> float:
    """The share of the words of the shorter text that the other has too; 0 if that is one word."""
    shared = len(one & other)
    least = max(min(len(one), len(other)), _FEWEST)
    return shared / least if shared >= _FEWEST_SHARED else 0.0
