-- Who owns runs, and whether they live. Older programs can go on with it.
-- oldest: 1

create table beats (
    incarnation uuid primary key,
    beat        bigint not null
) with (fillfactor = 50);

create index runs_owner on runs (owner) where owner is not null;
