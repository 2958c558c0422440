-- Lines that the code of runs has said, kept beside the journal. Older programs can go on with it.
-- oldest: 1

create table logs (
    n       bigint generated always as identity primary key,
    run     bigint not null,
    at      bigint not null,
    epoch   bigint not null,
    level   integer not null,
    attempt integer not null,
    size    integer not null,
    step    text collate "C",
    message text collate "C" not null,
    attrs   text collate "C"
);
create index logs_run on logs (run, n) include (size);
