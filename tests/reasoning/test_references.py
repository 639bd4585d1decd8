"""References to earlier results: native values, clear reasons, and nothing that is evaluated."""

from typing import Any

import pytest

from taofold.reasoning.dependencies import Unresolved, references, resolve

RESULTS: dict[str, Any] = {
    "task_1": {"path": ["a.txt", {"deep": 3}], "n": 7, "odd key": None, "t": "{{ task_2.output }}"},
    "task_2": "plain",
    "list-3": [[1, 2], []],
}


def lookup(id_: str) -> Any:
    if id_ not in RESULTS:
        raise Unresolved(f"there is no result of a task {id_!r}")
    return RESULTS[id_]


@pytest.mark.scenario("TAG-31")
@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("{{ task_1.output.path[0] }}", "a.txt"),
        ("{{task_1.output.path[1].deep}}", 3),
        ("  {{ task_1.output.n }} ", 7),
        ("{{ task_1.output }}", RESULTS["task_1"]),
        ("{{ task_1.output['odd key'] }}", None),
        ("{{ list-3.output[0] }}", [1, 2]),
        ("{{ list-3.output.0.1 }}", 2),
        ("{{ task_2.output }}", "plain"),
        ("n={{ task_1.output.n }}, {{ task_2.output }}", "n=7, plain"),
        ("all: {{ list-3.output }}", "all: [[1,2],[]]"),
        ({"k": ["{{ task_1.output.n }}", 1, None]}, {"k": [7, 1, None]}),
        ("{{ user.name }} and {% if x %}", "{{ user.name }} and {% if x %}"),
        ("no reference", "no reference"),
    ],
)
def test_a_reference_alone_gives_the_native_value_and_in_text_its_text(
    given: Any, wanted: Any
) -> None:
    assert resolve(given, lookup, RESULTS) == wanted


@pytest.mark.scenario("TAG-31")
@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ("{{ task_9.output }}", "no result of a task 'task_9'"),
        ("{{ task_1.output.nope }}", "task_1.output has no 'nope'; its keys: 'path', 'n'"),
        ("{{ task_1.output.path[7] }}", "task_1.output.path has 2 entries"),
        ("{{ task_1.output.n.x }}", "task_1.output.n is a number: it has no 'x'"),
        ("{{ task_2.output[0] }}", "is text: it has no [0]"),
        ("{{ task_1.output['odd key'].x }}", "is null"),
        ("{{ task_1.output.path.x }}", "is a list"),
        ("{{ task_1.output.n | upper }}", "is no reference"),
        ("{{ task_1.output.n * 9 }}", "is no reference"),
        ("{{ task_1 }}", "is no reference"),
        ("{{ task_1.result.n }}", "is no reference"),
        ("{{ task_1['n'] }}", "is no reference"),
        ("{{ task_1.output.n", "is no reference"),
        ({"deep": [{"x": "{{ task_9.output.a }}"}]}, "task_9"),
    ],
)
def test_a_reference_that_leads_nowhere_says_where_it_breaks_off(given: Any, reason: str) -> None:
    with pytest.raises(Unresolved) as broken:
        resolve(given, lookup, RESULTS)
    assert reason in str(broken.value)


def test_of_many_keys_the_first_ten_are_named() -> None:
    with pytest.raises(Unresolved) as broken:
        resolve("{{ t.output.nope }}", lambda _: {f"k{n}": n for n in range(12)}, ["t"])
    assert str(broken.value).endswith("'k8', 'k9'")


@pytest.mark.scenario("TEA-36")
def test_what_a_result_says_is_never_read_as_a_reference() -> None:
    assert resolve("{{ task_1.output.t }}", lookup, RESULTS) == "{{ task_2.output }}"
    assert resolve("see {{ task_1.output.t }}", lookup, RESULTS) == "see {{ task_2.output }}"


@pytest.mark.scenario("TEA-36")
@pytest.mark.parametrize("dunder", ["__class__", "__init__", "keys", "items"])
def test_a_reference_walks_data_and_no_attributes(dunder: str) -> None:
    with pytest.raises(Unresolved):
        resolve(f"{{{{ task_1.output.{dunder} }}}}", lookup, RESULTS)


def test_text_cannot_grow_without_bound() -> None:
    with pytest.raises(Unresolved, match="longer than"):
        resolve("{{ a.output }} " * 200, lambda _: "x" * 1000, {"a"})


def test_referred_finds_the_ids() -> None:
    given = {"a": "{{ t1.output.x }} {{ t2.output }}", "b": ["{{ t3.output[0] }}", 5]}
    assert list(references(given)) == ["t1", "t2", "t3"]
