"""The accounts from environment variables."""

from pathlib import Path

import pytest

from taofold import Agent, ConfigError
from taofold.testing.models import ScriptedModel
from taofold_testops.settings import accounts
from taofold_testops.tools import READS, WRITES, toolset

JIRA = {"JIRA_URL": "https://jira.example.org/", "JIRA_TOKEN": "secret-token"}


def test_a_service_without_variables_has_no_tools() -> None:
    tools = toolset(accounts({**JIRA, "JIRA_EMAIL": "me", "JIRA_PROJECT": "shop, PAY"}))
    assert {name.partition("_")[0] for name in tools} == {"jira", "dashboard"}
    jira = accounts({**JIRA, "JIRA_PROJECT": "SHOP, PAY"}).jira
    assert jira is not None
    assert (jira.url, jira.scope, jira.user) == ("https://jira.example.org", ("SHOP", "PAY"), "")
    assert "secret" not in repr(jira)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"JIRA_TOKEN": " "}, "JIRA_URL is set, but not JIRA_TOKEN"),
        ({"JENKINS_URL": "https://x"}, "but not JENKINS_USER and JENKINS_TOKEN"),
        ({"JIRA_URL": "secret-token"}, "JIRA_URL is no http"),
        ({"JIRA_URL": "ftp://jira.example.org"}, "JIRA_URL is no http"),
        ({"JIRA_URL": "https://me:secret-token@jira.example.org"}, "JIRA_URL has a user"),
        ({"JIRA_URL": "https://jira.example.org?a=1"}, "JIRA_URL has a query"),
        ({"JIRA_URL": "http://jira.example.org"}, "JIRA_URL is plain http"),
        ({"JIRA_URL": "HTTP://10.0.0.5:8080"}, "JIRA_URL is plain http"),
        ({"JIRA_URL": "http://localhost.example.org"}, "JIRA_URL is plain http"),
        ({"JIRA_TOKEN": "secret-token\nX-Other: 1"}, "the token of Jira has a space, a line"),
        ({"JIRA_TOKEN": "secret-token and more"}, "the token of Jira has a space, a line"),
        ({"JIRA_TOKEN": "secret-token…"}, "the token of Jira has a space, a line"),
        ({"JIRA_EMAIL": "me:secret-token"}, "the user of Jira has a colon"),
        ({"JIRA_URL": "", "JIRA_TOKEN": ""}, "no service is set up for testops"),
        (
            {
                "GITHUB_REPOSITORY": "a/b",
                "GITHUB_TOKEN": "t",
                "GITHUB_API_URL": "http://github.example.org/api/v3",
            },
            "GITHUB_API_URL is plain http",
        ),
        ({"GITHUB_REPOSITORY": "shop", "GITHUB_TOKEN": "t"}, "GITHUB_REPOSITORY is owner/rep"),
        ({"GITHUB_REPOSITORY": "a/b/c", "GITHUB_TOKEN": "t"}, "GITHUB_REPOSITORY is owner/rep"),
    ],
)
def test_a_service_that_is_set_up_partly_is_an_error(change: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigError, match=text) as caught:
        accounts({**JIRA, **change})
    assert "secret-token" not in str(caught.value)


@pytest.mark.parametrize("host", ["localhost:8080", "127.0.0.1", "[::1]:80"])
def test_plain_http_is_for_this_machine(host: str) -> None:
    jira = accounts({**JIRA, "JIRA_URL": f"http://{host}/jira"}).jira
    assert jira is not None
    assert jira.url == f"http://{host}/jira"


def test_githubs_own_variables_alone_set_nothing_up() -> None:
    found = accounts({**JIRA, "GITHUB_REPOSITORY": "a/b"})
    assert found.github is None


@pytest.mark.parametrize("name", ["..", "a/..", "../b"])
def test_a_repository_is_no_path(name: str) -> None:
    with pytest.raises(Exception, match=r"is owner/repository|is no"):
        toolset(accounts({"GITHUB_REPOSITORY": name, "GITHUB_TOKEN": "token"}))


def test_an_agent_has_the_tools_by_their_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from testops.served import variables

    for name, value in variables("http://127.0.0.1:1").items():
        monkeypatch.setenv(name, value)
    agent = Agent(ScriptedModel([]), tools=["testops"])
    assert set(agent.toolset) == {*READS, *WRITES}
    with pytest.raises(ConfigError, match="did you mean 'testops'"):
        Agent(ScriptedModel([]), tools=["testop"])


def test_every_route_of_the_office_names_its_page() -> None:
    from testops.office import ROUTES

    assert len(ROUTES) > 40
    for one in ROUTES:
        assert one.source.startswith("https://"), one.path


def test_the_page_lists_every_tool() -> None:
    text = (Path(__file__).parents[2] / "examples" / "testops" / "README.md").read_text("utf-8")
    assert [name for name in (*READS, *WRITES) if f"`{name}`" not in text] == []
