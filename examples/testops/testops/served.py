"""The office behind a port: `python -m testops.served` prints the variables that point to it."""

import asyncio
import sys
from typing import Final

from aiohttp import web

from testops.office import REPOSITORY, TOKEN, USER, Dropped, Office, rendered

PORT: Final = 8787


def application(office: Office) -> web.Application:
    """Returns the office as an application of aiohttp."""

    async def handle(request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        try:
            answer = office.handle(request.method, request.raw_path, headers, await request.read())
        except Dropped:
            if request.transport is not None:
                request.transport.abort()
            raise asyncio.CancelledError from None
        sent, body = rendered(answer)
        return web.Response(status=answer.status, body=body, headers=sent)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    return app


def variables(url: str) -> dict[str, str]:
    """Returns the environment variables that point the testops tools to an office."""
    return {
        "JIRA_URL": f"{url}/jira-cloud",
        "JIRA_EMAIL": USER,
        "JIRA_TOKEN": TOKEN,
        "JIRA_PROJECT": "SHOP",
        "GITHUB_API_URL": f"{url}/github",
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_TOKEN": TOKEN,
        "CONFLUENCE_URL": f"{url}/wiki-cloud/wiki",
        "CONFLUENCE_EMAIL": USER,
        "CONFLUENCE_TOKEN": TOKEN,
        "CONFLUENCE_SPACE": "SHOP",
        "JENKINS_URL": f"{url}/jenkins",
        "JENKINS_USER": USER,
        "JENKINS_TOKEN": TOKEN,
    }


def main() -> None:
    """Serves a new office at a local port."""
    url = f"http://127.0.0.1:{PORT}"
    for name, value in variables(url).items():
        sys.stdout.write(f"export {name}={value}\n")
    sys.stdout.flush()
    web.run_app(application(Office(url)), host="127.0.0.1", port=PORT, print=None)


if __name__ == "__main__":
    main()
