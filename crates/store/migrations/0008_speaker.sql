-- Speakers: how the source of each event proved itself, answers without their tokens, and programs without a key.

ALTER TABLE inbox_messages ADD COLUMN standing TEXT NOT NULL DEFAULT 'owner'; -- owner|key|trusted|local|hook|inside
ALTER TABLE inbox_messages ADD COLUMN answer_sha256 BLOB;                     -- digest of the token that an answer named
ALTER TABLE inbox_messages ADD COLUMN answer_decision TEXT;                   -- approved|denied; NULL: no decision

-- Connectors on this machine that came without a key, as they call themselves.
CREATE TABLE local_connectors (
  connector_id TEXT PRIMARY KEY,
  source TEXT NOT NULL,                    -- what it claimed last
  first_seen_at INTEGER NOT NULL,
  last_seen_at INTEGER NOT NULL,
  trusted_source TEXT,                     -- the one source it may use; NULL: not trusted
  trusted_at INTEGER
) WITHOUT ROWID;
CREATE INDEX local_connectors_seen ON local_connectors(last_seen_at);

-- Sessions of programs without a key are opened anew, in a namespace of their own.
DELETE FROM connector_sessions WHERE is_keyless = 1;

-- What programs without a key say is not learned from.
DROP VIEW extraction_cursors;
CREATE VIEW extraction_cursors AS
WITH extracted(position) AS (SELECT coalesce((SELECT position FROM memory_cursors WHERE name = 'extracted'), 0))
SELECT
  topics.topic_key,
  coalesce((SELECT max(turns.id) FROM turns WHERE turns.topic_id = topics.id AND turns.id <= extracted.position), 0)
    AS last_extracted_turn_id,
  (SELECT count(*) FROM turns JOIN inbox_messages ON inbox_messages.seq = turns.event_seq
   WHERE turns.topic_id = topics.id AND turns.id > extracted.position AND turns.role = 'user'
     AND inbox_messages.standing <> 'local'
     AND coalesce(inbox_messages.channel, '') NOT IN ('cron', 'router')
     AND coalesce(inbox_messages.channel, '') NOT GLOB 'hook:*') AS turns_since_extraction,
  topics.source
FROM topics, extracted;
