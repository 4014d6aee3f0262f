-- What blocked a line in a stretch of time: by when it ended, so that years of history are not walked through.
create index line_states_ended on everwhen.line_states (tenant_id, queue, until) where until is not null;
