"""The tables of the PostgreSQL log, and the functions that write to them.

Each write is one function. It locks the run's row, compares the epoch, and reports the outcome by a
`code`, so that several can share a transaction and a refusal of one does not undo the others. Names
and bodies are bytea: text may hold NUL, which PostgreSQL's `text` and `jsonb` cannot. The tables
are in the first schema of the connection's search path.

A lease is a row of a separate table, because it is renewed every few seconds and a row of `runs`
has a dozen indexes. The number of runs is kept as differences that are only ever inserted, because
one row for each status would make all writers wait for each other.
"""

from typing import Final

import psycopg

from taofold.core.errors import Incompatible, LogError
from taofold.core.state import ENDED
from taofold.evidence.chain import PURPOSE
from taofold.log.log import LONGEST_LEASE_MS

# ruff: noqa: S608 - statements are built from constants of this module only


VERSION: Final = 6
"""Version of the layout. Raise it with statements in `UPGRADES`."""

_LOCK: Final = 0x7A0F01D5
"""Advisory lock for changing the layout; with 1 added, for adding and deleting blobs."""
_ENDED: Final = ", ".join(repr(status) for status in sorted(ENDED))
HELD: Final = (
    "r.status = 'running' and coalesce(l.until, 0) > taofold_now() "
    f"and l.until <= taofold_now() + {LONGEST_LEASE_MS}"
)

_TAGS: Final = (
    "create table taofold_tags(tag bytea not null, number bigint not null, "
    "primary key(tag, number))",
    """create or replace function taofold_tag() returns trigger language plpgsql as $$
    begin
      if tg_op = 'DELETE' then
        delete from taofold_tags where number = old.number and tag in (
          select convert_to(key || '=' || value, 'UTF8')
          from json_each_text(convert_from(old.tags, 'UTF8')::json));
      else
        insert into taofold_tags select convert_to(key || '=' || value, 'UTF8'), new.number
          from json_each_text(convert_from(new.tags, 'UTF8')::json);
      end if;
      return null;
    end $$""",
    "create trigger taofold_runs_tagged after insert on taofold_runs "
    "for each row when (new.tags <> '{}') execute function taofold_tag()",
    "create trigger taofold_runs_untagged after delete on taofold_runs "
    "for each row when (old.tags <> '{}') execute function taofold_tag()",
)
"""The tags of runs, and the index of them, kept by the database itself."""
_SPEND: Final = (
    "create table taofold_spend(scope bytea not null, hour bigint not null, "
    "tokens bigint not null, unpriced bigint not null, nano_usd bigint not null, "
    "primary key(scope, hour))",
    "create index taofold_spend_hour on taofold_spend(hour)",
    "create table taofold_charges(id bigint generated always as identity primary key, "
    "scope bytea not null, hour bigint not null, tokens bigint not null, "
    "unpriced bigint not null, nano_usd bigint not null)",
    "create index taofold_charges_scope on taofold_charges(scope, hour)",
    "create index taofold_charges_hour on taofold_charges(hour)",
)
"""Spending by scope and hour (`log.spending`), and the charges that it does not include yet.

As with counts, writers only insert: one row for all runs would make them wait for each other.
"""
_HEADS: Final = (
    "create table taofold_heads(number bigint not null, seq integer not null, at bigint not null, "
    "link bytea not null, envelope bytea not null default '', "
    "stamp bytea not null default '', primary key(number, seq))"
)
"""The heads of chains (`evidence.chain`)."""
_CHAIN_ID: Final = (
    "insert into taofold_meta values('chain', replace(gen_random_uuid()::text, '-', ''))"
)
_TABLES: Final = (
    "create table taofold_meta(key text primary key, value text not null)",
    """create table taofold_runs(
        number bigint generated always as identity primary key, run bytea not null unique,
        status text not null, goal bytea not null, agent bytea not null,
        session bytea not null, parent bytea not null, principal bytea not null,
        created_at bigint not null, updated_at bigint not null,
        epoch bigint not null, owner bytea not null, waiting_for bytea not null,
        wake_at bigint not null, tags bytea not null default '{}') with (fillfactor = 80)""",
    "create index taofold_runs_session on taofold_runs(session, number) where session <> ''",
    "create index taofold_runs_parent on taofold_runs(parent, number) where parent <> ''",
    "create index taofold_runs_status on taofold_runs(status, number)",
    "create index taofold_runs_principal on taofold_runs(principal, number)",
    "create index taofold_runs_principal_status on taofold_runs(principal, status, number)",
    "create index taofold_runs_principal_agent on taofold_runs(principal, agent, number)",
    "create index taofold_runs_principal_agent_status "
    "on taofold_runs(principal, agent, status, number)",
    "create index taofold_runs_agent on taofold_runs(agent, number)",
    "create index taofold_runs_agent_status on taofold_runs(agent, status, number)",
    "create index taofold_runs_waking on taofold_runs(wake_at, number) "
    "where status = 'waiting' and wake_at > 0",
    "create table taofold_leases(number bigint primary key, owner bytea not null, "
    "until bigint not null) with (fillfactor = 50)",
    "create index taofold_leases_until on taofold_leases(until, number)",
    "create table taofold_events(number bigint not null, seq integer not null, at bigint not null, "
    "version smallint not null, body bytea not null, link bytea not null, "
    "primary key(number, seq))",
    _HEADS,
    "create table taofold_inbox(number bigint not null, "
    "place bigint generated always as identity, id bytea not null, body bytea not null, "
    "primary key(number, place))",
    "create table taofold_seen(number bigint not null, id bytea not null, primary key(number, id))",
    "create table taofold_blobs(digest bytea primary key, body bytea not null)",
    "create table taofold_refs(digest bytea not null, number bigint not null, "
    "primary key(digest, number))",
    "create index taofold_refs_number on taofold_refs(number)",
    "create table taofold_totals(scope bytea not null, status text not null, runs bigint not null, "
    "primary key(scope, status))",
    "create table taofold_changes(id bigint generated always as identity primary key, "
    "scope bytea not null, status text not null, runs integer not null)",
    "create index taofold_changes_scope on taofold_changes(scope)",
    """create table taofold_streams(
        number bigint generated always as identity primary key, stream bytea not null unique,
        head bigint not null, created_at bigint not null, updated_at bigint not null,
        owner bytea not null default '', lease_until bigint not null default 0)""",
    "create table taofold_kept(key text primary key, version bigint not null, body bytea not null)",
    "create table taofold_facts(number bigint not null, seq bigint not null, at bigint not null, "
    "body bytea not null, primary key(number, seq))",
)
_RESULT: Final = "out code text, out at bigint, out who bytea, out what text"
_EVENTS: Final = """
  for place in 1..coalesce(cardinality(p_leaves), 0) loop
    prev := sha256(prev || p_leaves[place]);
    links := array_append(links, prev);
  end loop;
  insert into taofold_events(number, seq, at, version, body, link)
    select {number}, {head} + ord - 1, a, p_version, b, l
    from unnest(p_ats, p_bodies, links) with ordinality as given(a, b, l, ord);
  if p_status not in ('', 'running') and {head} + coalesce(cardinality(p_leaves), 0) > 0 then
    insert into taofold_heads(number, seq, at, link)
      values({number}, {head} + coalesce(cardinality(p_leaves), 0) - 1, taofold_now(), prev)
      on conflict do nothing;
  end if;
  if cardinality(p_digests) > 0 or cardinality(p_refs) > 0 then
    perform pg_advisory_xact_lock_shared({blobs});
    insert into taofold_blobs select d, b from unnest(p_digests, p_contents) as given(d, b)
      order by d on conflict do nothing;
    insert into taofold_refs select distinct d, {number} from unnest(p_digests || p_refs) as d
      order by d on conflict do nothing;
  end if;
"""

FUNCTIONS: Final = (
    """create or replace function taofold_now() returns bigint language sql stable
    as $$ select (extract(epoch from clock_timestamp()) * 1000)::bigint $$""",
    """create or replace function taofold_channel() returns text language sql stable
    as $$ select 'taofold_' || left(md5(current_schema()), 16) $$""",
    f"""create or replace function taofold_genesis(p_run bytea) returns bytea language sql stable
    as $$ select sha256('\\x{PURPOSE.hex()}'::bytea || convert_to(value, 'UTF8') || '\\x0a'::bytea
      || p_run) from taofold_meta where key = 'chain' $$""",
    """create or replace function taofold_notify(p_run bytea) returns void language sql
    as $$ select pg_notify(taofold_channel(),
        case when octet_length(p_run) < 3900 then encode(p_run, 'hex') else '' end) $$""",
    # ------------------------------------------------------------------------------ counting
    """create or replace function taofold_count() returns trigger language plpgsql as $$
    begin
      if tg_op <> 'INSERT' then
        insert into taofold_changes(scope, status, runs) values('*', old.status, -1);
        if old.parent = '' then
          insert into taofold_changes(scope, status, runs)
            values('@' || old.principal, old.status, -1);
        end if;
      end if;
      if tg_op <> 'DELETE' then
        insert into taofold_changes(scope, status, runs) values('*', new.status, 1);
        if new.parent = '' then
          insert into taofold_changes(scope, status, runs)
            values('@' || new.principal, new.status, 1);
        end if;
        perform taofold_notify(new.run);
      end if;
      return null;
    end $$""",
    f"""create or replace function taofold_compact() returns void language plpgsql as $$
    begin
      if not pg_try_advisory_xact_lock({_LOCK} + 2) then return; end if;
      with gone as (
        delete from taofold_changes where id in
          (select id from taofold_changes order by id limit 20000) returning scope, status, runs)
      insert into taofold_totals select scope, status, sum(runs) from gone group by 1, 2
        on conflict (scope, status) do update set runs = taofold_totals.runs + excluded.runs;
      with gone as (
        delete from taofold_charges where id in
          (select id from taofold_charges order by id limit 20000)
          returning scope, hour, tokens, unpriced, nano_usd)
      insert into taofold_spend as s
        select scope, hour, sum(tokens), sum(unpriced), sum(nano_usd) from gone group by 1, 2
        on conflict (scope, hour) do update set tokens = s.tokens + excluded.tokens,
          unpriced = s.unpriced + excluded.unpriced, nano_usd = s.nano_usd + excluded.nano_usd;
    end $$""",
    # ---------------------------------------------------------------------------------- runs
    f"""create or replace function taofold_create(
      p_run bytea, p_status text, p_goal bytea, p_agent bytea, p_session bytea, p_parent bytea,
      p_principal bytea, p_created bigint, p_updated bigint, p_waiting bytea, p_wake bigint,
      p_owner bytea, p_lease bigint, p_ats bigint[], p_bodies bytea[], p_version smallint,
      p_leaves bytea[], p_digests bytea[], p_contents bytea[], p_refs bytea[], p_tags bytea,
      {_RESULT})
    language plpgsql as $$
    declare n bigint; prev bytea := taofold_genesis(p_run); links bytea[];
    begin
      if p_session <> '' then
        -- Who registers a run of the same session waits until this transaction is over.
        perform pg_advisory_xact_lock({_LOCK}, hashtext(encode(p_session, 'hex')));
        select run, status into who, what from taofold_runs
          where session = p_session and session <> '' and status not in ({_ENDED}) limit 1;
        if found then code := 'busy'; return; end if;
      end if;
      insert into taofold_runs(run, status, goal, agent, session, parent, principal, created_at,
          updated_at, epoch, owner, waiting_for, wake_at, tags)
        values(p_run, p_status, p_goal, p_agent, p_session, p_parent, p_principal, p_created,
          p_updated, case when p_owner = '' then 0 else 1 end, p_owner, p_waiting, p_wake, p_tags)
        on conflict (run) do nothing returning number into n;
      if n is null then code := 'taken'; return; end if;
      if p_lease > 0 and p_status = 'running' then
        insert into taofold_leases values(n, p_owner, taofold_now() + p_lease);
      end if;
      {_EVENTS.format(number="n", head="0", blobs=_LOCK + 1)}
      code := 'ok';
    end $$""",
    f"""create or replace function taofold_claim(
      p_run bytea, p_owner bytea, p_epoch bigint, p_lease bigint, p_force boolean, {_RESULT})
    language plpgsql as $$
    declare r record; ends bigint;
    begin
      select number, epoch, owner, status into r from taofold_runs where run = p_run
        for no key update;
      if not found then code := 'unknown'; return; end if;
      who := r.owner;
      if p_epoch is not null and p_epoch <> r.epoch then
        code := 'overtaken'; at := r.epoch; return;
      end if;
      select until - taofold_now() into ends from taofold_leases where number = r.number;
      if r.status = 'running' and ends > 0 and ends <= {LONGEST_LEASE_MS}
          and not p_force and p_owner <> r.owner then
        code := 'held'; at := ends; return;
      end if;
      at := r.epoch + 1;
      if p_lease > 0 then
        update taofold_runs set epoch = r.epoch + 1, owner = p_owner, status = 'running',
          waiting_for = '', wake_at = 0 where number = r.number;
        insert into taofold_leases values(r.number, p_owner, taofold_now() + p_lease)
          on conflict (number) do update set owner = excluded.owner, until = excluded.until;
      else
        update taofold_runs set epoch = r.epoch + 1, owner = p_owner where number = r.number;
        delete from taofold_leases where number = r.number;
      end if;
      code := 'ok';
    end $$""",
    f"""create or replace function taofold_append(
      p_run bytea, p_epoch bigint, p_first bigint, p_ats bigint[], p_bodies bytea[],
      p_version smallint, p_leaves bytea[], p_digests bytea[], p_contents bytea[],
      p_refs bytea[], p_consume bytea[], p_costs bigint[], p_agents bytea[], p_status text,
      p_waiting bytea, p_wake bigint, p_quiet boolean, {_RESULT})
    language plpgsql as $$
    declare r record; head bigint; prev bytea; links bytea[];
    begin
      select number, epoch, owner, principal, agent, tags into r
        from taofold_runs where run = p_run for no key update;
      if not found then code := 'unknown'; return; end if;
      if r.epoch <> p_epoch then
        code := 'overtaken'; at := r.epoch; who := r.owner; return;
      end if;
      select seq + 1, link into head, prev from taofold_events where number = r.number
        order by seq desc limit 1;
      if not found then
        head := 0; prev := taofold_genesis(p_run);
      end if;
      if p_first <> head and p_first <> -2 then code := 'misplaced'; at := head; return; end if;
      if p_quiet and exists (select from taofold_inbox
          where number = r.number and not id = any(p_consume)) then
        code := 'loud'; return;
      end if;
      {_EVENTS.format(number="r.number", head="head", blobs=_LOCK + 1)}
      if cardinality(p_consume) > 0 then
        delete from taofold_inbox where number = r.number and id = any(p_consume);
      end if;
      -- Four numbers for each hour: the hour, tokens, unpriced tokens, billionths of a dollar.
      -- One agent for each: empty is the one with which the run began.
      for place in 1..coalesce(cardinality(p_costs), 0) by 4 loop
        insert into taofold_charges(scope, hour, tokens, unpriced, nano_usd)
          select scope, p_costs[place], p_costs[place + 1], p_costs[place + 2], p_costs[place + 3]
          from (select 'all'::bytea as scope union all select 'principal:'::bytea || r.principal
            union all select 'agent:'::bytea
              || coalesce(nullif(p_agents[place / 4 + 1], ''::bytea), r.agent)
            union all select convert_to('tag:' || key || '=' || value, 'UTF8')
              from json_each_text(convert_from(r.tags, 'UTF8')::json)) as charged;
      end loop;
      if p_status <> '' then
        update taofold_runs set status = p_status, waiting_for = p_waiting, wake_at = p_wake
          where number = r.number;
        if p_status <> 'running' then
          delete from taofold_leases where number = r.number;
        end if;
      end if;
      code := 'ok';
    end $$""",
    f"""create or replace function taofold_post(
      p_run bytea, p_id bytea, p_body bytea, p_wakes boolean, {_RESULT})
    language plpgsql as $$
    declare n bigint;
    begin
      select number into n from taofold_runs where run = p_run for no key update;
      if not found then code := 'unknown'; return; end if;
      insert into taofold_seen values(n, p_id) on conflict do nothing;
      if not found then code := 'seen'; return; end if;
      insert into taofold_inbox(number, id, body) values(n, p_id, p_body);
      if p_wakes then update taofold_runs set wake_at = 1 where number = n; end if;
      perform taofold_notify(p_run);
      code := 'ok';
    end $$""",
    f"""create or replace function taofold_delete(p_run bytea, {_RESULT})
    language plpgsql as $$
    declare n bigint;
    begin
      perform pg_advisory_xact_lock({_LOCK} + 1);
      select number into n from taofold_runs where run = p_run for update;
      if not found then code := 'unknown'; return; end if;
      delete from taofold_blobs where digest in (
        select mine.digest from taofold_refs mine where mine.number = n and not exists (
          select from taofold_refs other where other.digest = mine.digest and other.number <> n));
      delete from taofold_refs where number = n;
      delete from taofold_events where number = n;
      delete from taofold_heads where number = n;
      delete from taofold_inbox where number = n;
      delete from taofold_seen where number = n;
      delete from taofold_leases where number = n;
      delete from taofold_runs where number = n;
      code := 'ok';
    end $$""",
    f"""create or replace function taofold_head(p_run bytea, {_RESULT})
    language plpgsql as $$
    declare n bigint;
    begin
      select number into n from taofold_runs where run = p_run for no key update;
      if not found then code := 'unknown'; return; end if;
      insert into taofold_heads(number, seq, at, link)
        select number, seq, taofold_now(), link from taofold_events where number = n
          order by seq desc limit 1 on conflict do nothing;
      code := 'ok';
    end $$""",
    f"""create or replace function taofold_attest(
      p_run bytea, p_seq integer, p_envelope bytea, p_stamp bytea, p_replaced bytea, {_RESULT})
    language plpgsql as $$
    begin
      update taofold_heads h set envelope = p_envelope, stamp = p_stamp from taofold_runs r
        where r.run = p_run and h.number = r.number and h.seq = p_seq and h.envelope = p_replaced;
      code := case when found then 'ok' else 'unknown' end;
    end $$""",
    # ------------------------------------------------------------------------------- streams
    f"""create or replace function taofold_write(
      p_stream bytea, p_after bigint, p_ats bigint[], p_bodies bytea[], p_owner bytea,
      p_lease bigint, {_RESULT})
    language plpgsql as $$
    declare r record; count bigint := cardinality(p_ats);
    begin
      if p_after = -1 and count > 0 then
        insert into taofold_streams(stream, head, created_at, updated_at)
          values(p_stream, -1, p_ats[1], p_ats[1]) on conflict (stream) do nothing;
      end if;
      select number, head into r from taofold_streams where stream = p_stream for no key update;
      at := case when found then r.head else -1 end;
      if at <> p_after then code := 'outrun'; return; end if;
      if count > 0 then
        insert into taofold_facts select r.number, p_after + ord, a, b
          from unnest(p_ats, p_bodies) with ordinality as given(a, b, ord);
        update taofold_streams set head = p_after + count, updated_at = p_ats[count]
          where number = r.number;
      end if;
      if p_owner <> '' then
        update taofold_streams set owner = p_owner, lease_until = taofold_now() + p_lease
          where stream = p_stream;
      end if;
      at := p_after + count;
      code := 'ok';
    end $$""",
)
_TRIGGERS: Final = (
    "create trigger taofold_runs_count after insert or delete on taofold_runs "
    "for each row execute function taofold_count()",
    "create trigger taofold_runs_recount after update of status on taofold_runs "
    "for each row when (old.status <> new.status) execute function taofold_count()",
)
UPGRADES: Final[dict[int, tuple[str, ...]]] = {}
"""Statements that upgrade layout n to n + 1."""

# Only in the schema that will be used: another schema may hold another log.
_PRESENT: Final = (
    "select 1 from pg_class c join pg_namespace n on n.oid = c.relnamespace "
    "where c.relname = 'taofold_meta' and n.nspname = current_schema()"
)
_RIGHTS: Final = (
    "select string_agg(name, ', ') from unnest(array['taofold_runs', 'taofold_leases', "
    "'taofold_events', 'taofold_inbox', 'taofold_seen', 'taofold_blobs', 'taofold_refs', "
    "'taofold_totals', 'taofold_changes', 'taofold_streams', 'taofold_kept', "
    "'taofold_facts', 'taofold_tags', 'taofold_spend', 'taofold_charges', 'taofold_heads']) "
    "as name, "
    "unnest(array['select', 'insert', 'update', 'delete']) as action "
    "where not has_table_privilege(name, action)"
)


async def prepare(db: psycopg.AsyncConnection[tuple[object, ...]], name: str) -> str:
    """Creates the tables, or upgrades them, if necessary; returns the log's identity.

    One transaction under a lock: of several processes that start at once, one does it.

    Raises:
        Incompatible: The database is newer than this release, or too old.
        LogError: The role may not use it.
    """
    layout = await _layout(db)
    oldest = min(UPGRADES, default=VERSION)
    if 0 < layout < oldest:
        raise Incompatible(
            f"the log {name!r} has layout {layout}, this release reads {oldest} to {VERSION}; "
            "nothing was changed: it was written before release 0.1.0"
        )
    if layout < VERSION:
        async with db.transaction():
            # Released at the end of the transaction, even if the process dies in it.
            await db.execute("select pg_advisory_xact_lock(%s)", (_LOCK,))
            # Read again under the lock: another process may have built it in the meantime.
            await _build(db, await _layout(db))
    elif layout > VERSION:
        raise Incompatible(
            f"the log {name!r} has layout {layout}, this release knows up to {VERSION}; nothing "
            "was changed: use the newer taofold"
        )
    lacking = await _value(db, _RIGHTS)
    if lacking:
        raise LogError(
            f"the log {name!r} cannot be used: the role lacks rights on {lacking}. Let the owner "
            "of the tables grant SELECT, INSERT, UPDATE and DELETE"
        )
    return str(await _value(db, "select value from taofold_meta where key = 'identity'"))


async def _build(db: psycopg.AsyncConnection[tuple[object, ...]], layout: int) -> None:
    if layout == 0:
        for statement in (*_TABLES, *_TAGS, *_SPEND, *FUNCTIONS, *_TRIGGERS):
            await db.execute(statement.encode())
        # The identity is in the tables, so it is equal for all addresses that lead to them.
        await db.execute("insert into taofold_meta values('identity', gen_random_uuid()::text)")
        await db.execute(_CHAIN_ID)
    else:
        for step in range(layout, VERSION):
            for statement in UPGRADES[step]:
                await db.execute(statement.encode())
        # All of them again: they are `create or replace`, and an upgrade may have changed any.
        for statement in FUNCTIONS:
            await db.execute(statement.encode())
    await db.execute(
        "insert into taofold_meta values('layout', %s) "
        "on conflict (key) do update set value = excluded.value",
        (str(VERSION),),
    )


async def _layout(db: psycopg.AsyncConnection[tuple[object, ...]]) -> int:
    """Returns the layout of the existing tables; 0 = there are none."""
    # Not by `to_regclass`, which uses a cache that may be older than the lock.
    if await _value(db, _PRESENT) is None:
        return 0
    layout = await _value(db, "select value from taofold_meta where key = 'layout'")
    return int(str(layout)) if layout is not None else 0


async def _value(db: psycopg.AsyncConnection[tuple[object, ...]], statement: str) -> object:
    row = await (await db.execute(statement.encode())).fetchone()
    return None if row is None else row[0]
