-- Events that run, for a start that looks for those which no topic names. There are as many entries as turns that run.
CREATE INDEX inbox_processing ON inbox_messages(topic_id, seq) WHERE status = 'processing';
