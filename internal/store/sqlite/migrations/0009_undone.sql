-- What steps 7 and 8 did for a while is undone: the newest runs were not in the index on states, and hooks lay in the order of their runs. Where they did nothing the
-- schema stays as it was, and older programs can go on with it; a column cairn_runs.young that a file may have is of no use, and does not harm.
-- oldest: 1

drop table if exists cairn_young;
drop index if exists cairn_runs_owner; -- of files that are older than step 2 is today
drop index cairn_runs_status;
create index cairn_runs_status on cairn_runs (ns, status, id) where status <> 2;

create table cairn_hooks_undone (
    ns           integer not null,
    run          integer not null,
    id           blob not null,
    key          text,
    token        text not null,
    status       integer not null,
    flags        integer not null,
    created_at   integer not null,
    expires_at   integer,
    retain_until integer,
    seq          integer not null,
    primary key (run, id)
) strict, without rowid;
insert into cairn_hooks_undone select ns, run, id, key, token, status, flags, created_at, expires_at, retain_until, seq from cairn_hooks;
drop table cairn_hooks;
alter table cairn_hooks_undone rename to cairn_hooks;
create unique index cairn_hooks_token on cairn_hooks (ns, token);
create index cairn_hooks_order on cairn_hooks (ns, run, seq);
