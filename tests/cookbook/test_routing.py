"""docs/cookbook/routing.md"""

from tests.cookbook.conftest import Reader, answer, call

BILL = 'python support.py route "Which invoices of Ada are open?"'
BOTH = 'python support.py team "Ada asks for her invoices, and why no mail arrives."'


def test_the_router_s_word_selects_the_specialist(reader: Reader) -> None:
    reader.opens("routing.md")
    reader.scripts(
        answer({"department": "billing", "reason": "It is about invoices."}),
        call("invoices", customer="Ada"),
        answer("Invoice 2041 over 40 EUR is open."),
    )
    done = reader.types(BILL)
    lines = ["[billing] It is about invoices.", "Invoice 2041 over 40 EUR is open."]
    assert done.stdout.splitlines() == lines, done.stderr
    assert "2041: 40 EUR" in reader.providers.asked[2].turns[-1].text
    assert "service_status" not in reader.providers.asked[1].tools


def test_a_request_that_fits_no_department_needs_a_person(reader: Reader) -> None:
    reader.opens("routing.md")
    reader.scripts(answer({"department": "other", "reason": "It is praise."}))
    done = reader.types(BILL)
    assert (done.returncode, done.stdout) == (
        3,
        "[other] It is praise.\nThis request needs a person.\n",
    )


def test_the_coordinator_asks_both_specialists(reader: Reader) -> None:
    reader.opens("routing.md")
    reader.scripts(
        call("billing", goal="Which invoices of Ada are open?"),
        call("invoices", customer="Ada"),
        answer("Invoice 2041."),
        call("technical", goal="Why does no mail arrive?"),
        call("service_status", service="mail"),
        answer("Mail is down since 09:12."),
        answer("Invoice 2041 is open, and mail is down since 09:12."),
    )
    done = reader.types(BOTH)
    assert done.stdout == "Invoice 2041 is open, and mail is down since 09:12.\n", done.stderr
    assert "down since 09:12" in reader.providers.asked[5].turns[-1].text
    listed = reader.types("taofold runs list")
    assert [name in listed.stdout for name in ("team", "billing", "technical")] == [True] * 3


def test_without_a_key(reader: Reader) -> None:
    reader.opens("routing.md")
    done = reader.types(f"TAOFOLD_MODEL=test:tools {BOTH}")
    assert done.returncode == 0, done.stderr
    reader.shows(done.stdout)
