-- The last event of a batch says which writer wrote it, where the writer's own row does not. Older programs can go on with it.
-- oldest: 1

alter table cairn_events add column writer integer;
