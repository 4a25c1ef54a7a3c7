-- Strangers: how much of the database connectors without a key have filled, kept by whatever writes, so that nobody has to count.
-- Their events add themselves when they are accepted: with a trigger on it, each insert would look through the tables that refer
-- to the inbox. What comes of them adds itself by the triggers below.

CREATE TABLE strangers_room (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  bytes INTEGER NOT NULL
);

-- A line about an event is looked for before another is written, and a trace asks for all of them.
CREATE INDEX audit_subject ON audit(subject);

-- The words of a line stand in the index as well.
CREATE TRIGGER strangers_turns_insert AFTER INSERT ON turns
WHEN (SELECT source FROM inbox_messages WHERE seq = new.event_seq) GLOB 'local:*' BEGIN
  UPDATE strangers_room SET bytes = bytes + 2 * octet_length(new.content);
END;
CREATE TRIGGER strangers_turns_delete AFTER DELETE ON turns
WHEN (SELECT source FROM inbox_messages WHERE seq = old.event_seq) GLOB 'local:*' BEGIN
  UPDATE strangers_room SET bytes = max(bytes - 2 * octet_length(old.content), 0);
END;

CREATE TRIGGER strangers_steps_insert AFTER INSERT ON turn_steps
WHEN (SELECT source FROM inbox_messages WHERE seq = new.event_seq) GLOB 'local:*' BEGIN
  UPDATE strangers_room SET bytes = bytes + 256 + octet_length(new.body_json);
END;

CREATE TRIGGER strangers_notes_insert AFTER INSERT ON trace_notes
WHEN (SELECT source FROM inbox_messages WHERE seq = new.event_seq) GLOB 'local:*' BEGIN
  UPDATE strangers_room SET bytes = bytes + 64 + octet_length(new.detail);
END;

CREATE TRIGGER strangers_outbox_insert AFTER INSERT ON outbox_messages WHEN new.source GLOB 'local:*' BEGIN
  UPDATE strangers_room SET bytes = bytes + 512 + octet_length(new.text) + coalesce(octet_length(new.payload_json), 0);
END;

CREATE TRIGGER strangers_approvals_insert AFTER INSERT ON pending_approvals WHEN new.source GLOB 'local:*' BEGIN
  UPDATE strangers_room SET bytes = bytes + 512 + octet_length(new.tool_arguments_json)
    + coalesce(octet_length(new.question), 0) + coalesce(octet_length(new.preview), 0);
END;

-- What is there already. Beside its words an event has rows of its turn, its topic and its channel, and indexes.
CREATE TEMP TABLE theirs AS SELECT seq FROM inbox_messages WHERE source GLOB 'local:*';
INSERT INTO strangers_room(only_row, bytes) SELECT 1,
  (SELECT coalesce(sum(2048 + octet_length(text) + coalesce(octet_length(metadata_json), 0)
     + 4 * (octet_length(source) + octet_length(external_message_id) + octet_length(topic_key)
     + octet_length(user_id) + octet_length(idempotency_key))), 0) FROM inbox_messages WHERE source GLOB 'local:*')
  + (SELECT coalesce(sum(2 * octet_length(content)), 0) FROM turns WHERE event_seq IN theirs)
  + (SELECT coalesce(sum(256 + octet_length(body_json)), 0) FROM turn_steps WHERE event_seq IN theirs)
  + (SELECT coalesce(sum(64 + octet_length(detail)), 0) FROM trace_notes WHERE event_seq IN theirs)
  + (SELECT coalesce(sum(512 + octet_length(text) + coalesce(octet_length(payload_json), 0)), 0)
     FROM outbox_messages WHERE source GLOB 'local:*')
  + (SELECT coalesce(sum(512 + octet_length(tool_arguments_json) + coalesce(octet_length(question), 0)
     + coalesce(octet_length(preview), 0)), 0) FROM pending_approvals WHERE source GLOB 'local:*');
DROP TABLE theirs;
