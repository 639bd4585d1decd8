"""Names in Python code of a file, read without running it."""

import ast
import warnings


def written_names(code: str) -> frozenset[str]:
    """Returns the keys of mappings that a program writes: those that it may return."""
    try:
        # A body with `return` is no program, so it is parsed as a function's.
        lines = "\n".join([f" {line}" for line in code.split("\n")])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in texts of the program
            tree = ast.parse(f"def body():\n{lines}\n pass")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(tree):
        written: list[ast.expr | None] = []
        if isinstance(node, ast.Dict):
            written = list(node.keys)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
            written = [node.slice]
        texts = [key.value for key in written if isinstance(key, ast.Constant)]
        names |= {text for text in texts if isinstance(text, str)}
    return frozenset(names)
