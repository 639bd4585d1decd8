"""Every mistake in a flow file is found at once, offline, with its path, line and a suggestion."""

from pathlib import Path

import pytest

from taofold import Tier
from taofold.files import Config, build, read_agent
from taofold.files.checked_yaml import parse
from taofold.files.flow.file import read_flow
from tests.files.flow.kit import faults, made

WRONG = """\
name: wrong
modle: x
settings: {temprature: 1}
state_schema: {a: strr}
input: b
imports: [{path: ../../etc/passwd, namespace: out}]
nodes:
  - name: a
    uses: reason.cott
  - name: b
    action: reason.cot
    wiht: {}
  - name: c
    uses: reason.cot
    with: {promblem: "{{ state.x }}", thinking_format: circle}
  - name: d
    uses: llm.call
    with: {prompt: "{{ stat.x }} {{ state.x"}
    goto: [{if: "state.x >", to: e}, {to: a}, {to: nowhere}]
  - name: e
    while: {condition: "true", max_iterations: 1001}
    steps: []
  - name: a
    set: {x: 1}
    on_error: {fallback: gone}
  - name: f
  - name: g
    uses: llm.call
    set: {}
  - name: h
    uses: llm.call
    with: {prompt: p, model: "{{ state.m }}", output_format: {n: intt}}
  - name: i
    parallel: {branches: {x: [{name: j, uses: llm.cal}]}}
"""


def test_a_misspelt_choice_of_a_node_is_suggested() -> None:
    text = "nodes: [{name: a, uses: reason.cot, with: {problem: p, thinking_format: pro_cons}}]"
    [fault] = faults(text)
    assert "did you mean 'pros_cons'?" in str(fault)


@pytest.mark.scenario("PEER-25")
def test_all_faults_are_found_at_once_with_line_and_suggestion() -> None:
    found = {(one.line, one.path): one.text for one in faults(WRONG)}
    said = "\n".join(f"{line} {path}: {text}" for (line, path), text in found.items())
    for line, path, text in [
        (2, "modle", "did you mean 'model'"),
        (3, "settings.temprature", "did you mean 'temperature'"),
        (9, "nodes[0].uses", "did you mean 'reason.cot'"),
        (12, "nodes[1].wiht", "did you mean 'with'"),
        (15, "nodes[2].with.promblem", "did you mean 'problem'"),
        (15, "nodes[2].with.thinking_format", "step_by_step"),
        (18, "nodes[3].with.prompt", "cannot be read"),
        (19, "nodes[3].goto[0].if", "cannot be read"),
        (19, "nodes[3].goto[1]", "without 'if'"),
        (19, "nodes[3].goto[2].to", "there is no node 'nowhere'"),
        (21, "nodes[4].while.max_iterations", "less than or equal to 1000"),
        (23, "nodes[5].name", "there is another node 'a'"),
        (25, "nodes[5].on_error.fallback", "there is no node 'gone'"),
        (26, "nodes[6]", "does nothing"),
        (27, "nodes[7]", "does several things"),
        (32, "nodes[8].with.model", "a setting is read once"),
        (32, "nodes[8].with.output_format.n", "unknown type 'intt'"),
        (34, "nodes[9].parallel.branches.x[0].uses", "did you mean 'llm.call'"),
    ]:
        assert (line, path) in found, said
        assert text in found[line, path], found[line, path]


@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("state_schema: {a: strr}", "state_schema.a", "unknown type 'strr'"),
        ("state_schema: [a]", "state_schema", "must be a mapping"),
        ("state_schema: {a: str}\ninput: b", "input", "not in state_schema"),
        (
            "imports: [{path: ../x.yaml, namespace: o}]",
            "imports[0].path",
            "leads out of the project",
        ),
        ("imports: [{path: gone.yaml, namespace: o}]", "imports[0].path", "has faults"),
        ("strategy: react", "strategy", "a flow is the strategy"),
        ("agents: {a: nothing}", "agents.a", "no agent file"),
        ("output: {n: intt}", "output.n", "unknown type"),
        ("result: '{{ stat.x }}'", "result", "unknown name 'stat'"),
    ],
)
def test_a_fault_at_the_top_is_found(tmp_path: Path, text: str, path: str, said: str) -> None:
    found = faults(f"{text}\nnodes: [{{name: a, set: {{x: 1}}}}]\n", tmp_path)
    assert any(one.path == path and said in one.text for one in found), [str(f) for f in found]


@pytest.mark.parametrize(
    ("node", "said"),
    [
        ("uses: llm.call, with: {}", "llm.call needs the key 'prompt'"),
        ("uses: llm.call, action: reason.cot, with: {prompt: p}", "says something else"),
        ("set: {x: 1}, with: {y: 1}", "is only for 'uses'"),
        ("set: {x: 1}, steps: [{name: b, set: {}}]", "does not go with 'set'"),
        ("while: {condition: 'true', max_iterations: 2}", "needs 'steps'"),
        ("while: {condition: 'true'}", "max_iterations"),
        ("parallel: {}", "either 'items' or 'branches'"),
        ("parallel: {items: [1]}", "need 'steps' or 'uses'"),
        ("parallel: {branches: {b: {set: {}}}}, steps: [{name: c, set: {}}]", "hold their own"),
        ("set: {x: '{{ item }}'}", "unknown name 'item'"),
        ("set: {x: '{{ state.__class__ }}'}", "cannot be reached"),
        ("set: {x: 1}, goto: [{if: 'nam', to: end}]", "unknown name 'nam'"),
        ("set: {x: 1}, on_error: {fallback: a, then: continue}", "keep one"),
        (
            "uses: reason.react, with: {goal: g, tools: '{{ state.t }}'}",
            "a setting is read once",
        ),
        ("steps: 3", "list"),
        ("uses: 'tool.'", "unknown action"),
        ("uses: agent.nobody, with: {goal: g}", "unknown action"),
    ],
)
def test_a_fault_of_a_node_is_found(node: str, said: str) -> None:
    found = faults(f"nodes: [{{name: a, {node}}}]")
    assert any(said in one.text for one in found), [str(one) for one in found]


def test_an_import_of_itself_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(
        "imports: [{path: b.yaml, namespace: b}]\nnodes: [{name: a, uses: flow.b}]\n"
    )
    (tmp_path / "b.yaml").write_text(
        "imports: [{path: a.yaml, namespace: a}]\nnodes: [{name: a, uses: flow.a}]\n"
    )
    _, found = read_agent(tmp_path / "a.yaml", root=tmp_path)
    assert any("imports itself" in one.text for one in found)


def test_a_link_that_leads_out_of_the_project_is_a_fault(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "out.yaml").write_text("nodes: [{name: a, set: {}}]")
    (tmp_path / "in" / "link.yaml").symlink_to(tmp_path / "out.yaml")
    found = faults(
        "imports: [{path: link.yaml, namespace: o}]\nnodes: [{name: a, uses: flow.o}]",
        tmp_path / "in",
    )
    assert any("leads out of the project" in one.text for one in found)


USES = "nodes: [{name: a, uses: reason.react, with: {goal: g, tools: [%s]}}]"
COUNT = "tools: [{name: count, description: d, command: [wc]}]\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (USES % "serch", "did you mean 'search'"),
        (USES % "web.serch", "did you mean 'web.search'"),
        (COUNT + USES % "cuont", "did you mean 'count'"),
        ("tools: [files]\n" + USES % "red_file", "did you mean 'read_file'"),
        ("nodes: [{name: a, uses: tool.gone}]", "there is no tool 'gone'"),
    ],
)
def test_a_misspelt_tool_is_found_by_reading_alone(text: str, said: str, tmp_path: Path) -> None:
    [fault] = faults(text, tmp_path)
    assert said in fault.text


@pytest.mark.parametrize(
    "text",
    [
        "discover: [.]\n" + USES % "found",
        "tools: ['module:tools']\n" + USES % "coded",
        "mcp: {notes: {command: [notes]}}\n" + USES % "notes.add",
        "agents: {a: a.yaml}\n" + USES % "a",
        COUNT + USES % "count, tool.count, read_file",
    ],
)
def test_a_tool_whose_name_only_code_or_a_server_knows_is_no_fault(
    text: str, tmp_path: Path
) -> None:
    assert faults(text, tmp_path) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("discover: [.]\nnodes: [{name: a, uses: tool.gone}]", "there is no tool 'gone'"),
        (
            "discover: [.]\nnodes: [{name: a, uses: file.read, with: {pth: x}}]",
            "did you mean 'path'",
        ),
        ("discover: [.]\nnodes: [{name: a, uses: file.read, with: {}}]", "needs the key 'path'"),
        (
            "settings: {search: nope}\nnodes: [{name: a, uses: web.search, with: {query: q}}]",
            "there is no search backend 'nope'",
        ),
        (
            "agents: {a: 'json:dumps'}\nnodes: [{name: b, uses: agent.a, with: {goal: g}}]",
            "no Agent",
        ),
    ],
)
def test_what_only_building_can_find_is_told_with_its_place(
    tmp_path: Path, text: str, said: str
) -> None:
    with pytest.raises(ExceptionGroup) as caught:
        made(text, tmp_path)
    assert any(said in str(one) for one in caught.value.exceptions), caught.value.exceptions
    assert all("flow.yaml" in str(one) for one in caught.value.exceptions)


ASKS = "model: openai:gpt-5\nagents:\n  a: %s\nnodes: [{name: b, uses: agent.a, with: {goal: g}}]\n"


@pytest.mark.parametrize(
    ("asked", "faults"),
    [
        ("gone.yaml", ["flow.yaml:3: agents.a: there is no agent file 'gone.yaml'"]),
        ("../x.yaml", ["flow.yaml:3: agents.a: '../x.yaml' leads out of the project"]),
        ("flow.yaml", ["flow.yaml:3: agents.a: 'flow.yaml' asks itself"]),
        (
            "one.yaml",
            [
                "flow.yaml:3: agents.a: 'one.yaml' has faults",
                "one.yaml:3: agents.a: 'two.yaml' has faults",
                "two.yaml:3: agents.a: 'one.yaml' asks itself",
            ],
        ),
        ("key.yaml", ["agents.a: 'key.yaml' has faults", "key.yaml:2: toolz: unknown key"]),
    ],
)
def test_an_agent_file_that_cannot_be_asked_is_a_fault_of_the_file(
    asked: str, faults: list[str], tmp_path: Path
) -> None:
    """Mutant: a file that is not among its own askers."""
    (tmp_path / "one.yaml").write_text(ASKS % "two.yaml")
    (tmp_path / "two.yaml").write_text(ASKS % "one.yaml")
    (tmp_path / "key.yaml").write_text("name: key\ntoolz: []\n")
    (tmp_path / "flow.yaml").write_text(ASKS % asked)
    file, found = read_agent(tmp_path / "flow.yaml", source="flow.yaml", root=tmp_path)
    assert file is None
    assert len(found) == len(faults)
    for fault, expected in zip(found, faults, strict=True):
        assert expected in str(fault)


def test_an_agent_file_that_is_asked_on_many_ways_is_read_once(tmp_path: Path) -> None:
    """Two to the power of 20 ways lead to the last file."""
    for number in range(20):
        following = f"{number + 1}.yaml"
        asks = ASKS.replace("  a: %s\n", f"  a: {following}\n  c: {following}\n")
        (tmp_path / f"{number}.yaml").write_text(asks)
    (tmp_path / "20.yaml").write_text("name: last\n")
    file, found = read_agent(tmp_path / "0.yaml", root=tmp_path)
    assert file is not None, found


@pytest.mark.scenario("PEER-26")
@pytest.mark.parametrize(
    ("policy", "words"),
    [
        ("{autonomy: autonomous}", "policy.autonomy: looser than the operator's"),
        ("{tiers: {deploy: 1}}", "deploy"),
        ("{tiers: {deploy: 2}}", "deploy"),
    ],
)
def test_a_flow_cannot_loosen_the_operators_policy(policy: str, words: str, tmp_path: Path) -> None:
    from taofold.policy import Policy

    operator = Policy(autonomy="conservative", tiers={"deploy": Tier.CONFIRM})
    path = tmp_path / "f.yaml"
    path.write_text(f"policy: {policy}\nnodes: [{{name: a, set: {{x: 1}}}}]")
    _, faults = read_agent(path, operator, root=tmp_path)
    assert words in " ".join(str(fault) for fault in faults)


@pytest.mark.parametrize("tier", [3, 4])
def test_a_flow_may_be_as_strict_as_the_operator_or_stricter(tier: int, tmp_path: Path) -> None:
    from taofold.policy import Policy

    path = tmp_path / "f.yaml"
    path.write_text(f"policy: {{tiers: {{deploy: {tier}}}}}\nnodes: [{{name: a, set: {{x: 1}}}}]")
    _, faults = read_agent(path, Policy(tiers={"deploy": Tier.CONFIRM}), root=tmp_path)
    assert not faults


def test_an_agent_file_without_nodes_is_still_one(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("model: offline:repair\noutput: {name: str, score?: float}\n")
    file, found = read_agent(path)
    assert file is not None, found
    agent = build(file, Config(), tmp_path)
    assert set(agent.output.model_fields) == {"name", "score"}


MISSPELT = """\
name: triage
input: report
state_schema: {report: str, limit?: int}
nodes:
  - name: classify
    uses: llm.call
    with: {prompt: "{{ state.reprot }} {{ state['report'] }}"}
    output: {urgency: urgency}
    goto: [{if: "state.urgncy == 'high' or state['limt'] > 3", to: page}, {to: files}]
  - name: page
    set:
      a: "{{ state.urgenci is defined }} {{ state.clasify | default('') }}"
      b: "{{ state.urgency }} {{ state.limit }} {{ state.erors }} {{ state.reasoning_answer }}"
      c: "{{ state.customer }} {{ state.limits }} {{ state.file }}"
  - name: files
    while: {condition: "get(state, 'urgenc', 0) or state.pagee", max_iterations: 2}
    steps: [{name: pages, set: {page: 1}}]
  - name: improve
    uses: reason.self_correct
    with: {task: t, critic_prompt: "{{ state.urgencyy }}"}
result: "{{ state.notes }} {{ state.classifi }}"
"""


def test_a_misspelt_variable_of_the_state_is_named() -> None:
    """A name without a near miss may be part of the initial state, and so may a list."""
    said = [(one.line, one.path, one.text.partition(" If")[0]) for one in faults(MISSPELT)]
    assert said == [
        (7, "nodes[0].with", "no node sets state.reprot; did you mean 'report'?"),
        (9, "nodes[0].goto[0].if", "no node sets state.limt; did you mean 'limit'?"),
        (9, "nodes[0].goto[0].if", "no node sets state.urgncy; did you mean 'urgency'?"),
        (11, "nodes[1].set", "no node sets state.erors; did you mean 'errors'?"),
        (16, "nodes[2].while.condition", "no node sets state.pagee; did you mean 'page'?"),
        (20, "nodes[3].with.critic_prompt", "no node sets state.urgencyy; did you mean 'urgency'?"),
    ]


def test_a_constant_that_the_file_does_not_have_is_a_fault() -> None:
    text = """\
name: f
variables: {limit: 3, words: {a: 1}}
nodes:
  - name: a
    set: {x: "{{ variables.limit }} {{ variables.limmit }} {{ variables.words.b }}"}
    goto: [{if: "variables.nope > 1 or variables['limit'] > 2", to: b}, {to: b}]
  - name: b
    set: {y: "{{ variables.z | default(1) }} {{ variables.w is defined }}"}
result: "{{ variables['nothing'] }}"
"""
    assert [(one.line, one.path, one.text) for one in faults(text)] == [
        (5, "nodes[0].set", "the file has no variables.limmit; did you mean 'limit'?"),
        (6, "nodes[0].goto[0].if", "the file has no variables.nope; known are limit, words"),
        (9, "result", "the file has no variables.nothing; known are limit, words"),
    ]


def test_what_must_be_in_the_state_at_the_start_is_known() -> None:
    """A name that no node sets and that is no near miss must be given by the caller."""
    text = """\
name: f
input: question
state_schema: {customer: str, question: str}
nodes:
  - name: a
    set: {x: "{{ state.question }} {{ state.nope }} {{ state.customer }} {{ state.z is defined }}"}
    goto: [{if: "state.other > 1 and get(state, 'w', 1)", to: b}, {to: b}]
  - name: b
    set: {y: "{{ state.x }}"}
"""
    document, _ = parse(text, "flow.yaml")
    assert document is not None
    file, found = read_flow(document, root=Path())
    assert file is not None, found
    assert file.flow.needs == {"nope", "other"}


@pytest.mark.parametrize(
    ("node", "error"),
    [
        (
            "uses: http.get, with: {url: u, timeout: 4}",
            "unknown key 'timeout' of the tool http.get",
        ),
        ("uses: web.search, with: {query: q, num: 3}", "unknown key 'num' of the tool web.search"),
        ("uses: memory.store, with: {key: k}", "the tool memory.store needs the key 'value'"),
        (
            "uses: tool.read_file, with: {path: p, pth: x}",
            "unknown key 'pth' of the tool read_file",
        ),
    ],
)
def test_a_check_finds_wrong_keys_of_built_in_tools(node: str, error: str, tmp_path: Path) -> None:
    assert error in str(faults(f"nodes: [{{name: a, {node}}}]", tmp_path)[0])


def test_misspelled_reads_are_named_beside_faults_of_the_top_of_the_file() -> None:
    text = """
modle: x
variables: {greet: hi}
initial_state: {lines: 1}
state_schema: {wanted: int}
nodes:
  - {name: b, set: {x: "{{ state.lnies }} {{ variables.gret }} {{ state.lines }}"}}
  - {name: c, set: {y: "{{ state.wanted }} {{ variables.greet }}"}}
"""
    assert [each.text for each in faults(text)] == [
        "unknown key 'modle'; did you mean 'model' or 'models'?",
        "the file has no variables.gret; did you mean 'greet'?",
        "no node sets state.lnies; did you mean 'lines'? If it is there at the start, name it in "
        "state_schema",
    ]


def test_a_node_without_a_name_is_no_target() -> None:
    text = "nodes: [{set: {x: 1}}, {name: b, set: {x: 1}, goto: zzz}]"
    assert [each.text for each in faults(text)] == [
        "the key 'name' is missing",
        "there is no node 'zzz' beside this one; known are b, end",
    ]
    text = "start: zzz\nnodes: [{set: {x: 1}}, {name: b, set: {x: 1}}]"
    assert "there is no node 'zzz' beside this one; known are b, end" in [
        each.text for each in faults(text)
    ]
