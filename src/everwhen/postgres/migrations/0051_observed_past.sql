-- What blocked a line, and who watched, is forgotten after a while: by when it ended, over all tenants, in small batches.
create index line_states_past on everwhen.line_states (until) where until is not null;
grant delete on everwhen.line_states, everwhen.observations to everwhen_system;
