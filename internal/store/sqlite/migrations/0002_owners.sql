-- The hearts of processes that own runs. Older programs can go on with it.
-- oldest: 1

create table cairn_beats (
    incarnation blob primary key,
    beat        integer not null
) strict, without rowid;
