-- Streams of runs, and their chunks. Older programs can go on with it.
-- oldest: 1

-- A stream belongs to a run by its id, not by its number: who only has streams needs no run.
create table cairn_streams (
    no      integer primary key,
    ns      integer not null,
    run     blob not null,
    name    text not null,
    next    integer not null, -- index of the next chunk
    sources integer not null,
    closed  integer not null,
    unique (ns, run, name)
) strict;

-- Who has written to a stream: attempts of steps, and branches of the workflow (attempt 0).
create table cairn_sources (
    stream  integer not null,
    no      integer not null,
    key     text not null,
    epoch   integer not null,
    attempt integer not null,
    n       integer not null,
    state   integer not null,
    first   integer not null,
    primary key (stream, no)
) strict, without rowid;
create index cairn_sources_key on cairn_sources (stream, key, no);

-- The chunks of a stream lie beside each other: a page is read without jumps, and a stream is removed by its number.
create table cairn_chunks (
    stream integer not null,
    idx    integer not null,
    source integer not null,
    at     integer not null,
    data   blob,
    primary key (stream, idx)
) strict, without rowid;
