-- Doors: keys that belong to one source, sessions of connectors, and the channel that a source is.

ALTER TABLE keys ADD COLUMN public_id TEXT;  -- NULL: a key of the owner
ALTER TABLE keys ADD COLUMN source TEXT;     -- the one source it may use; NULL: a key of the owner
CREATE UNIQUE INDEX keys_public_id ON keys(public_id) WHERE public_id IS NOT NULL;

-- Only a digest of a session's id is kept: the id opens the door.
CREATE TABLE connector_sessions (
  sha256 BLOB PRIMARY KEY,
  key_id TEXT,                               -- the key that made it; NULL: the owner, or a program on this machine
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
