-- The session: channels, ops, summaries of what was said, checkpoints.

ALTER TABLE inbox_messages ADD COLUMN channel TEXT;              -- NULL: the source
ALTER TABLE inbox_messages ADD COLUMN relationship TEXT;         -- of the sender; NULL: owner
ALTER TABLE turns ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;  -- estimate; 0: not counted
ALTER TABLE turns ADD COLUMN attachments TEXT;                   -- the line that names what came with it

CREATE TABLE ops (
  id TEXT PRIMARY KEY,
  type TEXT NOT NULL,
  description TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending', -- pending|completed|failed|gardened|archived
  dispatched_at INTEGER NOT NULL,
  expected_channel TEXT,
  completed_at INTEGER,
  result TEXT,
  acknowledged_at INTEGER,
  gardened_at INTEGER,
  source TEXT NOT NULL,                   -- the topic that asked
  topic_key TEXT NOT NULL,
  user_id TEXT NOT NULL,
  event_seq INTEGER REFERENCES inbox_messages(seq),
  run_id TEXT                             -- the durable run that owns it, if one does
);
CREATE INDEX ops_shown ON ops(dispatched_at) WHERE acknowledged_at IS NULL AND status IN ('pending', 'completed', 'failed');
CREATE INDEX ops_status ON ops(status);

-- A topic's lines lie side by side here: reading a history costs the same however much was said elsewhere meanwhile.
DROP INDEX turns_topic;
CREATE INDEX turns_topic ON turns(topic_id, id, role, content, timestamp, tokens, attachments, checksum);

-- The modes in force, as the settings have them; the row with no name is for channels that are not listed.
CREATE TABLE channel_modes (
  channel TEXT PRIMARY KEY,
  mode TEXT NOT NULL,                     -- off|shadow|live
  topic TEXT                              -- where a send from another channel goes
) WITHOUT ROWID;

-- A line for each topic of each user; the channel is the topic's source.
CREATE TABLE channel_states (
  topic_id INTEGER NOT NULL REFERENCES topics(id),
  user_id TEXT NOT NULL,
  channel TEXT NOT NULL,
  last_message_at INTEGER NOT NULL,
  summary TEXT NOT NULL DEFAULT '',
  layer TEXT NOT NULL DEFAULT 'foreground', -- foreground|background|archived
  PRIMARY KEY (topic_id, user_id)
) WITHOUT ROWID;
-- A prompt steps from channel to channel and reads the newest line of each, however many topics there are.
CREATE INDEX channel_states_channel ON channel_states(channel, last_message_at);
CREATE INDEX channel_states_user ON channel_states(user_id, channel, last_message_at);

-- A summary stands for the turns it covers; they stay. Undone ones are passed over.
CREATE TABLE turn_summaries (
  id INTEGER PRIMARY KEY,
  topic_id INTEGER NOT NULL REFERENCES topics(id),
  first_turn_id INTEGER NOT NULL,
  last_turn_id INTEGER NOT NULL,
  content TEXT NOT NULL,
  tokens INTEGER NOT NULL,
  created_at INTEGER NOT NULL,
  undone_at INTEGER
);
CREATE INDEX turn_summaries_topic ON turn_summaries(topic_id, last_turn_id) WHERE undone_at IS NULL;

-- Where everything stood when a turn ended. What it looked like follows from the history and the ops (cortex_checkpoints),
-- so that a turn writes one small row.
CREATE TABLE checkpoints (
  event_seq INTEGER PRIMARY KEY REFERENCES inbox_messages(seq),
  topic_id INTEGER NOT NULL REFERENCES topics(id),
  last_turn_id INTEGER NOT NULL,
  created_at INTEGER NOT NULL
);

CREATE VIEW cortex_bus AS SELECT
  id,
  json_object('id', id, 'channel', coalesce(channel, source), 'topic', topic_key, 'sender', user_id,
    'relationship', coalesce(relationship, 'owner'), 'content', text,
    'attachments', json(coalesce(metadata_json -> '$.attachments', '[]')),
    'timestamp', occurred_at, 'priority', CASE priority WHEN 0 THEN 'urgent' WHEN 1 THEN 'normal' ELSE 'background' END,
    'metadata', json(coalesce(metadata_json, '{}'))) AS envelope,
  CASE status WHEN 'done' THEN 'completed' WHEN 'waiting' THEN 'processing' ELSE status END AS state,
  CASE priority WHEN 0 THEN 'urgent' WHEN 1 THEN 'normal' ELSE 'background' END AS priority,
  created_at AS enqueued_at,
  CASE WHEN status IN ('done', 'failed') THEN updated_at END AS processed_at,
  attempts,
  error,
  (SELECT event_seq FROM checkpoints WHERE checkpoints.event_seq = inbox_messages.seq) AS checkpoint_id
FROM inbox_messages;

CREATE VIEW cortex_session AS SELECT
  turns.id,
  inbox_messages.id AS envelope_id,
  turns.role,
  -- A line that was said in another topic belongs to the channel of that one.
  CASE turns.topic_id WHEN inbox_messages.topic_id THEN coalesce(inbox_messages.channel, inbox_messages.source)
    ELSE (SELECT source FROM topics WHERE topics.id = turns.topic_id) END AS channel,
  CASE turns.role WHEN 'user' THEN inbox_messages.user_id ELSE 'cortex' END AS sender_id,
  turns.content,
  turns.timestamp,
  CASE turns.role WHEN 'user' THEN json_set(
    json_insert(coalesce(inbox_messages.metadata_json, '{}'), '$.topic', turns.topic_key),
    '$.relationship', coalesce(inbox_messages.relationship, 'owner'))
  ELSE json_object('topic', turns.topic_key) END AS metadata
FROM turns JOIN inbox_messages ON inbox_messages.seq = turns.event_seq;

CREATE VIEW cortex_channel_states AS
WITH open(channel, at) AS (
  SELECT coalesce(channel, source), created_at FROM inbox_messages WHERE status = 'pending'
  UNION ALL SELECT coalesce(channel, source), created_at FROM inbox_messages WHERE status = 'waiting'
  UNION ALL SELECT coalesce(channel, inbox_messages.source), created_at
    FROM topics JOIN inbox_messages ON inbox_messages.seq = topics.in_flight WHERE topics.in_flight IS NOT NULL
), known(channel, at, summary, layer) AS (
  SELECT channel, max(last_message_at), summary, layer FROM channel_states GROUP BY channel
), unread(channel, at, events) AS (SELECT channel, max(at), count(*) FROM open GROUP BY channel)
SELECT
  coalesce(known.channel, unread.channel) AS channel,
  max(coalesce(known.at, 0), coalesce(unread.at, 0)) AS last_message_at,
  coalesce(unread.events, 0) AS unread_count,
  coalesce(known.summary, '') AS summary,
  coalesce(known.layer, 'foreground') AS layer
FROM known FULL JOIN unread ON unread.channel = known.channel;

CREATE VIEW cortex_pending_ops AS SELECT
  id, type, description, dispatched_at, expected_channel, status, completed_at, result, gardened_at, acknowledged_at
FROM ops;

CREATE VIEW cortex_hot_memory AS SELECT seq AS id, text AS fact_text, created_at, last_accessed_at, hit_count
FROM facts WHERE tier = 'hot';

CREATE VIEW cortex_cold_memory AS SELECT seq AS rowid, text AS fact_text, created_at, archived_at
FROM facts WHERE tier = 'cold';

-- A reader with sqlite-vec searches it by vec_distance_cosine(embedding, :query), so all have the dimensions of one model.
CREATE VIEW cortex_cold_memory_vec AS SELECT fact_seq AS rowid, vector AS embedding
FROM fact_vectors JOIN facts ON facts.seq = fact_seq JOIN active_embedder ON active_embedder.model = fact_vectors.model
WHERE facts.tier = 'cold';

-- One cursor goes over the whole history; this is what it comes to for each topic.
CREATE VIEW extraction_cursors AS
WITH extracted(position) AS (SELECT coalesce((SELECT position FROM memory_cursors WHERE name = 'extracted'), 0))
SELECT
  topics.topic_key,
  coalesce((SELECT max(turns.id) FROM turns WHERE turns.topic_id = topics.id AND turns.id <= extracted.position), 0)
    AS last_extracted_turn_id,
  (SELECT count(*) FROM turns JOIN inbox_messages ON inbox_messages.seq = turns.event_seq
   WHERE turns.topic_id = topics.id AND turns.id > extracted.position AND turns.role = 'user'
     AND coalesce(inbox_messages.channel, '') NOT IN ('cron', 'router')) AS turns_since_extraction,
  topics.source
FROM topics, extracted;

-- The channels of the newest lines and the ops that were open, as they were then. A channel steps back from the foreground
-- once it is silent for more than an hour.
CREATE VIEW cortex_checkpoints AS SELECT
  checkpoints.event_seq AS id,
  checkpoints.created_at,
  json_object('source', topics.source, 'topicKey', topics.topic_key, 'lastTurn', checkpoints.last_turn_id) AS session_snapshot,
  (SELECT json_group_array(json_object('channel', channel, 'lastMessageAt', last_message_at, 'layer',
     CASE WHEN last_message_at < checkpoints.created_at - 3600000 THEN 'background' ELSE 'foreground' END)) FROM
    (SELECT channel, max(timestamp) AS last_message_at FROM
      (SELECT said_in.source AS channel, turns.timestamp FROM turns JOIN topics AS said_in ON said_in.id = turns.topic_id
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
