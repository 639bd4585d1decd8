"""Whose run it is: what a caller may see, and what he may change."""

from taofold.core.errors import UnknownRun
from taofold.log.log import RunRow
from taofold.server.endpoint import Call
from taofold.server.problem import Problem


async def seen(call: Call, run: str) -> RunRow:
    """The run, if the caller may know of it.

    Raises:
        Problem: 404.
    """
    try:
        row = await call.server.log.row(run)
    except UnknownRun:
        row = None
    if row is None or not call.server.sees(call.principal, row):
        raise Problem(404, "not_found", "there is no such run, or it is not yours")
    return row


async def mine(call: Call) -> RunRow:
    """The run of the path, if the caller may change it.

    Raises:
        Problem: 404, or 403 where he may only read it.
    """
    row = await seen(call, call.path["run"])
    if row.principal != call.principal.id:
        raise Problem(403, "not_yours", "the run belongs to somebody else")
    return row
