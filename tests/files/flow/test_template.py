"""Templates: supported expressions, and bounded refusal of the others."""

from typing import Any

import pytest

from taofold.files.expressions.template import Template, Unrenderable, is_template

STATE: dict[str, Any] = {
    "state": {
        "n": 3,
        "items": [1, 2],
        "hostile": "{{ 7 * 7 }}{% for x in range(9) %}x{% endfor %}",
        "big": "a" * 1_000_000,
        "long": [1] * 100_000,
        "same": [1] * 100_000,
        "many": {str(number): number for number in range(100_000)},
        "deep": {"a": [1, {"b": None}]},
        "people": [{"name": "Ann", "on": True}, {"name": "Bob", "on": False}],
    }
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{{ state.n }}", 3),
        ("  {{ state.n }}\n", 3),
        ("{{ state.items }}", [1, 2]),
        ("{{ state.deep.a[1].b }}", None),
        ("n is {{ state.n }}", "n is 3"),
        ("{{ state.deep }} and {{ state.n > 2 }}", '{"a":[1,{"b":null}]} and true'),
        ("{{ state.items | tojson }}", "[1,2]"),
        ("{{ state.n ~ '-' ~ state.items }}", "3-[1,2]"),
        ("{% for i in state.items %}{{ loop.index }}:{{ i }} {% endfor %}", "1:1 2:2 "),
        ("{{ state.gone | default('none') }}", "none"),
        ("{{ 'yes' if state.n == 3 else 'no' }}", "yes"),
        ("{{ state.people | selectattr('on') | map('name') | join(', ') }}", "Ann"),
        ("{{ state.people | rejectattr('name', 'Ann') | length }}", 1),
        ("{{ ['b', 'a', 'b'] | unique | sort }}", ["a", "b"]),
        ("{{ state.get('n') + 1 }}", 4),
        ("{{ 'A b'.lower().split(' ') }}", ["a", "b"]),
        ("{{ '7' | int + 1 }}", 8),
        ("{{ 'x' | int }}", 0),
        ("{{ 'x' | float(1.5) }}", 1.5),
        ("{{ 'long text' | truncate(5) }}", "long text"),
        ("{{ 'a long text of words' | truncate(12) }}", "a long..."),
        ("{{ 'a long text of words' | truncate(12, true, '…') }}", "a long text…"),
        ("{{ ['a', 'b'] | map('upper') | join(',') }}", "A,B"),
        ("{{ state.people | map(attribute='age', default=0) | list }}", [0, 0]),
        ("{{ [[1, 2], [3]] | map('length') | sum }}", 3),
        ("{{ ['x', none] | map('default', 'd', true) | list }}", ["x", "d"]),
        ("{{ state.people | selectattr('name', 'equalto', 'Ann') | list | length }}", 1),
        ("{{ state.people | selectattr('gone', 'defined') | list }}", []),
        ("{{ [{'n': 1}, {'n': 5}] | selectattr('n', '>', 2) | map(attribute='n') | first }}", 5),
        ("{{ [1, 2, 3, 4] | select('even') | list }}", [2, 4]),
        ("{{ [1, none, 2] | reject('none') | list }}", [1, 2]),
        ("{{ [{'p': 2}, {'p': 3}] | sum(attribute='p') }}", 5),
        ("{{ [{'p': 2}, {'p': 3}] | join('+', attribute='p') }}", "2+3"),
        ("{{ ['b', 'A', 'c'] | sort }}", ["A", "b", "c"]),
        ("{{ ['b', 'A'] | sort(case_sensitive=true) }}", ["A", "b"]),
        (
            "{{ [{'a': {'b': 2}}, {'a': {'b': 1}}] | sort(attribute='a.b') | first }}",
            {"a": {"b": 1}},
        ),
        ("{{ ['a', 'A'] | unique | list }}", ["a"]),
        ("{{ '3.7' | int }}", 3),
        ("{{ 'ff' | int(0, 16) }}", 255),
        ("{{ '' | default('x', boolean=true) }}", "x"),
        ("{{ 2.31 | round(1, 'ceil') }}", 2.4),
        ("{{ '%.2f of %s' | format(1.005, 'b') }}", "1.00 of b"),
        ("{{ {'b': 1, 'a': 2} | dictsort }}", [["a", 2], ["b", 1]]),
        (
            "{{ [{'k': 'x'}, {'k': 'y'}, {'k': 'x'}] | groupby('k') | map('first') | list }}",
            ["x", "y"],
        ),
        ("{{ [1, 2, 3] | batch(2) | list }}", [[1, 2], [3]]),
        ("{{ '{\"a\": 1}' | fromjson }}", {"a": 1}),
        ("{{ 'no json' | fromjson }}", "no json"),
        ("{{ 'a b c' | wordcount }}", 3),
        ("{{ '<b>' | escape }}", "&lt;b&gt;"),
        ("{{ '<b>' | safe }}", "<b>"),
        ("{{ 'aaa' | replace('a', 'b', 2) }}", "bba"),
        ("{{ 'a-b'.replace('-', '+') }}", "a+b"),
        ("{{ ', '.join(['a', 'b']) }}", "a, b"),
        ("{{ ' a '.rstrip() ~ 'b'.capitalize() }}", " aB"),
        ("{% set x = state.n + 1 %}{{ x }}", "4"),
        ("{% for i in [1, 2] %}{% set y = i * 2 %}{{ y }} {% endfor %}", "2 4 "),
        ("{{ 'a\nb' | indent(2) }}", "a\n  b"),
        ("{{ 'a\nb' | indent(2, true) }}", "  a\n  b"),
        ("{{ state.n is defined and state.gone is undefined }}", True),
        ("{{ [1, 2] + [3] }}", [1, 2, 3]),
        ("{{ 7 // 2 }}", 3),
        ("{{ 2.5 * 2 }}", 5.0),
        ("{{ {'a': 1}.items() | list }}", [["a", 1]]),
        ("{{ {'a': 1} | items }}", [["a", 1]]),
        ("{{ range(3) | list }}", [0, 1, 2]),
        ("{{ -state.n }}", -3),
        ("{{ 2.567 | round(1) }}", 2.6),
        ("{{ [] | first }}", None),
        ("{{ [1, 2] | reverse | last }}", 1),
        ("{{ 'ab' * 2 }}", "abab"),
        ("plain", "plain"),
    ],
)
def test_a_template_gives(text: str, value: object) -> None:
    assert Template(text).render(STATE) == value


@pytest.mark.scenario("TEA-36")
@pytest.mark.parametrize(
    "text",
    [
        "{{ ''.__class__ }}",
        "{{ state.__class__ }}",
        "{{ state['__class__'] }}",
        "{{ ().__class__.__mro__[1].__subclasses__() }}",
        "{{ state | attr('__class__') }}",
        "{{ state.items.__init__ }}",
        "{{ self._TemplateReference__context }}",
        "{{ state.get.__self__ }}",
        "{{ state.n.real }}",
        "{{ state.items.append(4) }}",
        "{{ state.update({'n': 4}) }}",
        "{{ '{0.__class__}'.format(state) }}",
        "{{ '%s' % state }}",
        "{{ lipsum.__globals__ }}",
        "{{ cycler }}",
        "{{ state.people | map(attribute='__class__') | first | default(1) + state.get.__self__ }}",
        "{% set x, y = 1, 2 %}{{ x }}",
        "{% set x %}a{% endset %}{{ x }}",
        "{% set state.n = 4 %}{{ state.n }}",
        "{{ '%*d' | format(1000000000, 1) }}",
        "{{ '%1000000000d' | format(1) }}",
        "{{ range(60000) | map('replace', '1', state.big) | list }}",
        "{{ range(9) | map('string') | map('replace', '1', state.big ~ state.big) | list }}",
        "{{ [1] | batch(1000000000, 0) }}",
        "{{ state.big.replace('a', state.big) }}",
        "{{ state.big.join(['a'] * 1000) }}",
        "{% set a = state.big %}{% set a = a ~ a %}{% set a = a ~ a %}{{ a }}",
        "{% for a in range(9999) %}{{ range(99) | select('in', state.many) | list }}{% endfor %}",
        "{% include 'x' %}",
        "{% import 'x' as x %}",
        "{% macro m() %}{% endmacro %}",
        "{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
        "{{ 'a' * 10**10 }}",
        "{{ [1] * 10**10 }}",
        "{{ 2 ** (10 ** 9) }}",
        "{{ 10 ** (10 ** 10) }}",
        "{{ 1.5 ** 9999 }}",
        "{{ '%01000000000d' % 1 }}",
        "{{ 'x' | center(10**9) }}",
        "{{ 'x' | indent(10**9) }}",
        "{{ range(10**12) | list }}",
        "{{ state.big ~ state.big }}",
        "{{ state.big + state.big }}",
        "{{ state.big | replace('a', state.big) }}",
        "{{ state.items | join(state.big) ~ state.big }}",
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}",
        "{% for a in range(9999) %}{{ state.big }}{% endfor %}",
        "{% for a in range(99999) %}{% if state.big | upper == 'x' %}{% endif %}{% endfor %}",
        "{% for a in range(99999) %}{% if state.big.upper() == 'x' %}{% endif %}{% endfor %}",
        "{{ " + "(" * 4000 + "1" + ")" * 4000 + " }}",
        "{{ state.gone }}",
        "{{ gone }} text",
        "{{ state.gone.more }}",
        "{{ state.gone['more'] }}",
        "{{ state.gone + 1 }}",
        "{{ 1 / 0 }}",
        "{{ state.n + 'x' }}",
        "{{ state.get }}",
        "{{ state.n | nosuch }}",
        "{{ state.n is nosuch }}",
        "{{ state.n",
        "x" * 300_000,
        "{{ [state.big] * 1000 }}",
        "{{ ([[[[1] * 1000] * 1000] * 1000] * 1000) | tojson | length }}",
        "{{ [[[1] * 1000] * 1000] * 1000 == [[[1] * 1000] * 1000] * 1000 }}",
        "{{ ([[1] * 1000] * 1000) | sum([]) | length }}",
        "{{ 5 | round(-100000000) }}",
        "{{ state.big ~ (state.big ~ state.big) }}",
        "{{ {'a': [state.big, {'b': [state.big, state.big]}]} | length }}",
        "{% for a in [[state.big, state.big]] %}{% for b in [[a, a]] %}{{ b | length }}"
        "{% endfor %}{% endfor %}",
        "{% for a in range(99999) %}{% if 'b' in state.big %}{% endif %}{% endfor %}",
        "{% for a in range(99999) %}{% if state.big is in(state.big) %}{% endif %}{% endfor %}",
        "{% for a in range(99999) %}{% if state.big[1:] %}{% endif %}{% endfor %}",
        "{% for a in range(99999) %}{% if state.many.gone is defined %}{% endif %}{% endfor %}",
        "{% for i in [1] %}" * 60 + "x" + "{% endfor %}" * 60,
        "{% for a in range(99999) %}{% if state.long == state.same %}{% endif %}{% endfor %}",
        "{% for a in range(99999) %}{% if state.long[1:] %}{% endif %}{% endfor %}",
        "{{ 1e999 }} and text",
        "{{x}}" * 40_000,
        "{{ " + "x ~ " * 40_000 + "x }}",
        "{{ " + "[" * 900 + "1" + "]" * 900 + " }}",
    ],
)
def test_a_template_is_refused_within_a_bound(text: str) -> None:
    with pytest.raises(Unrenderable):
        Template(text).render(STATE)


def test_what_a_model_wrote_is_never_rendered() -> None:
    hostile = STATE["state"]["hostile"]
    assert Template("{{ state.hostile }}").render(STATE) == hostile
    assert Template("a {{ state.hostile }} b").render(STATE) == f"a {hostile} b"


def test_a_key_wins_over_a_method() -> None:
    assert Template("{{ state.items }}").render({"state": {"items": 1}}) == 1


def test_a_missing_key_is_told_with_what_was_meant() -> None:
    with pytest.raises(Unrenderable, match=r"there is no 'peple'; did you mean 'people'"):
        Template("{{ state.peple }}").render(STATE)


def test_the_names_that_a_template_needs_are_known() -> None:
    assert Template("{% for x in state.a %}{{ x }}{{ other }}{% endfor %}").names == {
        "state",
        "other",
    }


def test_text_with_marks_is_a_template() -> None:
    assert is_template("{{ x }}")
    assert not is_template("{ x }")
