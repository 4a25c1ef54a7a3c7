-- Own words: what was said in a topic is found among its messages, and a line of strangers that says something else takes its new room.

-- A reply may quote a question or a notice, which stands in no history: the newest messages of its topic are looked at.
CREATE INDEX outbox_topic ON outbox_messages(topic_id, seq);

CREATE TRIGGER strangers_turns_update AFTER UPDATE OF content ON turns
WHEN (SELECT source FROM inbox_messages WHERE seq = new.event_seq) GLOB 'local:*' BEGIN
  UPDATE strangers_room SET bytes = max(bytes + 2 * (octet_length(new.content) - octet_length(old.content)), 0);
END;
