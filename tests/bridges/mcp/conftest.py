"""Every test leaves no server behind."""

import pytest

from taofold.bridges.mcp.client import connection as mcp_connection


@pytest.fixture(autouse=True)
async def no_server_is_left(anyio_backend: str) -> object:
    yield
    await mcp_connection.on_loop(mcp_connection.close_all())


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "mcp_real: needs other people's MCP servers (make environments)"
    )
