-- Streams of runs, and their chunks. Older programs can go on with it.
-- oldest: 1

-- Stream numbers are taken in blocks by each writer.
create sequence streams_no;

-- A stream belongs to a run by its id, not by its number: who only has streams needs no run. How far it has come, its chunks say: the row stays as it is
-- while they are appended.
create table streams (
    no      bigint primary key,
    sources bigint not null,
    ns      integer not null,
    closed  boolean not null,
    run     uuid not null,
    name    text collate "C" not null,
    unique (ns, run, name)
) with (fillfactor = 80);

-- Who has written to a stream: attempts of steps, and branches of the workflow (attempt 0).
create table sources (
    stream  bigint not null,
    no      bigint not null,
    epoch   bigint not null,
    n       bigint not null,
    first   bigint not null,
    attempt integer not null,
    state   smallint not null,
    key     text collate "C" not null,
    primary key (stream, no)
) with (fillfactor = 80);
create index sources_key on sources (stream, key, no);

-- The key refuses whoever does not know the end of the stream.
create table chunks (
    stream bigint not null,
    idx    bigint not null,
    source bigint not null,
    at     bigint not null,
    data   bytea,
    primary key (stream, idx)
);
