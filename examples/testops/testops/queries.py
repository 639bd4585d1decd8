"""The part of JQL and CQL that the office understands: comparisons, AND, OR, parentheses.

Sources: https://support.atlassian.com/jira-software-cloud/docs/jql-operators/ and
https://developer.atlassian.com/cloud/confluence/advanced-searching-using-cql/
"""

import re
from collections.abc import Callable
from typing import Any, Final

Test = Callable[[dict[str, Any]], bool]
_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<text>"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*')|(?P<mark>!=|=|~|\(|\)|,)"""
    r"""|(?P<word>[\w.:/+-]+))"""
)


class QueryFault(Exception):
    """The query is not understood. The text is part of the service's error message."""


def condition(query: str, fields: frozenset[str]) -> tuple[Test, bool]:
    """Returns the test of a query, and whether the query is bounded by a condition.

    Args:
        query: The text of the query.
        fields: Names of the fields that exist.

    Raises:
        QueryFault: The query has an error.
    """
    where = re.split(r"(?i)(?<![\w.])order\s+by\b", query, maxsplit=1)[0]
    if not where.strip():
        return (lambda _: True), False
    parser = _Parser(_tokens(where), fields)
    test = parser.either()
    if parser.tokens:
        raise QueryFault(f"Expecting either 'OR' or 'AND' but got '{parser.tokens[0]}'.")
    return test, True


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    end, text = 0, text.strip()
    while end < len(text):
        found = _TOKEN.match(text, end)
        if found is None:
            raise QueryFault(f"The character '{text[end]}' is a reserved JQL character.")
        tokens.append(found[0].strip())
        end = found.end()
    return tokens


class _Parser:
    def __init__(self, tokens: list[str], fields: frozenset[str]) -> None:
        self.tokens, self.fields = tokens, fields

    def either(self) -> Test:
        tests = [self.every()]
        while self._is("or"):
            tests.append(self.every())
        return lambda item: any(test(item) for test in tests)

    def every(self) -> Test:
        tests = [self.single()]
        while self._is("and"):
            tests.append(self.single())
        return lambda item: all(test(item) for test in tests)

    def single(self) -> Test:
        if self._is("("):
            test = self.either()
            self._need(")")
            return test
        if self._is("not"):
            negated = self.single()
            return lambda item: not negated(item)
        name = self._take().lower()
        if name not in self.fields:
            raise QueryFault(f"Field '{name}' does not exist or you do not have permission.")
        return self._comparison(name)

    def _comparison(self, name: str) -> Test:
        operator = self._take().lower()
        if operator == "in":
            self._need("(")
            values = [self._value()]
            while self._is(","):
                values.append(self._value())
            self._need(")")
            return lambda item: bool(set(values) & set(_values(item, name)))
        if operator not in ("=", "!=", "~"):
            raise QueryFault(f"Expecting operator but got '{operator}'.")
        value = self._value()
        if operator == "~":
            words = value.split()
            return lambda item: all(word in " ".join(_values(item, name)) for word in words)
        if value == "empty":
            return lambda item: (not any(_values(item, name))) is (operator == "=")
        return lambda item: (value in _values(item, name)) is (operator == "=")

    def _value(self) -> str:
        text = self._take()
        if text[0] in "\"'":
            text = re.sub(r"\\(.)", r"\1", text[1:-1])
        elif text in ("(", ")", ",", "=", "~", "!="):
            raise QueryFault(f"Expecting a value but got '{text}'.")
        return text.lower()

    def _take(self) -> str:
        if not self.tokens:
            raise QueryFault("Expecting more, but the query ends.")
        return self.tokens.pop(0)

    def _is(self, word: str) -> bool:
        if self.tokens and self.tokens[0].lower() == word:
            self.tokens.pop(0)
            return True
        return False

    def _need(self, word: str) -> None:
        if not self._is(word):
            raise QueryFault(f"Expecting '{word}'.")


def _values(item: dict[str, Any], name: str) -> list[str]:
    value = item.get(name)
    values = value if isinstance(value, list) else [value]
    return [str(one).lower() for one in values if one]
