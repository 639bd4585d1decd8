"""The names of repairs: the eight categories of the pattern schema, the templates' own, the words
of code that tell them apart. Only tables.
"""

import re
from typing import Final, Literal, TypeAlias, get_args

Category: TypeAlias = Literal[
    "add_null_check", "add_type_validation", "add_error_handling", "fix_logic_error", "add_import",
    "update_dependency", "refactor_code_structure", "other",
]  # fmt: skip
CATEGORIES: Final[tuple[Category, ...]] = get_args(Category)

COMPARISONS: Final = frozenset({"<", "<=", ">", ">=", "==", "!=", "in", "is", "not"})
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "//", "%", "**", "&", "|", "^", "<<", ">>"})
ASSIGNING: Final = frozenset({"=", "+=", "-=", "*=", "/=", "//=", "%=", "**=", "|=", "&="})
BOOLEAN: Final = frozenset({"and", "or", "not", "&&", "||", "!"})
CASTS: Final = frozenset({"str", "int", "float", "bool", "list", "tuple", "set", "Decimal"})
POLISH: Final = frozenset({
    "strip", "lstrip", "rstrip", "lower", "upper", "title", "capitalize", "casefold", "replace",
    "format", "split", "join",
})  # fmt: skip
TWINS: Final = frozenset({
    "min", "max", "any", "all", "sorted", "reversed", "append", "extend", "sort", "add",
    "update", "pop", "remove", "discard", "insert", "popleft", "first", "last", "startswith",
    "endswith", "find", "index", "items", "keys", "values", "count", "sum", "len", "get",
})  # fmt: skip
DEPENDENCIES: Final = re.compile(
    r"(?:^|/)(?:requirements[\w.-]*\.(?:txt|in)|pyproject\.toml|package(?:-lock)?\.json|Cargo\.toml"
    r"|go\.mod|setup\.(?:py|cfg)|poetry\.lock|Gemfile|pom\.xml)$"
)
OF: Final[dict[str, Category]] = {
    "add_null_check": "add_null_check",
    "convert_type": "add_type_validation",
    "add_guard": "add_error_handling",
    "handle_error": "add_error_handling",
    "missing_import": "add_import",
    "update_dependency": "update_dependency",
    "restructure": "refactor_code_structure",
    "": "other",
}
BY_ERROR: Final = {
    ("AttributeError", "swap_function"): "rename_attribute",
    ("KeyError", "swap_function"): "rename_key",
    ("KeyError", "wrong_constant"): "rename_key",
    ("RecursionError", "add_guard"): "add_base_case",
    ("TypeError", "wrong_variable"): "fix_call",
    ("SyntaxError", ""): "fix_syntax",
    ("IndentationError", ""): "fix_syntax",
    ("UnboundLocalError", "add_null_check"): "initialise",
}
NEEDS: Final = {"rename_attribute": "AttributeError", "rename_key": "KeyError"}
"""Names that only make sense after this error: elsewhere the wrong one was taken."""
ELSE: Final = {"rename_attribute": "wrong_variable", "rename_key": "wrong_constant"}
