-- Lines that the code of runs has said, kept beside the journal. Older programs can go on with it.
-- oldest: 1

create table cairn_logs (
    n       integer primary key,
    run     integer not null,
    at      integer not null,
    level   integer not null,
    epoch   integer not null,
    attempt integer not null,
    size    integer not null,
    step    text,
    message text not null,
    attrs   text
) strict;
create index cairn_logs_run on cairn_logs (run, n, size);
