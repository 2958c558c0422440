-- The journal and its views. Text ids exist only at the edge; inside, a run is its number and an id is 16 bytes. Times are
-- Unix milliseconds. Text sorts by its bytes, as in every other store. Fixed-length columns come first: rows are smaller so.

create table namespaces (
    no   integer generated always as identity primary key,
    name text collate "C" not null unique
);

-- A workflow's number stands for its namespace too.
create table workflows (
    no   integer generated always as identity primary key,
    ns   integer not null,
    name text collate "C" not null,
    unique (ns, name)
);

-- Who may write. Each batch moves its writer's row on, first thing: the row is fence, lock and proof in one. The row with
-- number -1 stands for the incarnation itself. Half of each page stays free, so that moving on touches no index.
create table writers (
    no          bigint generated always as identity primary key,
    batch       bigint not null default 0,
    number      integer not null,
    fenced      boolean not null default false,
    incarnation uuid not null,
    unique (incarnation, number)
) with (fillfactor = 50);

-- Run numbers are taken in blocks by each writer: they are unique, not in order.
create sequence runs_no;

create table runs (
    no           bigint primary key,
    epoch        bigint not null default 0,
    created_at   bigint not null,
    started_at   bigint,
    completed_at bigint,
    end_seq      bigint,
    cancelled_at bigint,
    parked_at    bigint,
    wake_at      bigint,
    ns           integer not null,
    workflow     integer not null,
    spec         integer not null default 0,
    dialect      smallint not null,
    status       smallint not null,
    id           uuid not null,
    owner        uuid,
    parent       uuid,
    start_key    text collate "C",
    start_digest bytea,
    extra        bytea -- what is rarely set and never searched by
) with (fillfactor = 80);
create unique index runs_id on runs (ns, id);
create index runs_workflow on runs (workflow, id);
create index runs_status on runs (ns, status, id) where status <> 2;
create index runs_due on runs (wake_at) where wake_at is not null;
create index runs_parent on runs (ns, parent, id) where parent is not null;
create unique index runs_start_key on runs (workflow, start_key) where start_key is not null;

-- The journal. Appends are possible only at the end of the log that was reduced: (run, seq) is unique, and that alone also
-- keeps a step from completing twice.
create table events (
    run    bigint not null,
    seq    bigint not null,
    at     bigint not null,
    type   smallint not null,
    entity uuid,    -- null where it follows from the key of an inline step
    key    text collate "C",
    data   bytea,
    input  bytea,
    output bytea,
    primary key (run, seq)
);
create index events_entity on events (entity, run, seq) where entity is not null;

-- Steps with more events than their outcome. Inline steps are read from the journal.
create table steps (
    run           bigint not null,
    created_at    bigint not null,
    started_at    bigint,
    completed_at  bigint,
    updated_at    bigint not null,
    retry_after   bigint,
    first_seq     bigint not null,
    input_seq     bigint,
    last_seq      bigint not null,
    attempt       integer not null,
    status        smallint not null,
    id            uuid not null,
    key           text collate "C",
    name          text collate "C" not null,
    owner_message text collate "C",
    primary key (run, id)
) with (fillfactor = 80);
create index steps_order on steps (run, first_seq);

create table hooks (
    run          bigint not null,
    seq          bigint not null,
    created_at   bigint not null,
    expires_at   bigint,
    retain_until bigint,
    ns           integer not null,
    status       smallint not null,
    flags        smallint not null,
    id           uuid not null,
    key          text collate "C",
    token        text collate "C" not null,
    primary key (run, id)
) with (fillfactor = 80);
create unique index hooks_token on hooks (ns, token);
create index hooks_order on hooks (ns, run, seq);

create table waits (
    run          bigint not null,
    seq          bigint not null,
    created_at   bigint not null,
    resume_at    bigint,
    completed_at bigint,
    status       smallint not null,
    id           uuid not null,
    key          text collate "C",
    kind         text collate "C",
    primary key (run, id)
) with (fillfactor = 80);

-- Deliveries with a sender's key, which are received once.
create table receipts (
    run    bigint not null,
    seq    bigint not null,
    hook   uuid not null,
    sender text collate "C" not null,
    digest bytea not null,
    primary key (run, sender)
);

create table attributes (
    run   bigint not null,
    ns    integer not null,
    id    uuid not null, -- of the run, so that a search finds runs in their order
    key   text collate "C" not null,
    value text collate "C" not null,
    primary key (run, key)
);
create index attributes_search on attributes (ns, key, value, id);

create table messages (
    id         uuid primary key,
    created_at bigint not null,
    visible_at bigint not null,
    ns         integer not null,
    deliveries integer not null default 0,
    run        uuid,
    queue      text collate "C" not null,
    key        text collate "C",
    payload    bytea
) with (fillfactor = 80);
create index messages_due on messages (ns, queue, visible_at);
create index messages_order on messages (ns, queue, id);
create unique index messages_key on messages (ns, queue, key) where key is not null;
