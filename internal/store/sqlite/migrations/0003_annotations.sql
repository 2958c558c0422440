-- The annotations of a run are found without reading its journal. Older programs can go on with it.
-- oldest: 1

create index cairn_events_annotated on cairn_events (run, seq) where type = 21;
