-- Parked runs, and what was sent with a key, are found without a walk through all runs. Older programs can go on with it.
-- oldest: 1

create index runs_parked on runs (ns, id) where parked_at is not null;
create index receipts_sender on receipts (sender);
