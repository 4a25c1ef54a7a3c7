-- The spine: topics, inbox, turns and their steps, outbox, model usage, keys, audit.
-- Integer keys and partial indexes: a finished row stays in as few b-trees as possible.

CREATE TABLE topics (
  id INTEGER PRIMARY KEY,
  source TEXT NOT NULL,
  topic_key TEXT NOT NULL,
  in_flight INTEGER,                      -- seq of the event whose turn runs now
  head_seq INTEGER,                       -- next event of this topic while nothing is in flight
  head_priority INTEGER,
  head_due_at INTEGER NOT NULL DEFAULT 0, -- 0: at once; else the head is backing off
  UNIQUE(source, topic_key)
);
CREATE INDEX topics_ready ON topics(head_priority, head_seq)
  WHERE in_flight IS NULL AND head_seq IS NOT NULL AND head_due_at = 0;
CREATE INDEX topics_backing_off ON topics(head_due_at)
  WHERE in_flight IS NULL AND head_seq IS NOT NULL AND head_due_at > 0;
CREATE INDEX topics_in_flight ON topics(in_flight) WHERE in_flight IS NOT NULL;

CREATE TABLE inbox_messages (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  source TEXT NOT NULL,
  external_message_id TEXT NOT NULL,
  topic_key TEXT NOT NULL,
  user_id TEXT NOT NULL,
  text TEXT NOT NULL,
  occurred_at INTEGER NOT NULL,
  idempotency_key TEXT NOT NULL,
  metadata_json TEXT,
  status TEXT NOT NULL DEFAULT 'pending', -- pending|processing|waiting|done|failed
  attempts INTEGER NOT NULL DEFAULT 0,
  error TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  topic_id INTEGER NOT NULL REFERENCES topics(id),
  priority INTEGER NOT NULL DEFAULT 1,
  due_at INTEGER NOT NULL DEFAULT 0,
  restarts INTEGER NOT NULL DEFAULT 0,
  steps_at_claim INTEGER NOT NULL DEFAULT 0,
  claimed_at INTEGER,
  checksum INTEGER NOT NULL,
  UNIQUE(source, external_message_id)
);
CREATE INDEX inbox_pending ON inbox_messages(topic_id, priority, seq) WHERE status = 'pending';
CREATE INDEX inbox_failed ON inbox_messages(seq) WHERE status = 'failed';
CREATE INDEX inbox_waiting ON inbox_messages(seq) WHERE status = 'waiting';

CREATE TABLE turn_steps (
  event_seq INTEGER NOT NULL REFERENCES inbox_messages(seq),
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,
  body_json TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  checksum INTEGER NOT NULL,
  PRIMARY KEY (event_seq, number)
) WITHOUT ROWID;

CREATE TABLE turns (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  topic_key TEXT NOT NULL,
  role TEXT NOT NULL,
  content TEXT NOT NULL,
  timestamp INTEGER NOT NULL,
  topic_id INTEGER NOT NULL REFERENCES topics(id),
  event_seq INTEGER NOT NULL REFERENCES inbox_messages(seq),
  checksum INTEGER NOT NULL
);
CREATE INDEX turns_topic ON turns(topic_id, id);

CREATE TABLE outbox_messages (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  source TEXT NOT NULL,
  topic_key TEXT NOT NULL,
  text TEXT NOT NULL,
  payload_json TEXT,
  status TEXT NOT NULL DEFAULT 'pending', -- pending|leased|delivered|dead|suppressed|discarded
  attempts INTEGER NOT NULL DEFAULT 0,
  next_attempt_at INTEGER NOT NULL,
  lease_token TEXT,
  lease_expires_at INTEGER,
  last_error TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  topic_id INTEGER NOT NULL REFERENCES topics(id),
  event_seq INTEGER REFERENCES inbox_messages(seq),
  leased_at INTEGER,
  delivered_at INTEGER,
  checksum INTEGER NOT NULL
);
CREATE INDEX outbox_pending ON outbox_messages(source, next_attempt_at, created_at, seq) WHERE status = 'pending';
CREATE INDEX outbox_leased ON outbox_messages(source, next_attempt_at, created_at, seq) WHERE status = 'leased';
CREATE INDEX outbox_open_in_topic ON outbox_messages(topic_id, seq) WHERE status IN ('pending', 'leased');
CREATE INDEX outbox_dead ON outbox_messages(seq) WHERE status = 'dead';
CREATE INDEX outbox_suppressed ON outbox_messages(seq) WHERE status = 'suppressed';
CREATE INDEX outbox_discarded ON outbox_messages(seq) WHERE status = 'discarded';
CREATE INDEX outbox_event ON outbox_messages(event_seq);

-- What a trace shows beyond the rows themselves: retries, restarts, refusals.
CREATE TABLE trace_notes (
  event_seq INTEGER NOT NULL REFERENCES inbox_messages(seq),
  number INTEGER NOT NULL,
  at INTEGER NOT NULL,
  what TEXT NOT NULL,
  detail TEXT NOT NULL,
  PRIMARY KEY (event_seq, number)
) WITHOUT ROWID;

CREATE TABLE usage (
  id INTEGER PRIMARY KEY,
  event_seq INTEGER REFERENCES inbox_messages(seq),
  started_at INTEGER NOT NULL,
  profile TEXT NOT NULL,
  provider TEXT NOT NULL,
  model TEXT NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  cached_tokens INTEGER NOT NULL,
  cost_micros INTEGER NOT NULL,
  latency_ms INTEGER NOT NULL,
  error TEXT
);
CREATE INDEX usage_started ON usage(started_at);

CREATE TABLE keys (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  prefix TEXT NOT NULL,
  sha256 BLOB NOT NULL,
  created_at INTEGER NOT NULL,
  revoked_at INTEGER
);

CREATE TABLE audit (
  id INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  what TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail TEXT NOT NULL
);
