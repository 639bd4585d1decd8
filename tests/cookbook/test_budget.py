"""docs/cookbook/budget.md"""

from tests.cookbook.conftest import Reader, answer

ASK = 'python budget.py ada "How long is the night in Oslo in June?"'


def test_a_user_whose_budget_is_spent_is_refused(reader: Reader) -> None:
    reader.opens("budget.md")
    reader.changes("budget.py", "daily_usd: float = 1.00", "daily_usd: float = 0.05")
    reader.scripts(answer("Five hours."), answer("Five hours."))
    done = reader.types(ASK)
    assert done.stdout.startswith("Five hours.\nada: 0.0"), done.stderr
    done = reader.types(ASK)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ada has used 0.00 of 0.05 USD today: a run may cost 0.05\n"
    assert len(reader.providers.asked) == 1
    # Another user has a budget of their own.
    done = reader.types(ASK.replace("ada", "bob"))
    assert done.stdout.startswith("Five hours.\nbob: 0.0"), done.stderr


def test_a_run_that_does_not_fit_is_ended_before_its_call(reader: Reader) -> None:
    reader.opens("budget.md")
    reader.changes("budget.py", "run_usd: float = 0.05", "run_usd: float = 0.0001")
    done = reader.types(ASK)
    assert done.returncode == 1
    assert "limits.usd" in done.stderr
    assert reader.providers.asked == []


def test_without_a_key(reader: Reader) -> None:
    reader.opens("budget.md")
    done = reader.types(f"TAOFOLD_MODEL=test:answer {ASK}")
    assert done.returncode == 0, done.stderr
    reader.shows(done.stdout)
