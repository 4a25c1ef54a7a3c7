-- Doors: keys that belong to one source, sessions of connectors, and the channel that a source is.

ALTER TABLE keys ADD COLUMN public_id TEXT;  -- NULL: a key of the owner
ALTER TABLE keys ADD COLUMN source TEXT;     -- the one source it may use; NULL: a key of the owner
CREATE UNIQUE INDEX keys_public_id ON keys(public_id) WHERE public_id IS NOT NULL;

-- Only a digest of a session's id is kept: the id opens the door.
CREATE TABLE connector_sessions (
  sha256 BLOB PRIMARY KEY,
  key_id TEXT,                               -- the connector's key that made it
  is_keyless INTEGER NOT NULL,               -- 1: a program on this machine made it without a key
  connector_id TEXT,                         -- bound by the first event; NULL before
  source TEXT,
  created_at INTEGER NOT NULL,
  seen_at INTEGER NOT NULL
) WITHOUT ROWID;
CREATE INDEX connector_sessions_seen ON connector_sessions(seen_at);

-- 1: leased by a door of the server itself, whose leases end with the process.
ALTER TABLE outbox_messages ADD COLUMN pushed INTEGER NOT NULL DEFAULT 0;

-- What came through the connectors' door has a channel of another name than its source (D18).
CREATE TABLE channel_sources (
  source TEXT PRIMARY KEY,
  channel TEXT NOT NULL
) WITHOUT ROWID;

-- The views name the channel that a source is, and what hooks bring is nobody's message.
DROP VIEW cortex_session;
CREATE VIEW cortex_session AS SELECT
  turns.id,
  inbox_messages.id AS envelope_id,
  turns.role,
  -- A line that was said in another topic belongs to the channel of that one.
  CASE turns.topic_id WHEN inbox_messages.topic_id THEN coalesce(inbox_messages.channel, inbox_messages.source)
    ELSE (SELECT coalesce(channel_sources.channel, topics.source) FROM topics
      LEFT JOIN channel_sources ON channel_sources.source = topics.source WHERE topics.id = turns.topic_id) END AS channel,
  CASE turns.role WHEN 'user' THEN inbox_messages.user_id ELSE 'cortex' END AS sender_id,
  turns.content,
  turns.timestamp,
  CASE turns.role WHEN 'user' THEN json_set(
    json_insert(coalesce(inbox_messages.metadata_json, '{}'), '$.topic', turns.topic_key),
    '$.relationship', coalesce(inbox_messages.relationship, 'owner'))
  ELSE json_object('topic', turns.topic_key) END AS metadata
FROM turns JOIN inbox_messages ON inbox_messages.seq = turns.event_seq;

DROP VIEW extraction_cursors;
CREATE VIEW extraction_cursors AS
WITH extracted(position) AS (SELECT coalesce((SELECT position FROM memory_cursors WHERE name = 'extracted'), 0))
SELECT
  topics.topic_key,
  coalesce((SELECT max(turns.id) FROM turns WHERE turns.topic_id = topics.id AND turns.id <= extracted.position), 0)
    AS last_extracted_turn_id,
  (SELECT count(*) FROM turns JOIN inbox_messages ON inbox_messages.seq = turns.event_seq
   WHERE turns.topic_id = topics.id AND turns.id > extracted.position AND turns.role = 'user'
     AND coalesce(inbox_messages.channel, '') NOT IN ('cron', 'router')
     AND coalesce(inbox_messages.channel, '') NOT GLOB 'hook:*') AS turns_since_extraction,
  topics.source
FROM topics, extracted;

DROP VIEW cortex_checkpoints;
CREATE VIEW cortex_checkpoints AS SELECT
  checkpoints.event_seq AS id,
  checkpoints.created_at,
  json_object('source', topics.source, 'topicKey', topics.topic_key, 'lastTurn', checkpoints.last_turn_id) AS session_snapshot,
  (SELECT json_group_array(json_object('channel', channel, 'lastMessageAt', last_message_at, 'layer',
     CASE WHEN last_message_at < checkpoints.created_at - 3600000 THEN 'background' ELSE 'foreground' END)) FROM
    (SELECT channel, max(timestamp) AS last_message_at FROM
      (SELECT coalesce(channel_sources.channel, said_in.source) AS channel, turns.timestamp
       FROM turns JOIN topics AS said_in ON said_in.id = turns.topic_id
         LEFT JOIN channel_sources ON channel_sources.source = said_in.source
       WHERE turns.id <= checkpoints.last_turn_id ORDER BY turns.id DESC LIMIT 64)
     GROUP BY channel ORDER BY last_message_at DESC)) AS channel_states,
  (SELECT json_group_array(json_object('id', id, 'status', status)) FROM
    (SELECT ops.id, -- What was put away since had completed; what failed stays failed.
      CASE WHEN completed_at <= checkpoints.created_at THEN CASE status WHEN 'failed' THEN 'failed' ELSE 'completed' END
        ELSE 'pending' END AS status FROM ops
     WHERE dispatched_at <= checkpoints.created_at
       AND (acknowledged_at IS NULL OR acknowledged_at > checkpoints.created_at)
     ORDER BY dispatched_at LIMIT 100)) AS pending_ops
FROM checkpoints JOIN topics ON topics.id = checkpoints.topic_id;
