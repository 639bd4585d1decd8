"""The keys of learning: fifteen of the seed's and one of ours; flags > environment > files."""

from pathlib import Path

import pytest

from taofold.files import read_config
from taofold.files.config import ExtractionKeys, InjectionKeys, read_learning

WHOLE = """\
model: other tools read this
ralph:
  max_iterations: 20
  cross_loop_learning:
    extraction:
      enabled: false
      auto_extract_on_completion: false
      min_success_rate_threshold: 0.7
      min_usage_count_for_evaluation: 5
      extract_code_templates: false
      merge_similar_patterns: false
      similarity_threshold: 0.9
    injection:
      enabled: false
      top_k_patterns: 7
      min_success_rate: 0.5
      max_patterns_injected: 8
      include_error_patterns: false
      include_success_patterns: false
      include_anti_patterns: false
      include_code_templates: false
"""


@pytest.mark.scenario("XTL-29")
@pytest.mark.document_item("001.key.files")
def test_all_keys_of_the_seed_are_read_from_its_file(tmp_path: Path) -> None:
    (tmp_path / "aiwg.yml").write_text(WHOLE)
    learning, faults = read_learning([tmp_path / "aiwg.yml", tmp_path / "none.yml"])
    assert faults == []
    assert learning is not None
    assert [*learning.extraction.model_dump().values()] == [
        *(False, False, 0.7, 5, False, False, 0.9, False),
    ]
    assert [*learning.injection.model_dump().values()] == [
        *(False, 7, 0.5, 8, False, False, False, False, 0.15, False),
    ]
    assert len(ExtractionKeys.model_fields) + len(InjectionKeys.model_fields) == 15 + 3


@pytest.mark.scenario("XTL-29")
def test_flags_beat_the_environment_and_that_the_nearer_file(tmp_path: Path) -> None:
    far, near = tmp_path / "aiwg.yml", tmp_path / "config.yml"
    far.write_text(
        "ralph: {cross_loop_learning: {injection: {top_k_patterns: 1, min_success_rate: 0.1}}}"
    )
    near.write_text("ralph: {cross_loop_learning: {injection: {top_k_patterns: 2}}}")
    environment = {
        "TAOFOLD_LEARNING_INJECTION_TOP_K_PATTERNS": "3",
        "TAOFOLD_LEARNING_INJECTION_INCLUDE_ANTI_PATTERNS": "no",
        "TAOFOLD_LEARNING_EXTRACTION_ENABLED": "0",
        "TAOFOLD_MODEL": "x",
    }

    def top(variables: dict[str, str]) -> int:
        learning, faults = read_learning([far, near], variables)
        assert learning is not None, faults
        assert learning.injection.min_success_rate == 0.1, "key by key"
        return learning.injection.top_k_patterns

    assert top({}) == 2
    assert top(environment) == 3
    learning, _ = read_learning([], environment)
    assert learning is not None
    assert not learning.injection.include_anti_patterns
    assert not learning.extraction.enabled


@pytest.mark.scenario("XTL-29")
@pytest.mark.parametrize(
    ("text", "path", "said"),
    [
        ("injection: {top_k: 3}", "injection.top_k", "unknown key 'top_k'"),
        ("injektion: {}", "injektion", "unknown key 'injektion'; did you mean 'injection'?"),
        ("injection: {min_success_rate: 2}", "injection.min_success_rate", "less than or equal"),
        ("injection: {top_k_patterns: many}", "injection.top_k_patterns", "not 'many'"),
        (
            "injection: {max_patterns_injected: 11}",
            "injection.max_patterns_injected",
            "equal to 10",
        ),
        ("extraction: {enabled: 'no'}", "extraction.enabled", "valid boolean"),
    ],
)
def test_what_is_wrong_is_told_with_its_path(
    tmp_path: Path, text: str, path: str, said: str
) -> None:
    file = tmp_path / "aiwg.yml"
    file.write_text(f"ralph:\n  cross_loop_learning: {{{text}}}\n")
    learning, faults = read_learning([file])
    assert learning is None
    (fault,) = faults
    assert fault.path == f"ralph.cross_loop_learning.{path}"
    assert fault.line == 2
    assert said in fault.text


def test_a_wrong_variable_is_told() -> None:
    environment = {
        "TAOFOLD_LEARNING_INJECTION_TOP_K": "3",
        "TAOFOLD_LEARNING_INJECTION_MIN_SUCCESS_RATE": "high",
    }
    learning, faults = read_learning([], environment)
    assert learning is None
    assert [fault.source for fault in faults] == [
        "TAOFOLD_LEARNING_INJECTION_MIN_SUCCESS_RATE",
        "TAOFOLD_LEARNING_INJECTION_TOP_K",
    ]
    assert "did you mean" in faults[1].text


def test_the_programs_own_file_knows_the_keys_and_no_others_beside_them(tmp_path: Path) -> None:
    file = tmp_path / "config.yml"
    file.write_text("model: x\nralph:\n  cross_loop_learning:\n    injection: {enabled: false}\n")
    config, faults = read_config(file, {})
    assert faults == []
    assert config is not None
    assert not config.ralph.cross_loop_learning.injection.enabled
    file.write_text("ralph: {cross_loop_lerning: {}}\n")
    _, faults = read_config(file, {})
    assert [fault.path for fault in faults] == ["ralph.cross_loop_lerning"]
