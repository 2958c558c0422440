-- The annotations of a run are found without reading its journal. Older programs can go on with it.
-- oldest: 1

create index events_annotated on events (run, seq) where type = 21;
