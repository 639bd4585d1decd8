"""The documented repair templates: their names, what they do, how common they are.

The names are the `fix_category` of learnt patterns, so they are part of the surface.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from taofold.models.repair import absence, bounds, calls, flow, lookups, names, operators, words
from taofold.models.repair.site import Site
from taofold.models.repair.source import Change


class Template(NamedTuple):
    """A way to repair. `prior` compares templates before anything is known of the failure."""

    name: str
    does: str
    prior: float
    propose: Callable[[Site], Iterator[Change]]


TEMPLATES: Final[tuple[Template, ...]] = (
    Template("add_null_check", "check for None before use", 0.7, absence.add_null_check),
    Template("add_guard", "guard against nothing: zero, an empty sequence", 0.6, absence.add_guard),
    Template("off_by_one", "one more or one less in a range, index, slice, count", 1.1,
             bounds.off_by_one),
    Template("swap_comparison", "another comparison operator", 1.3, operators.comparisons),
    Template("swap_arithmetic", "another arithmetic operator, sign or bracket", 0.8,
             operators.arithmetic),
    Template("fix_boolean", "and/or, a missing or superfluous not", 0.8, operators.booleans),
    Template("wrong_variable", "another name in scope", 0.45, names.wrong_variable),
    Template("missing_return", "return what was computed", 0.9, flow.missing_return),
    Template("move_statement", "a statement into or out of a block", 0.7, flow.move_statement),
    Template("wrong_constant", "another constant, default or separator", 0.5, words.wrong_constant),
    Template("swap_arguments", "two arguments or operands the other way round", 0.7,
             calls.swap_arguments),
    Template("fix_call", "a keyword's name, a call too many or missing, self", 0.9, calls.fix_call),
    Template("missing_import", "import the undefined name", 1.0, lookups.missing_import),
    Template("rename_attribute", "the attribute that exists", 1.0, lookups.rename_attribute),
    Template("rename_key", "the key that exists, or do without", 1.0, lookups.rename_key),
    Template("fix_string", "an f-string, a format, white space, case", 0.6, words.fix_string),
    Template("swap_function", "the function that is mixed up with this one", 0.6,
             words.swap_function),
    Template("fix_rounding", "digits of a round", 0.5, words.fix_rounding),
    Template("convert_type", "convert an operand", 0.5, calls.convert_type),
    Template("add_base_case", "end a recursion", 1.0, absence.add_base_case),
    Template("mutable_default", "a fresh value for each call", 0.8, absence.mutable_default),
    Template("initialise", "a first value on every path", 1.0, absence.initialise),
    Template("fix_syntax", "a colon, a bracket, an equals sign", 1.0, calls.fix_syntax),
)  # fmt: skip
NAMES: Final[frozenset[str]] = frozenset([template.name for template in TEMPLATES])
