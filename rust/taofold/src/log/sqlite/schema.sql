-- The layout of the log's file, version 7. The statements are those of the Python runtime, in its
-- order and form: tests/rust compares what both make of an empty file.
create table runs(
        number integer primary key autoincrement, run text not null unique,
        status text not null, goal text not null, agent text not null,
        session text not null, parent text not null, principal text not null,
        created_at integer not null, updated_at integer not null,
        epoch integer not null, owner text not null, waiting_for text not null,
        lease_until integer not null default 0, wake_at integer not null default 0,
        tags text not null default '{}');
-- ;
create index runs_session on runs(session) where session <> '';
-- ;
create index runs_parent on runs(parent) where parent <> '';
-- ;
create index runs_session_open on runs(session) where session <> '' and status not in ('cancelled', 'failed', 'finished', 'limited');
-- ;
create index runs_status on runs(status);
-- ;
create index runs_principal on runs(principal);
-- ;
create index runs_principal_status on runs(principal, status);
-- ;
create index runs_principal_agent on runs(principal, agent);
-- ;
create index runs_principal_agent_status on runs(principal, agent, status);
-- ;
create index runs_agent on runs(agent);
-- ;
create index runs_agent_status on runs(agent, status);
-- ;
create index runs_leased on runs(lease_until) where status = 'running' and lease_until > 0;
-- ;
create index runs_waking on runs(wake_at) where status = 'waiting' and wake_at > 0;
-- ;
create table events(id integer primary key, at integer not null, body text not null, version integer, link blob not null);
-- ;
create table inbox(number integer not null, place integer not null, id text not null, body text not null, primary key(number, place)) without rowid;
-- ;
create table seen(number integer not null, id text not null, primary key(number, id)) without rowid;
-- ;
create table blobs(digest text primary key, body blob not null);
-- ;
create table refs(digest text not null, number integer not null, primary key(digest, number)) without rowid;
-- ;
create table meta(key text primary key, value text not null) without rowid;
-- ;
create table counts(scope text not null, status text not null, runs integer not null, primary key(scope, status)) without rowid;
-- ;
create trigger runs_counted after insert on runs begin insert into counts select '*', new.status, 1 where true on conflict(scope, status) do update set runs = runs + excluded.runs; insert into counts select '@' || new.principal, new.status, 1 where new.parent = '' on conflict(scope, status) do update set runs = runs + excluded.runs; end;
-- ;
create trigger runs_uncounted after delete on runs begin insert into counts select '*', old.status, -1 where true on conflict(scope, status) do update set runs = runs + excluded.runs; insert into counts select '@' || old.principal, old.status, -1 where old.parent = '' on conflict(scope, status) do update set runs = runs + excluded.runs; end;
-- ;
create trigger runs_recounted after update of status on runs when old.status <> new.status begin insert into counts select '*', old.status, -1 where true on conflict(scope, status) do update set runs = runs + excluded.runs; insert into counts select '@' || old.principal, old.status, -1 where old.parent = '' on conflict(scope, status) do update set runs = runs + excluded.runs; insert into counts select '*', new.status, 1 where true on conflict(scope, status) do update set runs = runs + excluded.runs; insert into counts select '@' || new.principal, new.status, 1 where new.parent = '' on conflict(scope, status) do update set runs = runs + excluded.runs; end;
-- ;
create table streams(
        number integer primary key autoincrement, stream text not null unique,
        head integer not null, created_at integer not null, updated_at integer not null,
        owner text not null default '', lease_until integer not null default 0);
-- ;
create table facts(id integer primary key, at integer not null, body text not null);
-- ;
create table tags(tag text not null, number integer not null, primary key(tag, number)) without rowid;
-- ;
create trigger runs_tagged after insert on runs when new.tags <> '{}' begin insert into tags select key || '=' || value, new.number from json_each(new.tags); end;
-- ;
create trigger runs_untagged after delete on runs when old.tags <> '{}' begin delete from tags where number = old.number and tag in (select key || '=' || value from json_each(old.tags)); end;
-- ;
create table spend(scope text not null, hour integer not null, tokens integer not null, unpriced integer not null, nano_usd integer not null, primary key(scope, hour)) without rowid;
-- ;
create index spend_hour on spend(hour);
-- ;
create table heads(number integer not null, seq integer not null, at integer not null, link blob not null, envelope blob not null, stamp blob not null, primary key(number, seq)) without rowid;
