-- What is ready is found by its source, so that no source waits for another's backlog.

DROP INDEX topics_ready;
CREATE INDEX topics_ready_by_source ON topics(source, head_priority, head_seq)
  WHERE in_flight IS NULL AND head_seq IS NOT NULL AND head_due_at = 0;
