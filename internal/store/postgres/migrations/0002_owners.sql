-- The hearts of processes that own runs. Older programs can go on with it.
-- oldest: 1

create table beats (
    incarnation uuid primary key,
    beat        bigint not null
) with (fillfactor = 50);
