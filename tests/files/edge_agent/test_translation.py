"""Files of The Edge Agent: their control flow, state, settings and refusals, in our form."""

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from taofold.files.checked_yaml import parse
from taofold.files.edge_agent.recognition import is_foreign
from taofold.files.edge_agent.translation import Translation, translated
from tests.files.flow.kit import faults, flow, made, reasoned


def ours(text: str) -> Translation:
    """Returns the translation of a file."""
    document, wrong = parse(text, "tea.yaml")
    assert document is not None, wrong
    assert is_foreign(document.value)
    return translated(document)


def state(text: str, folder: Path, goal: str = "g", **changes: Any) -> dict[str, Any]:
    """Runs a file and returns its last state."""
    run = flow(text, folder, **changes).run_sync(goal)
    assert run.success, run.error
    output: dict[str, Any] = run.output
    return output


COT = "uses: reason.cot, with: {problem: p}"


def test_edges_are_the_goto_of_our_nodes() -> None:
    made = ours("""
nodes:
  - {name: last, run: {type: expression, value: "1 + 1", output_key: two}}
  - {name: first, run: {type: expression, value: "state.x", output_key: y}}
edges:
  - {from: __start__, to: first}
  - {from: first, to: last, when: "state.get('y', 0) > 3"}
  - {from: first, to: __end__, when: "!big"}
  - {from: last, to: __end__}
""")
    assert not made.faults
    value = made.document.value
    assert value["start"] == "first"
    last, first = value["nodes"]
    assert last == {"name": "last", "set": {"two": "{{ 1 + 1 }}"}, "goto": "end"}
    assert first["goto"] == [
        {"if": "state.get('y', 0) > 3", "to": "last"},
        {"if": 'not get(state, "big", false)', "to": "end"},
        {"to": "__fail__"},
    ]


ROUTES = """
state_schema: {mode: str}
nodes:
  - {name: route, run: {type: expression, value: "state.mode", output_key: way}%s}
  - {name: fast, run: {type: expression, value: "'F'", output_key: out}, next: __end__}
  - {name: slow, run: {type: expression, value: "'S'", output_key: out}, next: __end__}
%s
"""
EDGES = """edges:
  - {from: __start__, to: route}
  - {from: route, to: fast, condition: {type: expression, value: "state['way'] == 'fast'"}%s}
  - {from: route, to: slow%s}
"""


@pytest.mark.parametrize(
    "text",
    [
        ROUTES % (", next: [{condition: \"{{ state.way == 'fast' }}\", to: fast}, {to: slow}]", ""),
        ROUTES % (", goto: [{if: \"state.way == 'fast'\", to: fast}, {to: slow}]", ""),
        ROUTES % (", goto: [{if: \"lambda s: s['way'] == 'fast'\", to: fast}, {to: slow}]", ""),
        ROUTES % ("", EDGES % ("", "")),
        ROUTES
        % ("", EDGES % (", when: true", ", condition: \"state.way == 'fast'\", when: false")),
        ROUTES
        % (
            ", condition: \"return 'f' if state.get('way') == 'fast' else 's'\", "
            "paths: {f: fast, s: slow}",
            "",
        ),
    ],
)
def test_each_spelling_of_a_branch_leads_to_the_same_node(tmp_path: Path, text: str) -> None:
    agent = flow(text, tmp_path)
    for mode, out in (("fast", "F"), ("other", "S")):
        run = agent.run_sync("g", data={"mode": mode})
        assert run.success, run.error
        assert run.output["out"] == out


def test_a_node_without_a_way_whose_condition_holds_fails(tmp_path: Path) -> None:
    text = ROUTES % (", goto: [{if: \"state.way == 'fast'\", to: fast}]", "")
    run = flow(text, tmp_path).run_sync("g", data={"mode": "x"})
    assert "none of the conditions of its goto holds" in run.error


def test_a_test_of_a_missing_variable_is_false(tmp_path: Path) -> None:
    text = """
nodes:
  - {name: a, run: {type: expression, value: "state.gone", output_key: x}}
  - name: b
    uses: llm.call
    with: {prompt: "{% if state.gone and state.gone.more %}no{% else %}yes{% endif %}"}
    output: said
  - {name: c, run: {type: expression, value: 1, output_key: x}, condition: "{{ state.gone == 1 }}"}
edges: []
"""
    found = state(text.replace("value: 1,", "value: '1',"), tmp_path)
    assert found["said"]["content"] == "said: yes"
    assert found["x"] is None


def test_values_without_an_output_are_merged_and_others_are_read_from_the_result(
    tmp_path: Path,
) -> None:
    text = """
nodes:
  - {name: a, action: reason.cot, params: {problem: p}}
  - name: b
    action: reason.cot
    with: {problem: "{{ state.answer }}"}
    outputs: {second: "{{ action_result.answer }}", fixed: done, loud: "{{ result.answer|upper }}"}
"""
    found = state(text, tmp_path, say=lambda request: reasoned("blue"))
    assert (found["answer"], found["second"], found["fixed"], found["loud"]) == (
        *("blue", "blue", "done", "BLUE"),
    )
    assert "a" not in found


def test_parallel_edges_run_their_branches_and_meet(tmp_path: Path) -> None:
    text = """
nodes:
  - {name: begin, run: {type: expression, value: "2", output_key: n}}
  - {name: left, run: {type: expression, value: "state.n + 1", output_key: l}}
  - {name: left two, run: {type: expression, value: "state.l * 10", output_key: l}}
  - {name: right, run: {type: expression, value: "state.n + 5", output_key: r}}
  - name: meet
    fan_in: true
    run: {type: expression, output_key: total, value: "parallel(state.parallel_results)"}
edges:
  - {from: __start__, to: begin}
  - {from: begin, to: left, type: parallel, fan_in: meet}
  - {from: begin, to: right, type: parallel, fan_in: meet}
  - {from: left, to: left two}
  - {from: left two, to: meet}
  - {from: right, to: meet}
  - {from: meet, to: __end__}
"""
    both = "[state.parallel_results[0].state.l, state.parallel_results[1].state.r]"
    text = text.replace("parallel(state.parallel_results)", both)
    found = state(text, tmp_path)
    assert found["total"] == [30, 7]
    assert "l" not in found


def test_a_branch_that_shares_a_node_is_refused_with_its_line() -> None:
    made = ours("""
nodes: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]
edges:
  - {from: a, to: b, type: parallel, fan_in: e}
  - {from: a, to: c, type: parallel, fan_in: e}
  - {from: b, to: d}
  - {from: c, to: d}
  - {from: d, to: e}
""")
    (fault,) = made.faults
    assert (fault.line, fault.path) == (5, "edges[1]")
    assert "'d' belongs to two parallel branches" in fault.message


def test_loops_fan_outs_and_steps_are_ours(tmp_path: Path) -> None:
    text = """
initial_state: {count: 0, items: [1, 2, 3]}
nodes:
  - name: loop
    type: while_loop
    condition: "state.count < 4"
    max_iterations: 10
    body: [{name: more, run: {type: expression, value: "state.count + 1", output_key: count}}]
  - name: each
    type: dynamic_parallel
    items: "{{ state.items }}"
    item_var: number
    index_var: place
    max_concurrency: 2
    fan_in: both
    steps: [{name: Square it!, run: {type: expression, value: "state.number ** 2 + state.place",
             output_key: square}}]
    output: squares
  - name: both
    steps:
      - {run: {type: expression, value: "state.squares[2].state.square", output_key: third}}
      - {name: b, run: {type: expression, value: "state.third + state.count", output_key: sum}}
  - name: matrix
    strategy: {matrix: {x: [1, 2], y: [a, b]}}
    fan_in: done
    run: {type: expression, value: "state.matrix.y ~ state.matrix.x", output_key: pair}
  - {name: done, run: {type: expression, value: "len(state.parallel_results)", output_key: pairs}}
"""
    found = state(text, tmp_path)
    assert (found["count"], found["third"], found["sum"], found["pairs"]) == (4, 11, 15, 4)
    assert found["parallel_results"][3]["state"]["pair"] == "b2"


def test_code_is_a_python_node_whose_result_is_merged() -> None:
    made = ours("""
variables: {most: 3}
nodes:
  - name: Summarise all
    language: python
    run: |
      rest = state["found"][:${most}] + [{{ variables.most }}]
      return {"rest": rest}
    interrupt: after
  - {name: end, script: "return {}"}
config: {interrupt_before: [end], raise_exceptions: true, max_execution_time: 5000}
version: 1.0
""")
    assert not made.faults
    first, review, last = made.document.value["nodes"]
    code = 'rest = state["found"][:3] + [3]\nreturn {"rest": rest}\n'
    assert first == {
        "name": "Summarise_all",
        "uses": "python.run",
        "with": {"code": code},
        "merge": True,
    }
    assert (review["name"], review["set"]) == ("Summarise_all_review", {})
    assert review["approve"]
    assert (last["name"], last["approve"]) == ("end_node", True)
    assert made.document.value["limits"] == {"seconds": 5.0}
    assert made.document.value["version"] == "1.0"


def test_faults_of_translated_nodes_have_the_lines_of_the_source() -> None:
    text = """
nodes:
  - {name: a, uses: reason.cto, params: {problem: p}}
  - name: b
    uses: reason.cot
    with:
      problem: p
      thinking_form: tree
edges:
  - {from: a, to: b, when: "{{ stat.x }}"}
  - {from: a, to: c}
"""
    found = {(f.line, f.path): f.text for f in faults(text)}
    assert "did you mean 'reason.cot'" in found[3, "nodes[0].uses"]
    assert "did you mean 'thinking_format'" in found[8, "nodes[1].with.thinking_form"]
    assert "unknown name 'stat'" in found[10, "edges[0]"]
    assert "there is no node 'c'" in found[11, "edges[1].to"]


REFUSED = """
name: all that stays out
settings: {ltm: {backend: sqlite}, opik: {enabled: true}}
extraction_schema: {}
imports: [{path: ./my_actions.py, namespace: mine}]
nodes:
  - {name: a, language: lua, run: "return {x = 1}"}
  - name: b
    run: |
      % prolog
      return(x, 1).
  - {name: c, uses: ltm.store, with: {key: k, value: v}}
  - {name: d, uses: memory.mem0.add, with: {x: 1}}
  - {name: e, action: a2a.send}
  - {name: f, uses: reflection.loop}
  - {name: g, run: "return {'x': 1}", streams: {stdout: s}}
  - {name: h, uses: llm.call, with: {prompt: "{{ secrets.key }}", api_base: "http://x"}}
  - {name: i, run: "return {'x': {{ state.code }}}"}
  - {name: j, type: quantum}
  - {name: k, uses: llm.call, with: {prompt: "{{ env.HOME }}"}}
edges:
  - {from: a, to: b, stream_mode: broadcast}
  - {from: a, to: b, type: strange}
"""


def test_what_stays_out_is_refused_by_name_all_at_once_with_the_nearest_thing() -> None:
    found = faults(REFUSED)
    texts: dict[str, str] = {}
    for fault in found:
        texts[fault.path] = texts.get(fault.path, f"{fault.line}: ") + fault.text
    for path, line, name, nearest in [
        ("settings.ltm", 3, "settings.ltm", "memory.store"),
        ("extraction_schema", 4, "extraction_schema", "output_format"),
        ("imports[0]", 5, "my_actions.py", "`tools`"),
        ("nodes[0].run", 7, "Lua", "Python"),
        ("nodes[1].run", 9, "Prolog", "Python"),
        ("nodes[2].uses", 12, "ltm.store", "memory.store"),
        ("nodes[3].uses", 13, "memory.mem0.add", "memory.store"),
        ("nodes[4].action", 14, "a2a.send", "agent.NAME"),
        ("nodes[5].uses", 15, "reflection.loop", "reason.self_correct"),
        ("nodes[6].streams", 16, "streams", "state"),
        ("nodes[7].with.prompt", 17, "secrets", "environment"),
        ("nodes[7].with.api_base", 17, "api_base", "OPENAI_BASE_URL"),
        ("nodes[8].run", 18, "'state' cannot become code", "state['NAME']"),
        ("nodes[9].type", 19, "quantum", ""),
        ("nodes[10].with.prompt", 20, "'env' cannot be read", "--set"),
        ("edges[0].stream_mode", 22, "stream_mode", "state"),
        ("edges[1].type", 23, "strange", ""),
    ]:
        assert path in texts, "\n".join(texts)
        assert texts[path].startswith(f"{line}: "), texts[path]
        assert name in texts[path]
        assert nearest in texts[path]


def test_what_differs_without_a_result_is_a_note() -> None:
    made = ours("""
settings: {opik: {enabled: true}, shell_providers: {claude: {command: claude}}}
nodes: [{name: a, uses: llm.call, with: {prompt: p, provider: shell, shell_provider: claude}}]
edges: []
""")
    assert not made.faults
    notes = "\n".join(map(str, made.notes))
    assert "tea.yaml:2: settings.opik: 'settings.opik' has no effect here" in notes
    assert "the model of the run answers, not the program 'claude'" in notes
    assert made.document.value["nodes"][0]["with"] == {"prompt": "p", "reply": True}


@pytest.mark.parametrize(
    ("keys", "model"),
    [
        ("provider: ollama, model: 'gemma3:4b'", "ollama:gemma3:4b"),
        ("model: 'gemma3:4b'", "ollama:gemma3:4b"),
        ("model: gpt-4", "gpt-4"),
        ("model: 'openai:gpt-4'", "openai:gpt-4"),
        ("provider: litellm, model: anthropic/claude", "anthropic:claude"),
        ("model: '{{ settings.llm.model }}'", "{{ variables.settings.llm.model }}"),
    ],
)
def test_a_model_is_named_with_its_provider(keys: str, model: str) -> None:
    made = ours(f"""
settings: {{llm: {{model: gpt-5}}}}
nodes: [{{name: a, uses: llm.call, with: {{prompt: p, {keys}}}}}]
""")
    assert not made.faults
    assert made.document.value["nodes"][0]["with"]["model"] == model


def test_types_of_inputs_are_kept_and_those_of_set_variables_are_any() -> None:
    made = ours("""
state_schema:
  question: str
  numbers: "List[int]"
  maybe: "Optional[str]"
  score: {type: number, default: 0.5, description: how good}
  odd: SomeClass
  answer: str
  _hidden: str
nodes: [{name: a, uses: reason.cot, with: {problem: p}, output: {answer: "{{ result.answer }}"}}]
edges: []
""")
    assert made.document.value["state_schema"] == {
        "question?": "str",
        "numbers?": "list[int]",
        "maybe?": "str",
        "score?": "number",
        "odd?": "any",
        "answer?": "any",
    }
    assert made.document.value["initial_state"] == {"score": 0.5}


def test_a_file_in_our_form_is_not_translated() -> None:
    document, _ = parse(
        "nodes: [{name: a, uses: reason.cot, with: {problem: p}, goto: end}]\n"
        "settings: {model: m}\nstate_schema: {x: str}\ninitial_state: {x: y}\nversion: '1'\n",
        "flow.yaml",
    )
    assert document is not None
    assert not is_foreign(document.value)


@pytest.mark.parametrize(
    "text",
    [
        "nodes: [{name: a, uses: llm.stream, with: {prompt: p}, output: r}]",
        "nodes: [{name: a, uses: memory.retrieve, with: {key: k}}]",
        "nodes: [{name: a, uses: llm.call, with: {prompt: p, shell_provider: claude}}]",
        "nodes: [{name: a, uses: llm.call, with: {prompt: p, provider: shell}}]",
        "nodes: [{name: a, uses: reason.dspy.cot, with: {question: q}}]",
        "nodes: [{name: a, set: {x: 1}, goto: __end__}]",
        "nodes: [{name: a, set: {x: 1}, goto: [{if: 'state.x', to: __end__}, {to: a}]}]",
        "nodes: [{name: a, uses: llm.call, with: {}, goto: [{if: result.content, to: b}]}]",
        "nodes: [{name: a, uses: llm.call, with: {prompt: p}, output: r},"
        " {name: b, uses: llm.call, with: {prompt: '{{ state.r.content }}'}}]",
        "nodes: [{name: a, uses: llm.call, with: {prompt: p}, output: r},"
        " {name: b, set: {x: \"{{ state['r']['content'] }}\"}}]",
        "state_schema: {r: dict}\nnodes: [{name: a, uses: llm.call, with: {prompt: p}, output: r}]",
    ],
)
def test_a_file_without_foreign_keys_is_known_by_its_values(text: str) -> None:
    document, _ = parse(text, "flow.yaml")
    assert document is not None
    assert is_foreign(document.value)


@pytest.mark.parametrize(
    "text",
    [
        "nodes: [{name: a, uses: llm.call, with: {prompt: p, reply: true}, output: r},"
        " {name: b, set: {x: '{{ state.r.content }}'}}]",
        "state_schema: {r: dict}\n"
        "nodes: [{name: a, uses: llm.call, with: {prompt: p, output_format: {content: str}},"
        " output: r}, {name: b, set: {x: '{{ state.r.content }}'}}]",
        "nodes: [{name: a, uses: llm.call, with: {prompt: p}, output: r},"
        " {name: b, set: {x: '{{ state.r }} {{ state.other.content }}'}}]",
        "nodes: [{name: a, uses: llm.call, with: {prompt: p, provider: openai}, goto: end}]",
    ],
)
def test_a_reply_that_is_a_mapping_here_is_no_sign_of_a_foreign_file(text: str) -> None:
    document, _ = parse(text, "flow.yaml")
    assert document is not None
    assert not is_foreign(document.value)


def test_code_changes_the_state_itself(tmp_path: Path) -> None:
    text = """
state_schema: {n: int, log: list}
nodes:
  - name: count
    run: |
      state["n"] += 1
      state["log"].append(state["n"])
    goto: [{if: "state.n < 3", to: count}, {to: rest}]
  - name: rest
    run: |
      state["n"] = 10
      return {"n": state["n"] + 1, "last": state.pop("log")[-1]}
"""
    run = flow(text, tmp_path).run_sync("g", data={"n": 0, "log": []})
    assert run.output == {"n": 11, "log": None, "last": 3}


def test_a_filter_that_has_another_name_here_is_renamed(tmp_path: Path) -> None:
    text = """
nodes:
  - {name: a, run: {type: expression, value: "{'x': 1}", output_key: v}}
  - {name: b, uses: llm.call, with: {prompt: "{{ state.v | json }} {{ [1] | json }}"}, output: r}
"""
    made = ours(text)
    assert made.document.value["nodes"][1]["with"]["prompt"] == (
        "{{ state.v | default(none) | tojson }} {{ [1] | tojson }}"
    )


def test_a_refused_name_is_one_fault(tmp_path: Path) -> None:
    text = "nodes: [{name: a, run: 'return {}', goto: [{if: env.KEY, to: a}, {to: __end__}]}]"
    (fault,) = faults(text, tmp_path)
    assert fault.message == "'env' cannot be read here"


def nested(depth: int) -> str:
    """Returns a file with lists in lists."""
    return f"nodes: [{{name: a, run: {'[' * depth}{']' * depth}}}]"


HOSTILE = {
    "aliases": "a: &a [x]\nb: *a\nedges: []\nnodes: [{name: a, run: x}]",
    "deep": nested(90),
    "very deep": nested(5000),
    "many nodes": "edges: []\nnodes:\n" + "  - {name: n, run: x}\n" * 5000,
    "many edges": "nodes: [{name: a}]\nedges:\n" + "  - {from: a, to: b}\n" * 5000,
    "no mapping": "edges: 3\nnodes: [1, {name: [], run: {}}, {name: b, type: []}]",
    "names": "edges: []\nnodes: [{name: '" + "x" * 100_000 + "', run: 3}]",
    "braces": "edges: []\nnodes: [{name: a, uses: llm.call, with: {prompt: '"
    + "{{ state." * 20_000
    + "'}}]",
    "condition": "nodes: [{name: a}]\nedges: [{from: a, to: a, when: '" + "(" * 5_000 + "'}]",
    "regions": "nodes: [{name: a}, {name: b}]\n"
    "edges: [{from: a, to: a, type: parallel, fan_in: a}, {from: b, to: a, type: parallel,"
    " fan_in: b}]",
    "matrix": "nodes: [{name: a, run: x, strategy: {matrix: {"
    + ", ".join([f"k{n}: [{', '.join(map(str, range(100)))}]" for n in range(20)])
    + "}}}]",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_has_faults_of_one_line(name: str) -> None:
    document, wrong = parse(HOSTILE[name], "hostile.yaml")
    found = wrong if document is None else faults(HOSTILE[name])
    assert found
    assert len(found) <= 20_000
    assert all("\n" not in str(fault) and len(str(fault)) < 1_000 for fault in found[:50])


EVERYTHING = """
name: n
version: 1
variables: {most: 3}
data: {prompts: {p: x}}
settings: {llm: {model: m, provider: ollama, temperature: 1}, opik: {}, dspy: {model: m}}
config: {interrupt_before: [a], interrupt_after: [b], max_execution_time: 3}
interrupt_before: [a]
imports: [{path: x.py, namespace: y}]
initial_state: {x: 1}
state_schema: {x: str, y: {type: str, default: z}}
nodes:
  - {name: a, run: "return {}", interrupt: before, timeout: 3}
  - {name: b, run: {type: expression, value: "1", output_key: x}, goto: [{if: "x", to: c}]}
  - {name: c, uses: llm.call, with: {prompt: p, provider: ollama, model: m, max_retries: 2,
     timeout: 3, tools: [memory.retrieve]}, output: {x: "{{ result }}"}, next: d,
     on_error: {mode: retry, max_retries: 2, retry_delay: 1, fallback: d}}
  - {name: d, condition: "return 'x'", paths: {x: e, y: f}}
  - {name: e, type: while_loop, condition: "x", max_iterations: 3, body: [{name: g, run: "x"}]}
  - {name: f, type: dynamic_parallel, items: "{{ state.x }}", item_var: i, index_var: j,
     fan_in: h, action: {uses: llm.call, with: {prompt: p}}, parallel_config: {fail_fast: true}}
  - {name: h, strategy: {matrix: {x: [1]}, fail_fast: true}, run: "return {}", fan_in: k}
  - {name: k, parallel_each: "{{ state.x }}", max_workers: 2, steps: [{run: "x"}], fan_in: l}
  - {name: l, run: "x"}
  - {name: m, run: "x"}
  - {name: o, run: "x"}
edges:
  - {from: __start__, to: a, when: "x"}
  - {from: a, to: b, condition: {type: expression, value: "x"}, when: true}
  - {from: l, to: m, type: parallel, fan_in: o}
"""


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Returns each position in a value, as its container and its key."""
    pairs = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    found = [(value, key) for key, _ in pairs]
    for _, inner in pairs:
        found += _places(inner) if isinstance(inner, dict | list) else []
    return found


@pytest.mark.parametrize("wrong", [None, 3, -1.5, True, "", "x", "{{", [], [[]], {}, {"a": {}}])
def test_a_wrong_value_at_any_place_raises_nothing(wrong: Any) -> None:
    document, _ = parse(EVERYTHING, "tea.yaml")
    assert document is not None
    count = len(_places(document.value))
    assert count > 120
    for number in range(count):
        value = copy.deepcopy(document.value)
        container, key = _places(value)[number]
        container[key] = copy.deepcopy(wrong)
        changed = replace(document, value=value)
        if is_foreign(value):
            made = translated(changed)
            # Each position in the translation has one in the source.
            assert all(isinstance(place, tuple) for place in made.document.places.values())


def test_a_cycle_of_edges_ends_at_its_bound(tmp_path: Path) -> None:
    text = "nodes: [{name: a}, {name: b}]\nedges: [{from: a, to: b}, {from: b, to: a}]\n"
    run = flow(text, tmp_path).run_sync("g")
    assert "was reached more than 1000 times" in run.error


def test_the_timeout_of_a_request_is_the_timeout_of_the_call() -> None:
    text = """
    nodes: [{name: a, uses: http.get, with: {url: "https://a.example", timeout: 4}, output: page}]
    edges: [{from: __start__, to: a}, {from: a, to: __end__}]
    """
    made = ours(text)
    assert not made.faults
    assert made.document.value["nodes"][0]["with"]["timeout_s"] == 4


def test_code_that_needs_result_objects_is_a_note_with_its_line() -> None:
    made = ours("""
    nodes:
      - name: a
        run: |
          whole = [r["state"] for r in parallel_results if r.get("success")]
          parts = [r.get("part") for r in parallel_results]
          for x in state.get("found", []):
              y = x.state
          return {"parts": parts, "y": y, "whole": whole}
    edges: [{from: __start__, to: a}, {from: a, to: __end__}]
    """)
    assert not made.faults
    notes = [str(note) for note in made.notes]
    assert len(notes) == 2
    assert any("line 4 of the code" in note and "y['state']" not in note for note in notes)
    part = """r['state'].get("part")"""
    assert any("line 2 of the code" in note and part in note for note in notes)


def test_memory_actions_have_the_mappings_of_the_original_as_values(tmp_path: Path) -> None:
    # Read from its memory_actions.py.
    text = """
nodes:
  - {name: a, uses: memory.store, with: {key: color, value: green}, output: saved}
  - {name: b, uses: memory.retrieve, with: {key: color}, output: got}
  - {name: c, uses: actions.memory_retrieve, with: {key: size, default: 7},
     output: {size: "{{ result.value }}", known: "{{ result.found }}"}}
  - {name: d, uses: memory.retrieve, with: {key: none}, output: none}
  - {name: e, uses: memory.store, with: {key: 5, value: [1]}}
"""
    merged = {"stored": True, "key": "5", "namespace": "default"}
    assert state(text, tmp_path) == {
        **merged,
        "saved": {"stored": True, "key": "color", "namespace": "default"},
        "got": {"value": "green", "found": True, "key": "color"},
        "size": 7,
        "known": False,
        "none": {"value": None, "found": False, "key": "none"},
    }
    recalled = text + "  - {name: f, uses: memory.retrieve, with: {key: 5}}\n"
    assert state(recalled, tmp_path) == {
        **state(text, tmp_path),
        "value": [1],
        "found": True,
        "key": "5",
    }


@pytest.mark.parametrize("action", ["memory.store", "memory.recall"])
def test_reply_of_a_memory_action_is_true_or_false(action: str) -> None:
    keys = "key: k, value: 1" if action == "memory.store" else "key: k"
    text = f"nodes: [{{name: a, uses: {action}, with: {{{keys}, reply: 'yes'}}}}]"
    assert [each.text for each in faults(text)] == ["must be true or false, not 'yes'"]


@pytest.mark.parametrize("type_", ["dynamic_parallel", "while_loop"])
def test_a_type_of_a_node_as_its_key_is_named_with_the_form_that_works(type_: str) -> None:
    text = f"nodes:\n- name: a\n  {type_}: {{steps: [{{name: b, set: {{x: 1}}}}]}}\n"
    assert [each.text.split(",")[0] for each in faults(text)] == [
        f"'{type_}' is no key of a node; write `type: {type_}`"
    ]


def test_a_model_of_the_settings_that_no_node_calls_needs_no_key(tmp_path: Path) -> None:
    settings = "settings: {llm: {provider: openai, model: gpt-5}}\n"
    own = "nodes: [{name: a, uses: llm.call, with: {prompt: p, model: 'test:answer'}}]\n"
    assert made(settings + own, tmp_path).model == ""
    called = "nodes: [{name: a, uses: llm.call, with: {prompt: p}}]\n"
    assert made(settings + called, tmp_path).model == ["openai:gpt-5"]
