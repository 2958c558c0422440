-- Who owns runs, and whether they live. Older programs can go on with it.
-- oldest: 1

create table cairn_beats (
    incarnation blob primary key,
    beat        integer not null
) strict, without rowid;

create index cairn_runs_owner on cairn_runs (owner) where owner is not null;
