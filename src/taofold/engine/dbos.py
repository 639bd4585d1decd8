"""Activations as short workflows of DBOS Transact, on a queue in PostgreSQL.

DBOS keeps the queue, its limits and its history; nothing of a run is kept there but its id. A
workflow is one activation, so a run that waits holds no slot of the queue, and the code of a new
release may take over what an old one began. DBOS alone recovers a workflow only when its own
process comes back; here the workflow of a dead process is replaced when its run is due.

DBOS is one for each process: a process has one engine of this kind.
"""

import asyncio
import logging
import uuid
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeVar

from dbos import (
    DBOS,
    DBOSClient,
    DBOSConfig,
    DBOSPortableJSONSerializer,
    EnqueueOptions,
    WorkflowHandle,
)
from sqlalchemy.exc import SQLAlchemyError

from taofold.clocks import clock
from taofold.core.errors import ConfigError, LogError, Refused
from taofold.engine.dispatch import Drive

T = TypeVar("T")

SCHEMA: Final = "taofold_dbos"
"""The schema of the database where DBOS keeps its tables."""
POLL_S: Final = 0.5
"""Seconds between two looks into the queue."""
LOST_MS: Final = 10_000
"""A workflow that has not claimed its run for so long is lost, with the process that took it."""
KEEP: Final = timedelta(hours=1)
"""How long ended workflows stay to be looked at."""
_TIDY_S: Final = 60.0
_TIDY: Final = 500
_NAME: Final = "taofold.advance"
_APPLICATION: Final = "taofold"
_VERSION: Final = "1"
"""Fixed: DBOS runs no workflow of another version, and what one means here is in the log."""
_ENDED: Final = ["SUCCESS", "ERROR", "CANCELLED"]

_logger = logging.getLogger(__name__)


class DbosDispatcher:
    """The queue in the database at `url`, `postgresql://…`; its tables are made if missing."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._instance: DBOS | None = None
        self._client: DBOSClient | None = None
        self._queue = ""
        self._tidying: asyncio.Task[None] | None = None

    async def start(self, drive: Drive, *, group: str, most: int) -> None:
        """Launch DBOS in threads of its own and listen to the queue of `group`."""
        home = asyncio.get_running_loop()

        async def activation(run: str) -> None:
            # DBOS runs workflows in an event loop of its own; runs are driven in ours.
            future = asyncio.run_coroutine_threadsafe(drive(run), home)
            # DBOS tries nothing again; a run that is due all the same is handed in anew.
            with suppress(Refused):
                await asyncio.wrap_future(future)

        self._queue = f"taofold-{group}"
        try:
            await asyncio.to_thread(self._launch, activation, most)
        except SQLAlchemyError as error:
            await asyncio.to_thread(DBOS.destroy, destroy_registry=True)
            reason = str(getattr(error, "orig", None) or error).strip().splitlines()[0]
            raise ConfigError(
                f"DBOS cannot use its database: {reason}. It makes the schema {SCHEMA} at the "
                "first start, which needs CREATE on the database",
                path="engine",
            ) from error
        self._tidying = asyncio.create_task(self._tidy())

    async def enqueue(self, run: str, ticket: str) -> None:
        """Enqueue a workflow, unless one of the run is waiting or running."""
        if not await self._call(lambda client: _enqueue(client, self._queue, run, ticket)):
            _logger.info("the workflow of run %s was lost: there is another one", run)

    async def pause(self) -> None:
        """Listen no more."""
        for event in self._instance.background_thread_stop_events if self._instance else ():
            event.set()

    async def close(self) -> None:
        """Let go of DBOS, whose threads end."""
        if self._tidying is not None:
            self._tidying.cancel()
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)
        if self._client is not None:
            await asyncio.to_thread(self._client.destroy)

    def _launch(self, activation: Callable[[str], Any], most: int) -> None:
        # A workflow is tried once each time it is handed in, so DBOS counts no attempts.
        config: DBOSConfig = {
            "name": _APPLICATION,
            "application_version": _VERSION,
            "executor_id": f"taofold-{uuid.uuid4().hex}",
            "system_database_url": self._url,
            "dbos_system_schema": SCHEMA,
            "serializer": DBOSPortableJSONSerializer(),
            "enable_otlp": False,
            "log_level": "ERROR",
            "use_listen_notify": False,
        }
        self._instance = DBOS(config=config)
        DBOS.workflow(name=_NAME, max_recovery_attempts=None)(activation)
        DBOS.listen_queues([self._queue])
        DBOS.launch()
        DBOS.register_queue(
            self._queue,
            worker_concurrency=most,
            polling_interval_sec=POLL_S,
            on_conflict="always_update",
        )
        self._client = DBOSClient(
            system_database_url=self._url,
            dbos_system_schema=SCHEMA,
            serializer=DBOSPortableJSONSerializer(),
            use_listen_notify=False,
        )

    async def _call(self, work: Callable[[DBOSClient], T]) -> T:
        client = self._client
        if client is None:
            raise LogError("DBOS is not started")
        try:
            return await asyncio.to_thread(work, client)
        except SQLAlchemyError as error:
            raise LogError(f"DBOS cannot reach its database: {type(error).__name__}") from error

    async def _tidy(self) -> None:
        """Delete ended workflows after a while: DBOS keeps them for ever."""
        while True:
            await asyncio.sleep(_TIDY_S)
            try:
                while await self._call(lambda client: _delete_ended(client, self._queue)) == _TIDY:
                    pass
            except LogError as error:
                _logger.warning("ended workflows are not deleted now: %s", error)


def _enqueue(client: DBOSClient, queue: str, run: str, ticket: str) -> bool:
    """Hand the run in. False: a workflow of a process that is gone had to be put aside."""
    options: EnqueueOptions = {
        "workflow_name": _NAME,
        "queue_name": queue,
        "workflow_id": f"{ticket}.{uuid.uuid4().hex}",
        "app_version": _VERSION,
        "application_name": _APPLICATION,
        "deduplication_id": run,
        "duplication_policy": "return-existing",
    }
    handle: WorkflowHandle[Any] = client.enqueue(options, run)
    holder = handle.get_workflow_id()
    if holder == options["workflow_id"] or not _is_lost(handle.get_status(), ticket):
        return True
    client.cancel_workflow(holder)
    client.enqueue(options, run)
    return False


def _is_lost(status: Any, ticket: str) -> bool:
    """Is a workflow not going to advance its run any more?

    It is only asked about runs that are due: one that has claimed its run (another epoch) has
    ended or died since.
    """
    if status.status != "PENDING":
        return False
    claimed = not status.workflow_id.startswith(f"{ticket}.")
    return claimed or clock() - (status.dequeued_at or 0) > LOST_MS


def _delete_ended(client: DBOSClient, queue: str) -> int:
    ended = client.list_workflows(
        queue_name=queue,
        status=_ENDED,
        completed_before=(datetime.now(UTC) - KEEP).isoformat(),
        limit=_TIDY,
        load_input=False,
        load_output=False,
    )
    if ended:
        client.delete_workflows([workflow.workflow_id for workflow in ended])
    return len(ended)
