"""docs/cookbook/repair.md"""

from tests.cookbook.conftest import Reader, answer, call
from tests.prerequisites import CONTAINMENT

WITH_A_MODEL = (
    'taofold loop "Make the failing tests pass" --completion "python -m pytest -q" '
    "--model openai:gpt-5 --budget 1 --max-iterations 5"
)
WITHOUT = (
    'taofold loop "Make the failing tests pass" --completion "python -m pytest -q" '
    "--model offline:repair"
)
WRONG, RIGHT = "sum(prices) * (1 + discount)", "sum(prices) * (1 - discount)"


def test_the_tests_decide_and_not_the_model(reader: Reader) -> None:
    reader.opens("repair.md")
    tests = (reader.folder / "test_basket.py").read_text()
    reader.scripts(
        call("edit_file", path="test_basket.py", old="== 5.0", new="== 15.0"),
        answer("All tests pass now."),
        call("edit_file", path="basket.py", old=WRONG, new=RIGHT),
        answer("The discount is subtracted."),
    )
    done = reader.types(WITH_A_MODEL)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (reader.folder / "test_basket.py").read_text() == tests
    assert RIGHT in (reader.folder / "basket.py").read_text()
    reader.shows(f"    return {RIGHT}\n")
    told = reader.types("taofold loops report").stdout
    assert "completed" in told
    assert len(reader.providers.asked) == 4


@CONTAINMENT.mark
def test_without_a_key(reader: Reader) -> None:
    reader.opens("repair.md")
    done = reader.types(WITHOUT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert RIGHT in (reader.folder / "basket.py").read_text()
