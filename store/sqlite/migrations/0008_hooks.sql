-- The hooks of a namespace lie in the order of their runs, without an index for that.

create table cairn_hooks_ordered (
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
    primary key (ns, run, id)
) strict, without rowid;
insert into cairn_hooks_ordered select ns, run, id, key, token, status, flags, created_at, expires_at, retain_until, seq from cairn_hooks;
drop table cairn_hooks;
alter table cairn_hooks_ordered rename to cairn_hooks;
create unique index cairn_hooks_token on cairn_hooks (ns, token);
