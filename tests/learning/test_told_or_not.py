"""Lessons shown after a repeated error, by cases of five languages."""

from typing import Literal, NamedTuple

import pytest

from taofold.core.failing_checks import Check, Location
from taofold.learning.extraction.history import FileChange
from tests.learning.test_readers import loop, told

When = Literal["at once", "never"]


class Case(NamedTuple):
    """An error with the lines that cured it, and an error that is met in another project."""

    name: str
    error: str
    there: str
    gone: str
    new: str
    here: str
    when: When
    suffix: str = "py"


# fmt: off
PYTHON = [
    Case("a match that is not checked", "AttributeError",
         "'NoneType' object has no attribute 'group'",
         'm = re.match(r"\\d+", text)\nreturn m.group(0)',
         'm = re.search(r"\\d+", text)\nif m is None:\n    return ""\nreturn m.group(0)',
         "'NoneType' object has no attribute 'group'", "at once"),
    Case("another attribute of nothing", "AttributeError",
         "'NoneType' object has no attribute 'mail'",
         "return user.mail", 'return user.mail if user else ""',
         "'NoneType' object has no attribute 'price'", "never"),
    Case("a data file beside the module", "FileNotFoundError",
         "[Errno 2] No such file or directory: 'data/rates.csv'",
         'return open("data/rates.csv")',
         'return open(Path(__file__).parent / "data" / "rates.csv")',
         "[Errno 2] No such file or directory: 'conf/users.json'", "at once"),
    Case("a path that was misspelt", "FileNotFoundError",
         "[Errno 2] No such file or directory: 'data/rate.csv'",
         'return open("data/rate.csv")', 'return open("data/rates.csv")',
         "[Errno 2] No such file or directory: 'conf/users.json'", "at once"),
    Case("a value that JSON does not know", "TypeError",
         "Object of type Decimal is not JSON serializable",
         "return json.dumps(row)", "return json.dumps(row, default=str)",
         "Object of type Decimal is not JSON serializable", "at once"),
    Case("another one", "TypeError", "Object of type Decimal is not JSON serializable",
         "return json.dumps(row)", "return json.dumps(row, default=str)",
         "Object of type datetime is not JSON serializable", "at once"),
    Case("a type of the language", "TypeError", "Object of type set is not JSON serializable",
         "return json.dumps(row)", "return json.dumps(sorted(row))",
         "Object of type bytes is not JSON serializable", "at once"),
    Case("a type that the message names", "TypeError",
         'can only concatenate str (not "int") to str',
         'return "sum " + total', 'return "sum " + str(total)',
         'can only concatenate str (not "int") to str', "at once"),
    Case("bytes in another encoding", "UnicodeDecodeError",
         "'utf-8' codec can't decode byte 0xe9 in position 3: unexpected end of data",
         'return raw.decode("utf-8")', 'return raw.decode("latin-1")',
         "'utf-8' codec can't decode byte 0xef in position 2: invalid continuation byte",
         "at once"),
    Case("a default that every object would share", "ValueError",
         "mutable default <class 'list'> for field rows is not allowed: use default_factory",
         "rows: list = []", "rows: list = field(default_factory=list)",
         "mutable default <class 'list'> for field opts is not allowed: use default_factory",
         "at once"),
    Case("times with and without a zone", "TypeError",
         "can't compare offset-naive and offset-aware datetimes",
         "return due < datetime.now()", "return due < datetime.now(timezone.utc)",
         "can't compare offset-naive and offset-aware datetimes", "at once"),
    Case("an import that is missing", "NameError", "name 'os' is not defined",
         "import sys", "import os\nimport sys", "name 'os' is not defined", "at once"),
    Case("a name that was misspelt", "NameError", "name 'totl' is not defined",
         "return totl", "return total", "name 'rows' is not defined", "at once"),
    Case("a name of the module that a function binds", "UnboundLocalError",
         "cannot access local variable 'n' where it is not associated with a value",
         "def inc():\n    n += 1", "def inc():\n    global n\n    n += 1",
         "cannot access local variable 'hits' where it is not associated with a value", "at once"),
    Case("an attribute of its own class", "AttributeError", "'Cart' object has no attribute 'rows'",
         "    pass", "    self.rows = []", "'Depot' object has no attribute 'lines'", "never"),
    Case("a module that one name hides", "AttributeError",
         "module 'datetime' has no attribute 'now'",
         "import datetime", "from datetime import datetime",
         "module 'datetime' has no attribute 'strptime'", "at once"),
    Case("a circle of imports", "ImportError",
         "cannot import name 'Rate' from partially initialized module 'bill'",
         "from bill import Rate\ndef gross(net):\n    return net",
         "def gross(net):\n    from bill import Rate\n    return net",
         "cannot import name 'User' from partially initialized module 'mail'", "at once"),
    Case("an index", "IndexError", "list index out of range",
         "return rows[len(rows)]", "return rows[-1]", "list index out of range", "never"),
    Case("another key", "KeyError", "'AT'",
         "return RATES[land]", "return RATES.get(land, 20)", "'CH'", "never"),
    Case("a sentence as a key", "KeyError", "\"Attempt to overwrite 'name' in LogRecord\"",
         "log.info(said, extra={'name': name})", "log.info(said, extra={'user': name})",
         "\"Attempt to overwrite 'module' in LogRecord\"", "at once"),
    Case("another sentence as a key", "KeyError", "\"Attempt to overwrite 'name' in LogRecord\"",
         "log.info(said, extra={'name': name})", "log.info(said, extra={'user': name})",
         "\"There is no item named 'x' in the archive\"", "never"),
    Case("a sentence that is half the same", "RuntimeError",
         "dictionary changed size during iteration of the rows",
         "for key in rows:", "for key in list(rows):",
         "deque mutated during iteration of the rows", "at once"),
    Case("a sentence in which one word is another", "TypeError",
         "can't subtract offset-naive and offset-aware datetimes",
         "return datetime.now() - start", "return datetime.now(timezone.utc) - start",
         "can't compare offset-naive and offset-aware datetimes", "at once"),
]
NODE = [
    Case("a suffix that modules need", "ERR_MODULE_NOT_FOUND",
         "Cannot find module '/a/src/rates' imported from /a/src/index.js",
         "import { rate } from './rates'", "import { rate } from './rates.js'",
         "Cannot find module '/b/lib/users' imported from /b/lib/main.js", "at once", "js"),
    Case("a suffix in a folder of its own", "ERR_MODULE_NOT_FOUND",
         "Cannot find module 'rates' imported from a.js",
         "import { rate } from './rates'", "import { rate } from './rates.js'",
         "Cannot find module 'lib/users' imported from lib/b.js", "at once", "js"),
    Case("a suffix that a bundler needs", "Error", "Cannot find module './rates'",
         "import { rate } from './rates'", "import { rate } from './rates.js'",
         "Cannot find module './users'", "at once", "js"),
    Case("a module that was misspelt", "Error", "Cannot find module './rats'",
         "import { rate } from './rats'", "import { rate } from './rates'",
         "Cannot find module './users'", "never", "js"),
    Case("modules of the other kind", "SyntaxError", "Cannot use import statement outside a module",
         '  "name": "bill",', '  "name": "bill",\n  "type": "module",',
         "Cannot use import statement outside a module", "at once", "json"),
    Case("a sign too many", "SyntaxError", "Unexpected token '}'",
         "run({}})", "run({})", "Unexpected token '}'", "at once", "js"),
    Case("a name that nobody imports", "ReferenceError", "rates is not defined",
         "import a from 'a'", "import a from 'a'\nimport rates from './rates.js'",
         "users is not defined", "at once", "js"),
    Case("a method that is none", "TypeError", "rows.filter is not a function",
         "return rows.filter(Boolean)", "return Object.values(rows).filter(Boolean)",
         "cart.map is not a function", "never", "js"),
]
RUST_AND_GO = [
    Case("a trait that has the method", "E0599",
         "no method named `write_all` found for struct `Vec<u8>` in the current scope",
         "use std::fs;", "use std::fs;\nuse std::io::Write;",
         "no method named `flush` found for struct `File` in the current scope", "at once", "rs"),
    Case("a method that was written", "E0599",
         "no method named `gross` found for struct `Bill` in the current scope",
         "}", "    fn gross(&self) -> u32 {\n        self.net * 2\n    }\n}",
         "no method named `total` found for struct `Cart` in the current scope", "at once", "rs"),
    Case("a value that was moved", "E0382", "borrow of moved value: `rows`",
         "    take(rows);\n    rows.len()", "    take(rows.clone());\n    rows.len()",
         "borrow of moved value: `job`", "at once", "rs"),
    Case("a value that is lent instead", "E0382", "use of moved value: `rows`",
         "    take(rows);\n    rows.len()", "    take(&rows);\n    rows.len()",
         "use of moved value: `job`", "at once", "rs"),
    Case("a type that nobody brings in", "E0433",
         "failed to resolve: use of undeclared type `HashMap`",
         "use a::B;", "use a::B;\nuse std::collections::HashMap;",
         "failed to resolve: use of undeclared type `HashMap`", "at once", "rs"),
    Case("another operation that overflows", "panic", "attempt to multiply with overflow",
         "    rate * days", "    rate.saturating_mul(days)", "attempt to subtract with overflow",
         "never", "rs"),
    Case("the operation that overflows", "panic", "attempt to subtract with overflow",
         "    space - used", "    space.saturating_sub(used)", "attempt to subtract with overflow",
         "at once", "rs"),
    Case("types of the program", "E0308", "mismatched types",
         "    total", "    total as u64", "mismatched types", "never", "rs"),
    Case("a map that nobody made", "panic", "assignment to entry in nil map",
         "\tm.of[k] = 1", "\tm.of = make(map[string]int)\n\tm.of[k] = 1",
         "assignment to entry in nil map", "at once", "go"),
    Case("a channel that all wait for", "panic", "all goroutines are asleep - deadlock!",
         "\tfill(out)", "\tgo func() {\n\t\tfill(out)\n\t\tclose(out)\n\t}()",
         "all goroutines are asleep - deadlock!", "at once", "go"),
    Case("a pointer to nothing", "panic",
         "runtime error: invalid memory address or nil pointer dereference",
         "\treturn u.Mail", '\tif u == nil {\n\t\treturn ""\n\t}\n\treturn u.Mail',
         "runtime error: invalid memory address or nil pointer dereference", "never", "go"),
]
LINTERS = [
    Case("an import that is not used", "F401", "`os` imported but unused",
         "import os\nimport sys", "import sys", "`json` imported but unused", "at once"),
    Case("one of several that are imported", "F401", "`typing.Any` imported but unused",
         "from typing import Any, Final", "from typing import Final",
         "`typing.List` imported but unused", "at once"),
    Case("a value that is not used", "F841", "Local variable `rows` is assigned to but never used",
         "    rows = load(path)", "    load(path)",
         "Local variable `total` is assigned to but never used", "at once"),
    Case("a name that says nothing", "E741", "Ambiguous variable name: `l`",
         "for l in lines:\n    print(l)", "for row in lines:\n    print(row)",
         "Ambiguous variable name: `O`", "at once"),
    Case("a variable of a loop that is not used", "B007",
         "Loop control variable `key` not used within loop body",
         "for key, row in rows.items():", "for _key, row in rows.items():",
         "Loop control variable `n` not used within loop body", "at once"),
    Case("lines in another order", "I001", "Import block is un-sorted or un-formatted",
         "import sys\nimport os\na = 1", "import os\nimport sys\na = 1",
         "Import block is un-sorted or un-formatted", "at once"),
    Case("a word that every sentence has", "C0104", "Name 'cart' is not allowed",
         "if cart == depot:", "if cart is depot:", "Name 'depot' is not allowed", "at once"),
    Case("an error that is caught alone", "BLE001", "Do not catch blind exception: `Exception`",
         "except Exception:", "except ValueError:", "Do not catch blind exception: `Exception`",
         "at once"),
    Case("what the message asks for under a name", "B904",
         "Within an `except` clause, raise exceptions with `raise ... from err`",
         'except ValueError:\n    raise RowError("x")',
         'except ValueError as e:\n    raise RowError("x") from e',
         "Within an `except` clause, raise exceptions with `raise ... from err`", "at once"),
    Case("what the message asks for with its import", "PTH123",
         "`open()` should be replaced by `Path.open()`",
         'rows = open("x")', 'from pathlib import Path\nrows = Path("x").open()',
         "`open()` should be replaced by `Path.open()`", "at once"),
    Case("what the message asks for", "E711", "Comparison to `None` should be `cond is None`",
         "if row == None:", "if row is None:", "Comparison to `None` should be `cond is None`",
         "at once"),
    Case("a default that all calls share", "B006",
         "Do not use mutable data structures for argument defaults",
         "def add(row, rows=[]):\n    rows.append(row)",
         "def add(row, rows=None):\n    rows = rows or []\n    rows.append(row)",
         "Do not use mutable data structures for argument defaults", "at once"),
    Case("a closure over a loop's variable", "B023",
         "Function definition does not bind loop variable `row`",
         "    calls.append(lambda: run(row))", "    calls.append(partial(run, row))",
         "Function definition does not bind loop variable `job`", "at once"),
    Case("a key that the type does not have", "TS7053",
         "No index signature was found on type 'Rates'",
         "const rates = {", "const rates: Record<string, number> = {",
         "No index signature was found on type 'Names'", "at once", "ts"),
    Case("a type that is not the one", "TS2322",
         "Type 'string' is not assignable to type 'number'.",
         "  return text;", "  return Number(text);", "Type 'Cart' is not assignable to type 'Row'.",
         "never", "ts"),
]
# fmt: on


def check(case: Case, message: str, path: str, function: str = "") -> Check:
    place = Location(f"{path}.{case.suffix}", 2, function)
    return Check(f"t::{path}", "failed", case.error, message, (place,))


@pytest.mark.parametrize(
    "case",
    [*PYTHON, *NODE, *RUST_AND_GO, *LINTERS],
    ids=lambda case: f"{case.error}: {case.name}",
)
def test_when_a_lesson_is_told(case: Case) -> None:
    change = FileChange(f"bill.{case.suffix}", f"{case.gone}\n", f"{case.new}\n")
    known = [loop("first", change, check(case, case.there, "bill"))]
    now = check(case, case.here, "lib/tax")
    at_once, later = (bool(told(known, now, failed=failed)) for failed in (False, True))
    assert at_once is later is (case.when == "at once")


def test_every_crate_has_a_file_of_the_same_name() -> None:
    types = next(case for case in RUST_AND_GO if case.error == "E0308")
    there = check(types, types.there, "src/lib")
    change = FileChange("src/lib.rs", f"{types.gone}\n", f"{types.new}\n")
    assert told([loop("first", change, there)], there) == ""


def test_where_a_library_asserts_is_no_place_of_the_project() -> None:
    """Two unrelated mocks that were not called once report the same function of `unittest.mock`."""

    def uncalled(name: str, said: str, path: str) -> Check:
        places = (
            Location(f"tests/test_{path}.py", 12, f"test_{name}"),
            Location("/usr/lib/python3.11/unittest/mock.py", 902, "assert_called_once"),
        )
        message = f"Expected '{name}' to have been called once. Called {said} times."
        return Check(f"tests/test_{path}.py::{name}", "failed", "AssertionError", message, places)

    change = FileChange(
        "shop/pay.py", "from shop.bank import charge\n", "from shop import bank as charge\n"
    )
    known = [loop("first", change, uncalled("charge", "0", "pay"))]
    twice = uncalled("notify", "2", "refunds")
    assert not any(told(known, twice, failed=failed) for failed in (False, True))
    assert told(known, uncalled("charge", "0", "pay"), failed=False), "the very test"
