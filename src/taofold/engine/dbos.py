"""Activations as short workflows of DBOS Transact, on a queue in PostgreSQL.

DBOS keeps the queue, its limits and its history, and of a run only the id. A workflow is one
activation. A waiting run therefore holds no slot of the queue, and the code of a new release may
continue what an old one began. DBOS alone recovers a workflow only when its own process returns;
here the workflow of a dead process is replaced when its run is due. DBOS is a singleton: a process
has one engine of this kind.
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
"""Seconds between two checks of the queue."""
LOST_MS: Final = 10_000
"""Milliseconds after which a workflow that has not claimed its run is lost, with its process."""
KEEP: Final = timedelta(hours=1)
"""Retention of ended workflows, for inspection."""
_TIDY_S: Final = 60.0
_TIDY: Final = 500
_NAME: Final = "taofold.advance"
_APPLICATION: Final = "taofold"
_VERSION: Final = "1"
"""Fixed: DBOS runs no workflow of another version, and the state of a run is in the log."""
_ENDED: Final = ["SUCCESS", "ERROR", "CANCELLED"]

_logger = logging.getLogger(__name__)


class DbosDispatcher:
    """The queue in the database at `url`, `postgresql://…`; missing tables are created."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._instance: DBOS | None = None
        self._client: DBOSClient | None = None
        self._queue = ""
        self._tidying: asyncio.Task[None] | None = None

    async def start(self, drive: Drive, *, group: str, most: int) -> None:
        """Launches DBOS in threads of its own and listens to the queue of `group`."""
        home = asyncio.get_running_loop()

        async def activation(run: str) -> None:
            # DBOS runs workflows in its own event loop; runs are driven in the caller's.
            future = asyncio.run_coroutine_threadsafe(drive(run), home)
            # DBOS does not retry; a run that is still due is enqueued again.
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
        """Enqueues a workflow, unless one of the run is waiting or running."""
        if not await self._call(lambda client: _enqueue(client, self._queue, run, ticket)):
            _logger.info("the workflow of run %s was lost: there is another one", run)

    async def pause(self) -> None:
        """Stops listening."""
        for event in self._instance.background_thread_stop_events if self._instance else ():
            event.set()

    async def close(self) -> None:
        """Shuts DBOS down, with its threads."""
        if self._tidying is not None:
            self._tidying.cancel()
        await asyncio.to_thread(DBOS.destroy, destroy_registry=True)
        if self._client is not None:
            await asyncio.to_thread(self._client.destroy)

    def _launch(self, activation: Callable[[str], Any], most: int) -> None:
        # A workflow is tried once per enqueueing, so DBOS counts no attempts.
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
        """Deletes ended workflows after a while: DBOS keeps them forever."""
        while True:
            await asyncio.sleep(_TIDY_S)
            try:
                while await self._call(lambda client: _delete_ended(client, self._queue)) == _TIDY:
                    pass
            except LogError as error:
                _logger.warning("ended workflows are not deleted now: %s", error)


def _enqueue(client: DBOSClient, queue: str, run: str, ticket: str) -> bool:
    """Enqueues the run. Returns False if a workflow of a dead process had to be cancelled."""
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
    """Returns whether a workflow will not advance its run any more.

    It is called only for due runs: a workflow that has claimed its run (another epoch) has ended or
    died since.
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
