-- Parked runs, and what was sent with a key, are found without a walk through all runs. Older programs can go on with it.
-- oldest: 1

create index cairn_runs_parked on cairn_runs (ns, id) where parked_at is not null;
create index cairn_receipts_sender on cairn_receipts (sender);
