-- The journal and its views. Keys are small on purpose: what a commit costs on SQLite is the pages that it dirties.
-- The tables have a prefix because the user's own tables may live in the same file. Text ids exist only at the edge; inside, a run is its number and an id is 16 bytes. Times are Unix milliseconds.

create table cairn_namespaces (
    no   integer primary key,
    name text not null unique
) strict;

-- A workflow's number stands for its namespace too.
create table cairn_workflows (
    no   integer primary key,
    ns   integer not null,
    name text not null,
    unique (ns, name)
) strict;

-- Who may write. Each batch moves its writer's row on, first thing: the row is fence, lock and proof in one.
create table cairn_writers (
    no          integer primary key,
    incarnation blob not null,
    number      integer not null,
    batch       integer not null default 0,
    fenced      integer not null default 0,
    unique (incarnation, number)
) strict;

create table cairn_runs (
    no           integer primary key,
    ns           integer not null,
    id           blob not null,
    workflow     integer not null,
    dialect      integer not null,
    status       integer not null,
    spec         integer not null default 0,
    created_at   integer not null,
    started_at   integer,
    completed_at integer,
    end_seq      integer,
    cancelled_at integer,
    parked_at    integer,
    owner        blob,
    epoch        integer not null default 0,
    wake_at      integer,
    parent       blob,
    start_key    text,
    start_digest blob,
    extra        blob -- what is rarely set and never searched by
) strict;
create unique index cairn_runs_id on cairn_runs (ns, id);
create index cairn_runs_workflow on cairn_runs (workflow, id);
create index cairn_runs_status on cairn_runs (ns, status, id) where status <> 2;
create index cairn_runs_due on cairn_runs (wake_at) where wake_at is not null;
create index cairn_runs_parent on cairn_runs (ns, parent, id) where parent is not null;
create unique index cairn_runs_start_key on cairn_runs (workflow, start_key) where start_key is not null;

-- The journal. Rows are appended at the right edge; only the small index entry lands next to its run.
-- Appends are possible only at the end of the log that was reduced: (run, seq) is unique, and that alone also keeps a
-- step from completing twice.
create table cairn_events (
    n      integer primary key,
    run    integer not null,
    seq    integer not null,
    type   integer not null,
    at     integer not null,
    entity blob,    -- null where it follows from the key of an inline step
    key    text,
    data   blob,
    input  blob,
    output blob
) strict;
create unique index cairn_events_run on cairn_events (run, seq);
create index cairn_events_entity on cairn_events (entity, run, seq) where entity is not null;

-- Steps with more events than their outcome. Inline steps are read from the journal.
create table cairn_steps (
    run           integer not null,
    id            blob not null,
    key           text,
    name          text not null,
    status        integer not null,
    attempt       integer not null,
    created_at    integer not null,
    started_at    integer,
    completed_at  integer,
    updated_at    integer not null,
    retry_after   integer,
    first_seq     integer not null,
    input_seq     integer,
    last_seq      integer not null,
    owner_message text,
    primary key (run, id)
) strict, without rowid;
create index cairn_steps_order on cairn_steps (run, first_seq);

create table cairn_hooks (
    ns           integer not null,
    run          integer not null,
    id           blob not null,
    key          text,
    token        text not null,
    status       integer not null,
    flags        integer not null,
    created_at   integer not null,
    expires_at   integer,
    retain_until integer,
    seq          integer not null,
    primary key (run, id)
) strict, without rowid;
create unique index cairn_hooks_token on cairn_hooks (ns, token);
create index cairn_hooks_order on cairn_hooks (ns, run, seq);

create table cairn_waits (
    run          integer not null,
    id           blob not null,
    key          text,
    kind         text,
    status       integer not null,
    resume_at    integer,
    created_at   integer not null,
    completed_at integer,
    seq          integer not null,
    primary key (run, id)
) strict, without rowid;

-- Deliveries with a sender's key, which are received once.
create table cairn_receipts (
    run    integer not null,
    sender text not null,
    hook   blob not null,
    digest blob not null,
    seq    integer not null,
    primary key (run, sender)
) strict, without rowid;

create table cairn_attributes (
    run   integer not null,
    key   text not null,
    value text not null,
    ns    integer not null,
    id    blob not null, -- of the run, so that a search finds runs in their order
    primary key (run, key)
) strict, without rowid;
create index cairn_attributes_search on cairn_attributes (ns, key, value, id);

create table cairn_messages (
    id         blob primary key,
    ns         integer not null,
    queue      text not null,
    run        blob,
    key        text,
    created_at integer not null,
    visible_at integer not null,
    deliveries integer not null default 0,
    payload    blob
) strict, without rowid;
create index cairn_messages_due on cairn_messages (ns, queue, visible_at);
create index cairn_messages_order on cairn_messages (ns, queue, id);
create unique index cairn_messages_key on cairn_messages (ns, queue, key) where key is not null;
