"""The documented repair templates: their names, effects and priors.

The modules of this package implement them, by the part of the code that they change: `calls`,
`constants`, `names`, `operators`, `statements`. The names are the `fix_category` of learnt
patterns, so they are public.
"""

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple

from taofold_repair.site import Site
from taofold_repair.source import Change
from taofold_repair.templates.calls import convert_type, fix_call, fix_syntax, swap_arguments
from taofold_repair.templates.constants import (
    fix_rounding,
    fix_string,
    swap_function,
    wrong_constant,
)
from taofold_repair.templates.names import (
    missing_import,
    rename_attribute,
    rename_key,
    wrong_variable,
)
from taofold_repair.templates.operators import arithmetic, booleans, comparisons, off_by_one
from taofold_repair.templates.statements import (
    add_base_case,
    add_guard,
    add_null_check,
    initialise,
    missing_return,
    move_statement,
    mutable_default,
)


class RepairTemplate(NamedTuple):
    """One repair. `prior` compares templates before anything is known about the failure."""

    name: str
    does: str
    prior: float
    propose: Callable[[Site], Iterator[Change]]


# A prior is multiplied by the weight of each change that its template proposes (`rank`).
TEMPLATES: Final[tuple[RepairTemplate, ...]] = (
    RepairTemplate("add_null_check", "check for None before use", 0.7, add_null_check),
    RepairTemplate("add_guard", "guard against nothing: zero, an empty sequence", 0.6, add_guard),
    RepairTemplate(
        "off_by_one", "one more or one less in a range, index, slice, count", 1.1, off_by_one
    ),
    RepairTemplate("swap_comparison", "another comparison operator", 1.3, comparisons),
    RepairTemplate(
        "swap_arithmetic", "another arithmetic operator, sign or bracket", 0.8, arithmetic
    ),
    RepairTemplate("fix_boolean", "and/or, a missing or superfluous not", 0.8, booleans),
    RepairTemplate("wrong_variable", "another name in scope", 0.45, wrong_variable),
    RepairTemplate("missing_return", "return what was computed", 0.9, missing_return),
    RepairTemplate("move_statement", "a statement into or out of a block", 0.7, move_statement),
    RepairTemplate("wrong_constant", "another constant, default or separator", 0.5, wrong_constant),
    RepairTemplate(
        "swap_arguments", "two arguments or operands the other way round", 0.7, swap_arguments
    ),
    RepairTemplate("fix_call", "a keyword's name, a call too many or missing, self", 0.9, fix_call),
    RepairTemplate("missing_import", "import the undefined name", 1.0, missing_import),
    RepairTemplate("rename_attribute", "the attribute that exists", 1.0, rename_attribute),
    RepairTemplate("rename_key", "the key that exists, or do without", 1.0, rename_key),
    RepairTemplate("fix_string", "an f-string, a format, white space, case", 0.6, fix_string),
    RepairTemplate(
        "swap_function", "the function that is mixed up with this one", 0.6, swap_function
    ),
    RepairTemplate("fix_rounding", "digits of a round", 0.5, fix_rounding),
    RepairTemplate("convert_type", "convert an operand", 0.5, convert_type),
    RepairTemplate("add_base_case", "end a recursion", 1.0, add_base_case),
    RepairTemplate("mutable_default", "a fresh value for each call", 0.8, mutable_default),
    RepairTemplate("initialise", "a first value on every path", 1.0, initialise),
    RepairTemplate("fix_syntax", "a colon, a bracket, an equals sign", 1.0, fix_syntax),
)
NAMES: Final[frozenset[str]] = frozenset([template.name for template in TEMPLATES])
