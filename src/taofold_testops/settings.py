"""Accounts of the four services, read from environment variables. Reads nothing else.

A service without its variables has no tools. A service with only some of them is an error, because
the operator meant to set it up. GitHub's names are used by other programs as well, so there the
service needs both and is otherwise off.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import urlsplit

from taofold.core.errors import ConfigError
from taofold.network import http_parts, is_loopback

GITHUB_API: Final = "https://api.github.com"


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The address of one service, the credentials for it, and the part of it that may be used.

    Args:
        service: Name for messages: "Jira", "GitHub", "Confluence" or "Jenkins".
        url: Base URL, without user, query and fragment.
        token: API token or personal access token.
        user: Account of the token, for Basic authentication. Empty for a bearer token.
        scope: Jira project keys, Confluence space keys, one `owner/repository`, or one Jenkins
            folder. Empty for everything that the account may see.
        names: Names of the variables with the credentials, for messages.
    """

    service: str
    url: str
    token: str = field(repr=False)
    user: str = ""
    scope: tuple[str, ...] = ()
    names: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "url", _base(self.service, self.url))
        # The values are not quoted: they are secret, or in the wrong variable.
        if not re.fullmatch(r"[!-~]+", self.token):
            raise ConfigError(
                f"the token of {self.service} has a space, a line break or a letter that no token "
                "has: copy it again"
            )
        if ":" in self.user or not self.user.isprintable():
            raise ConfigError(
                f"the user of {self.service} has a colon or a line break, which Basic "
                "authentication cannot send"
            )


@dataclass(frozen=True, slots=True)
class Accounts:
    """The accounts of all services. None for a service that is not set up."""

    jira: ServiceAccount | None = None
    github: ServiceAccount | None = None
    confluence: ServiceAccount | None = None
    jenkins: ServiceAccount | None = None


_REQUIRED: Final[dict[str, tuple[str, ...]]] = {
    "Jira": ("JIRA_URL", "JIRA_TOKEN"),
    "GitHub": ("GITHUB_REPOSITORY", "GITHUB_TOKEN"),
    "Confluence": ("CONFLUENCE_URL", "CONFLUENCE_TOKEN"),
    "Jenkins": ("JENKINS_URL", "JENKINS_USER", "JENKINS_TOKEN"),
}
_SHARED: Final = frozenset({"GitHub"})
"""Services whose variables other programs set for themselves."""


def accounts(environment: Mapping[str, str]) -> Accounts:
    """Returns the accounts of the services that the environment sets up.

    Args:
        environment: Variables by name, such as `os.environ`.

    Raises:
        ConfigError: A service is set up partly or with an invalid value, or none is set up.
    """
    found = {name: value.strip() for name, value in environment.items() if value.strip()}
    ready = {service for service, needed in _REQUIRED.items() if _is_ready(service, needed, found)}
    if not ready:
        each = "; ".join(f"{name}: {', '.join(names)}" for name, names in _REQUIRED.items())
        raise ConfigError(f"no service is set up for testops. Set the variables of one: {each}")
    get = found.get
    return Accounts(
        jira=_account("Jira", found, "JIRA", get("JIRA_EMAIL", ""), _keys(get("JIRA_PROJECT")))
        if "Jira" in ready
        else None,
        github=ServiceAccount(
            "GitHub",
            get("GITHUB_API_URL", GITHUB_API),
            found["GITHUB_TOKEN"],
            scope=(_repository(found["GITHUB_REPOSITORY"]),),
            names="GITHUB_TOKEN",
        )
        if "GitHub" in ready
        else None,
        confluence=_account(
            "Confluence",
            found,
            "CONFLUENCE",
            get("CONFLUENCE_EMAIL", ""),
            _keys(get("CONFLUENCE_SPACE")),
        )
        if "Confluence" in ready
        else None,
        jenkins=_account(
            "Jenkins", found, "JENKINS", found["JENKINS_USER"], _folder(get("JENKINS_FOLDER"))
        )
        if "Jenkins" in ready
        else None,
    )


def _is_ready(service: str, needed: tuple[str, ...], found: Mapping[str, str]) -> bool:
    missing = [name for name in needed if name not in found]
    if missing and len(missing) < len(needed) and service not in _SHARED:
        present = next(name for name in needed if name in found)
        raise ConfigError(f"{present} is set, but not {' and '.join(missing)}")
    return not missing


def _account(
    service: str, found: Mapping[str, str], prefix: str, user: str, scope: tuple[str, ...]
) -> ServiceAccount:
    credentials = [name for name in ("EMAIL", "USER", "TOKEN") if f"{prefix}_{name}" in found]
    names = " and ".join(f"{prefix}_{name}" for name in credentials)
    return ServiceAccount(
        service, found[f"{prefix}_URL"], found[f"{prefix}_TOKEN"], user, scope, names
    )


def _base(service: str, url: str) -> str:
    """Returns a base URL without a slash at its end.

    Raises:
        ConfigError: It is not an http(s) URL, has a user, a query or a fragment, or is plain http
            to another machine.
    """
    name = "GITHUB_API_URL" if service == "GitHub" else f"{service.upper()}_URL"
    try:
        parts = http_parts(url)
    except ValueError:
        # Not quoted: it may be a token in the wrong variable.
        raise ConfigError(f"{name} is no http(s) URL") from None
    if parts.username or parts.password:
        raise ConfigError(f"{name} has a user or password: use the other variables")
    if parts.query or parts.fragment:
        raise ConfigError(f"{name} has a query or fragment: {url[:100]!r}")
    if parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ConfigError(
            f"{name} is plain http, which shows the token to the network: use https, "
            f"or a tunnel to localhost ({parts.hostname!r} is not this machine)"
        )
    return urlsplit(url)._replace(query="", fragment="").geturl().rstrip("/")


def _keys(text: str | None) -> tuple[str, ...]:
    """Returns keys that are separated by commas: `SHOP, PAY`."""
    return tuple(key.strip() for key in (text or "").split(",") if key.strip())


def _folder(text: str | None) -> tuple[str, ...]:
    folder = (text or "").strip("/ ")
    return (folder,) if folder else ()


def _repository(text: str) -> str:
    owner, slash, name = text.strip("/").partition("/")
    if not (owner and slash and name) or "/" in name:
        raise ConfigError(f"GITHUB_REPOSITORY is owner/repository, not {text[:100]!r}")
    return f"{owner}/{name}"
