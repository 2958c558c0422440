-- Streams of runs, and their chunks. Older programs can go on with it.
-- oldest: 1

-- A stream belongs to a run by its id, not by its number: who only has streams needs no run. How far it has come, its chunks say: the row stays as it is
-- while they are appended.
create table cairn_streams (
    no      integer primary key,
    ns      integer not null,
    run     blob not null,
    name    text not null,
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

-- Like events, chunks are appended at the right edge, and only the small index entry lands beside its stream. The unique key refuses whoever
-- does not know the end of the stream.
create table cairn_chunks (
    n      integer primary key,
    stream integer not null,
    idx    integer not null,
    source integer not null,
    at     integer not null,
    data   blob
) strict;
create unique index cairn_chunks_stream on cairn_chunks (stream, idx);
