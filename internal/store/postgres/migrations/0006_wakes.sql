-- Runs that a batch has to wake and could not, because another transaction held their rows. Older programs can go on with it.
-- oldest: 1

create table wakes (
    n   bigint generated always as identity primary key,
    ns  integer not null,
    run uuid not null
);
