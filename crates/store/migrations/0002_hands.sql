-- Hands: approvals and grants, pinned tool definitions, schedules and what became of each of their slots.

CREATE TABLE pending_approvals (
  id TEXT PRIMARY KEY,
  approval_token TEXT NOT NULL UNIQUE,    -- SHA-256 in hex; the token itself is only in the prompt
  topic_key TEXT NOT NULL,
  user_id TEXT NOT NULL,
  tool_name TEXT NOT NULL,
  tool_arguments_json TEXT NOT NULL,
  status TEXT NOT NULL DEFAULT 'pending', -- pending|approved|denied|expired
  expires_at INTEGER NOT NULL,
  resolved_at INTEGER,
  created_at INTEGER NOT NULL,
  source TEXT NOT NULL,
  event_seq INTEGER NOT NULL REFERENCES inbox_messages(seq),
  call_id TEXT NOT NULL,
  binding BLOB NOT NULL,
  resolved_by TEXT,
  prompt_id TEXT NOT NULL,                -- the outbox message whose payload holds the token
  UNIQUE(event_seq, id)
);
CREATE INDEX approvals_open ON pending_approvals(expires_at) WHERE status = 'pending';
CREATE INDEX approvals_event ON pending_approvals(event_seq);

CREATE TABLE approval_grants (
  id TEXT PRIMARY KEY,
  binding BLOB NOT NULL,
  tool_name TEXT NOT NULL,
  tool_arguments_json TEXT NOT NULL,
  source TEXT NOT NULL,
  topic_key TEXT NOT NULL,
  user_id TEXT NOT NULL,
  created_at INTEGER NOT NULL,
  expires_at INTEGER NOT NULL,
  revoked_at INTEGER
);
CREATE INDEX grants_live ON approval_grants(binding) WHERE revoked_at IS NULL;

CREATE TABLE tool_pins (
  tool_name TEXT PRIMARY KEY,
  definition_sha256 BLOB NOT NULL,
  pinned_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE scheduler_jobs (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  description TEXT NOT NULL,
  cron TEXT NOT NULL,                     -- empty for a one-shot job, which has run_at
  action TEXT NOT NULL,
  target_source TEXT NOT NULL,
  target_topic_key TEXT NOT NULL,
  enabled INTEGER NOT NULL DEFAULT 1,
  last_run_at INTEGER,
  next_run_at INTEGER,
  created_by_user_id TEXT,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  run_at INTEGER,
  timezone TEXT NOT NULL,
  catch_up TEXT NOT NULL DEFAULT 'once',  -- once|skip
  decided_until INTEGER NOT NULL,         -- every slot up to here has its record
  deleted_at INTEGER
);
CREATE INDEX idx_jobs_next ON scheduler_jobs(next_run_at) WHERE enabled = 1;

CREATE TABLE schedule_slots (
  job_id INTEGER NOT NULL REFERENCES scheduler_jobs(id),
  slot_at INTEGER NOT NULL,               -- the newest slot of the record
  first_slot_at INTEGER NOT NULL,
  slots INTEGER NOT NULL DEFAULT 1,
  outcome TEXT NOT NULL,                  -- fired|caught_up|skipped|missed
  event_seq INTEGER REFERENCES inbox_messages(seq),
  decided_at INTEGER NOT NULL,
  PRIMARY KEY (job_id, slot_at)
) WITHOUT ROWID;
