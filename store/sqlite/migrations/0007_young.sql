-- The index on states does not have the newest runs: most runs end while they are among them, and never get into it. The mark says behind which number the
-- newest begin. Older programs would look into the index only.

alter table cairn_runs add column young integer not null default 0;
create table cairn_young (
    mark integer not null
) strict;
insert into cairn_young (mark) select coalesce(max(no), 0) from cairn_runs;
drop index cairn_runs_status;
create index cairn_runs_status on cairn_runs (ns, status, id) where status <> 2 and young = 0;
