"""docs/cookbook/budget.md"""

from tests.cookbook.conftest import Reader, answer

ASK = 'python budget.py ada "How long is the night in Oslo in June?"'


def test_a_user_whose_budget_is_spent_is_refused(reader: Reader) -> None:
    reader.opens("budget.md")
    # The longest reply costs 0.4 cents, a reply of the provider less than 0.1.
    reader.changes("budget.py", "usd=1.00", "usd=0.0042")
    reader.scripts(answer("Five hours."))
    done = reader.types(ASK)
    assert (done.returncode, done.stdout) == (0, "Five hours.\n"), done.stderr
    for _ in range(10):
        reader.scripts(answer("Five hours."))
        done = reader.types(ASK)
        if done.returncode:
            break
    assert (done.returncode, done.stdout) == (1, "")
    assert "'principal-day' allows $0.0042 per day for 'principal:ada'" in done.stderr
    assert reader.providers.asked == []
    # Another user has a budget of their own.
    done = reader.types(ASK.replace("ada", "bob"))
    assert done.stdout == "Five hours.\n", done.stderr


def test_the_spending_of_each_user_is_listed(reader: Reader) -> None:
    reader.opens("budget.md")
    reader.scripts(answer("Five hours."))
    reader.types(ASK)
    done = reader.types("taofold budget list --agent budget.py:AGENT")
    assert "principal:ada" in done.stdout, done.stderr


def test_a_run_that_does_not_fit_is_ended_before_its_call(reader: Reader) -> None:
    reader.opens("budget.md")
    reader.changes("budget.py", "Limits(usd=0.05)", "Limits(usd=0.0001)")
    done = reader.types(ASK)
    assert done.returncode == 1
    assert "limits.usd" in done.stderr
    assert reader.providers.asked == []


def test_without_a_key(reader: Reader) -> None:
    reader.opens("budget.md")
    done = reader.types(f"TAOFOLD_MODEL=test:answer {ASK}")
    assert done.returncode == 0, done.stderr
    reader.shows(done.stdout)
