"""How much a pattern has to do with a case, and how much two patterns are alike.

The error is what counts: its message against the signature, then the words and letters around it.
The task's words decide only where nothing fails.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import Final, NamedTuple, TypeAlias

from taofold.core.checks import Check, is_assertion
from taofold.learning.extraction.diffs import HOLE, abstracted, line_term, tokens
from taofold.learning.extraction.generalisation import error_type_of, pattern_of, seen_at
from taofold.learning.patterns.kinds import (
    Approach,
    Avoidance,
    CodeTemplate,
    ErrorFix,
    ErrorSignature,
)
from taofold.learning.patterns.pattern import CaseContext, LoopCase, Pattern
from taofold.learning.retrieval.index import (
    STOPS,
    IndexEntry,
    classname,
    distinct,
    literal,
    matches,
    plain_words,
    rarity,
    telling,
    words,
)

_CODE_TERMS: Final = 40
_LINE_TERMS: Final = 80
_MOST_TERMS: Final = 240
_CONTEXT_WORDS: Final = 24
_MOST_FAILING: Final = 12
_MESSAGE: Final = 2000
"""Characters of a message that are looked at."""
_BEHIND: Final = 50
"""Patterns that are assumed to exist elsewhere, so that a small registry knows rare words too."""
_FEWEST_WORDS: Final = 3.0


class Bag(NamedTuple):
    """Words, and how much they say together."""

    words: frozenset[str]
    weight: float


class Weights(NamedTuple):
    """How much words say: a rare one about 4."""

    rare: Mapping[str, float]
    unseen: float
    """The weight of a word in no pattern."""

    def of(self, word: str) -> float:
        """One word's weight."""
        return self.rare.get(word, self.unseen)

    def total(self, found: Iterable[str]) -> float:
        """What the words weigh together."""
        rare, unseen = self
        return sum([rare.get(word, unseen) for word in found])

    def bag(self, found: Iterable[str]) -> Bag:
        """The words, each once, with their weight."""
        distinct_words = frozenset(found)
        return Bag(distinct_words, self.total(distinct_words))


class Question(NamedTuple):
    """A case prepared for comparison. `terms` are searched for."""

    case: LoopCase
    terms: tuple[str, ...]
    words: frozenset[str]
    """The terms again, without those that say nothing."""
    telling: Bag
    said: tuple[Bag, ...]
    """The telling words of each failure's message."""
    weights: Weights
    lines: frozenset[str]
    """The terms of the lines of code at hand."""
    least: float
    """What a text must say at least to be compared as a whole."""
    meanings: Mapping[str, float] = {}
    """How much patterns, by id, mean what the case means, 0 to 1, where a model was asked."""


def terms_of(case: LoopCase) -> tuple[str, ...]:
    """What to search for, the most telling first: errors, the task, then the code."""
    terms: list[str] = []
    for failing in case.failing[:_MOST_FAILING]:
        terms += [classname(failing.error_type)] if failing.error_type else []
        terms += words(failing.message[:_MESSAGE])
    terms += telling(case.task[:2000])
    terms += distinct(filter(None, map(line_term, case.code[:8000].split("\n"))), _LINE_TERMS)
    terms += distinct(telling(case.code[:8000]), _CODE_TERMS)
    return distinct(terms, _MOST_TERMS)


def context_of(case: LoopCase) -> CaseContext:
    """The case, small enough to be kept."""
    failing = case.failing[:_MOST_FAILING]
    stems = telling(" ".join([check.message[:300] for check in failing]))
    around = telling(case.code[:8000]) or telling(case.task[:2000])
    half = distinct(stems, _CONTEXT_WORDS // 2)
    return CaseContext(
        tuple(sorted({check.error_type for check in failing if check.error_type})),
        distinct([*half, *around], _CONTEXT_WORDS),
        case.language,
        case.repository,
    )


def ask(case: LoopCase, terms: tuple[str, ...], known: Mapping[str, int], total: int) -> Question:
    """Prepare `case`; `known` says in how many of `total` patterns each of its `terms` stands."""
    failing = case.failing[:_MOST_FAILING]
    useful = [term for term in terms if len(term) > 1 and term not in STOPS]
    everywhere = total + _BEHIND
    rare = {term: rarity(min(count, total), everywhere) for term, count in known.items()}
    weights = Weights(rare, rarity(0, everywhere))
    return Question(
        case,
        terms,
        frozenset(terms) - STOPS,
        # Terms that begin with "=" stand for classes and lines of code, not for words.
        weights.bag([term for term in useful if not term.isdigit() and term[0] != "="]),
        tuple([weights.bag(telling(check.message[:_MESSAGE])) for check in failing]),
        weights,
        frozenset([term for line in case.code[:8000].split("\n") if (term := line_term(line))]),
        _FEWEST_WORDS * rarity(1, everywhere),
    )


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
    return sum([_dice(*pair) for pair in pairs]) / len(pairs) if pairs else 1.0


def _fields(pattern: Pattern) -> tuple[tuple[str | bool, ...], Fields]:
    """What must be equal, and the bags of words that are compared."""
    signature = pattern.signature
    error = signature.name or signature.type if signature is not None else ""
    message = tuple(words(literal(signature.pattern)[:_LONGEST])) if signature is not None else ()
    match pattern.body:
        case ErrorFix(fix=fix):
            change = _delta(fix.diff) if fix.diff else tokens(HOLE.sub("ID", fix.code[:_LONGEST]))
            return ("error", error, fix.category, fix.template, bool(fix.diff)), (
                message, tuple(change)
            )  # fmt: skip
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


def _delta(diff: str) -> Iterator[str]:
    """The tokens a change takes out and puts in, each with its sign; all, if these are none."""
    lines = diff[:_LONGEST].splitlines()
    out, put = (
        Counter(_tokens("\n".join([line[1:] for line in lines if line[:1] == sign])))
        for sign in "-+"
    )
    shared = out & put if out != put else Counter[str]()
    yield from [f"-{token}" for token in (out - shared).elements()]
    yield from [f"+{token}" for token in (put - shared).elements()]


def _tokens(code: str) -> list[str]:
    """Names are left out of account, as the same fix has others elsewhere, unless all are names."""
    kinds = abstracted(code)
    return kinds if any(kind not in ("ID", "STR") for kind in kinds) else tokens(code)


def _dice(one: Sequence[str], other: Sequence[str]) -> float:
    """Dice's coefficient of two bags that are not both empty."""
    left, right = Counter(one), Counter(other)
    return 2 * (left & right).total() / (left.total() + right.total())


LEAST: Final = 0.12
"""Below this a pattern has nothing to do with the case."""
GENERIC_ERRORS: Final = frozenset(
    {"", "Error", "Exception", "command", "timeout", "shell", "panic"}
)
"""Classes that do not tell one cause from another."""
_SAME_CLASS: Final = 0.7
_OTHER_CLASS: Final = 0.15
_SAME_WORDS: Final = 0.6
_SAME_SENTENCE: Final = 0.5
_LEAST_ERROR: Final = 0.25
_LEAST_TEXT: Final = 0.3
_SENTENCE: Final = 30
"""Words of a message that are compared in order."""
_FEWEST_SHARED: Final = 2
"""Words that two texts must share: one, such as "total", stands in anything."""
_NOT_YET: Final = "it was found at the first try: it is told once this loop has failed at it"
_LOCAL: Final = re.compile(
    # A name is not there, or an index is out of bounds; who owns a value; what type it has.
    r"(?:Key|Index|Name|Reference|UnboundLocal|ZeroDivision)Error|E0425|E0433|F821|no-undef"
    r"|undefined-variable|name-defined|E0382|E0499|E050[2-7]|E0515|E0596|E0597|E0716"
    r"|E0061|E0308|TS2322|TS2345|TS2554|arg-type|call-arg|return-value|assignment|var-annotated"
)
"""Errors whose message names nothing but the program's own: the cause is the program at hand."""
_ARITY: Final = re.compile(r"\bpositional argument|\bkeyword argument|\bmultiple values for\b")
"""What is said of a call that does not fit: the same."""
_OWN: Final = re.compile(r"'\.\*' object has no attribute|type object '\.\*' has no attribute")
"""The same of what a class of the program's own lacks: those of the language keep their names."""
_MISSING: Final = re.compile(
    r"(?:Attribute|Recursion|FileNotFound|ModuleNotFound|Import|Syntax|Indentation)Error|shell"
    r"|TS23(?:04|07|39)"
)
_OF_NOTHING: Final = re.compile(r"(?:Type|Attribute)Error|panic|TS(?:1804[78]|253[12])")
_NOTHING: Final = re.compile(r"\b(?:None|NoneType|null|undefined|nil)\b")
_LINE: Final = 0.6
"""How much it says for a fix that the very line which it replaced is here."""


class Relevance(NamedTuple):
    """How relevant a pattern is, 0 to 1, and the failing check that it answers (-1 = none).

    `refused` says why it would mislead although its words are near: it answers another error.
    """

    value: float
    answers: int = -1
    refused: str = ""


def relevance(pattern: Pattern, entry: IndexEntry, question: Question) -> Relevance:
    """How relevant `pattern` is to the case."""
    case = question.case
    text = _text(entry, question)
    if pattern.id in question.meanings:
        text = (text + question.meanings[pattern.id]) / 2
    scale = 0.5 if _foreign(pattern, case) else 1.0
    match pattern.body:
        case ErrorFix() | Avoidance():
            signature = pattern.body.signature
            if signature is None or not case.failing:
                return Relevance(scale * text)
            return _of_error(pattern, entry, signature, text, scale, question)
        # Ways of working answer no error: a loop that has failed at nothing needs none.
        case Approach() | CodeTemplate() if not case.failed:
            return Relevance(0.0, refused=_NOT_YET)
        case Approach() as body:
            same_task = bool(body.task) and matches(body.task, case.task)
            value = max(text, 0.9 if same_task and telling(literal(body.task)) else 0.0)
            return Relevance(scale * value)
        case CodeTemplate() as body:
            strange = "other" not in (body.language, case.language or "other")
            value = 0.0 if strange and body.language != case.language else text
            return Relevance(scale * value)


def _foreign(pattern: Pattern, case: LoopCase) -> bool:
    language = pattern.scope.language
    return bool(case.language and language and case.language != language)


def _of_error(
    pattern: Pattern,
    entry: IndexEntry,
    signature: ErrorSignature,
    text: float,
    scale: float,
    question: Question,
) -> Relevance:
    """The failing check that is most like the signature decides."""
    says = question.weights.bag(entry.message.split())
    line = _line_is_here(pattern, question)
    # Refused unless some failing check speaks for it: words alone bring lessons about other errors.
    best = Relevance(0.0, refused="it answers another error")
    silence = ""
    pairs = zip(question.case.failing, question.said, strict=False)
    for number, (failing, message) in enumerate(pairs):
        same = _kinship(signature, failing)
        alike = _alike(signature, says, failing, message, question)
        asserted = is_assertion(failing)
        plain = asserted or failing.error_type in GENERIC_ERRORS
        if same >= _SAME_CLASS and not plain:
            # `users.map is not a function` has no word that says something but those that differ.
            sentence = same_sentence(literal(signature.pattern), failing.message)
            alike = max(alike, sentence if sentence >= _SAME_WORDS else 0.0)
        if same >= _SAME_CLASS and not plain and alike < _LEAST_ERROR and _exception(failing):
            continue  # a class such as TypeError has many causes: the words must agree
        if same >= _SAME_CLASS and not plain:
            error = 0.3 + 0.7 * alike
        elif plain or not failing.error_type or same > _OTHER_CLASS:
            # The class says nothing: the words must, or the very line or function that was wrong.
            here = max(line, float(same_function(signature, failing)))
            # An assertion's words are of the values that were compared, or of the test's author.
            error = max(same * alike if says.words and not asserted else 0.0, _LINE * here)
            nameless = not failing.error_type
            if nameless and max(alike, here) < _SAME_SENTENCE:
                continue  # nothing but the sentence tells such errors apart
            if error < _LEAST_ERROR and (asserted or text < _LEAST_TEXT):
                continue
        elif alike >= _SAME_WORDS:
            error = 0.5 * alike
        else:
            continue
        value = scale * (0.75 * error + 0.25 * max(text, line))
        known = _no_news(pattern, signature, failing, question.case)
        silence = known or silence
        if value > best.value and not known:
            best = Relevance(value, number)
    return best if best.value else best._replace(refused=silence or best.refused)


def _no_news(pattern: Pattern, signature: ErrorSignature, failing: Check, case: LoopCase) -> str:
    """Why a reader who meets this error is not told of it (yet); "" if they are."""
    match pattern.body:
        case ErrorFix(fix=fix):
            # What only a file claims was hard to find may be anything.
            hard = fix.hard_won and not pattern.claimed
            vain = bool(fix.vain)
        case Avoidance(better=better):
            # Who has not failed yet learns nothing from what fails, unless it says what does not.
            hard = bool(better) and not pattern.claimed
            vain = False
        case _:
            return ""
    # At once only for the same sentence, names and values apart: "already borrowed" is not
    # "already mutably borrowed".
    hard = hard and (not signature.example or matches(signature.pattern, failing.message))
    failed = failing.id in case.failed
    # A lesson of a file, without a message word for word, is taken as it is.
    known = signature.example and not same_case(signature, failing)
    own = any(map(_OWN.match, (signature.pattern, pattern_of(failing.message))))
    if known and (own or _of_every_day(failing, vain=vain, failed=failed)):
        return "such an error has its cause in the program at hand"
    return "" if hard or failed else _NOT_YET


def _of_every_day(failing: Check, *, vain: bool, failed: bool) -> bool:
    """Is it an error that every program has, so that a lesson of another one says nothing?"""
    # Of a call an interpreter says it in the message, a linter by its rule.
    arity = _exception(failing) and bool(_ARITY.search(failing.message))
    if arity or _LOCAL.fullmatch(failing.error_type):
        return True
    # Why something is missing may be told by what was tried in vain; why it is nothing at all has
    # so many causes that only a loop which has failed at it is to look at those of others.
    if _OF_NOTHING.fullmatch(failing.error_type) and _NOTHING.search(failing.message):
        return not (vain and failed)
    return bool(_MISSING.fullmatch(failing.error_type)) and not vain


def same_case(signature: ErrorSignature, failing: Check) -> bool:
    """Is it the same value that is named, or the same function that fails?"""
    # A message without a value is the same everywhere.
    named = signature.example == failing.message and bool(re.search(r"\*|\+", signature.pattern))
    return named or same_function(signature, failing)


def same_function(signature: ErrorSignature, failing: Check) -> bool:
    """Does the function fail where the lesson was learnt?"""
    # Compilers tell no function, and every crate has a `src/lib.rs`.
    return ":" in signature.seen and signature.seen == seen_at(failing)


def _exception(failing: Check) -> bool:
    """Is it an exception's class, and not a linter's rule or a compiler's code?"""
    return failing.error_type.endswith(("Error", "Exception"))


def _line_is_here(pattern: Pattern, question: Question) -> float:
    """1 if a line that the fix replaced stands, names apart, in the code at hand."""
    body = pattern.body
    if not isinstance(body, ErrorFix):
        return 0.0
    gone = [line_term(line[1:]) for line in body.fix.diff.split("\n") if line[:1] == "-"]
    return float(any(term and term in question.lines for term in gone))


def _alike(
    signature: ErrorSignature, says: Bag, failing: Check, message: Bag, question: Question
) -> float:
    """How much of what the failure says is what the signature says, 0 to 1."""
    if matches(signature.pattern, failing.message):
        # A signature of generic words alone matches many messages.
        return 1.0 if says.words else 0.3
    alike = 0.8 * _overlap(question, message, says)
    if failing.error_type:
        return alike
    # Nothing but the sentence tells this error: in "undefined variable depot" the rare word, which
    # an overlap goes by, is the one that differs each time.
    return max(alike, same_sentence(literal(signature.pattern), failing.message))


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


def _kinship(signature: ErrorSignature, failing: Check) -> float:
    """How much the error's class is the signature's, 0 to 1."""
    if not failing.error_type:
        return 0.6
    if signature.name:
        return 1.0 if signature.name == failing.error_type else _OTHER_CLASS
    # Files of the seed's schema name one of nine types.
    if signature.type == "Other":
        return 0.5
    return _SAME_CLASS if signature.type == error_type_of(failing.error_type) else _OTHER_CLASS


def _text(entry: IndexEntry, question: Question) -> float:
    """How much of what the case and the whole pattern say is the same."""
    shared = question.words.intersection(entry.words.split(" "))
    if len(shared) < _FEWEST_SHARED:
        return 0.0
    weight = question.weights.total(shared) + question.weights.unseen * (entry.size - len(shared))
    return _overlap(question, question.telling, Bag(shared, weight))


def _overlap(question: Question, one: Bag, other: Bag) -> float:
    """The shared part of what the two say, of the one that says less."""
    shared = one.words & other.words
    if not shared:
        return 0.0
    # A floor for the divisor: else two texts of one word each would be the same text.
    fewer = max(min(one.weight, other.weight), question.least)
    return question.weights.total(shared) / fewer
