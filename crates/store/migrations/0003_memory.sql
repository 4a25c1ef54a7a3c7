-- Memory: facts with their sources, full text and vectors of facts and of what was said, cursors, and the gardener's diary.

CREATE TABLE facts (
  seq INTEGER PRIMARY KEY,
  id TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL,
  category TEXT,                          -- fact|preference|decision|summary, or a memory client's own word
  scope TEXT NOT NULL DEFAULT 'global',   -- global|user|channel|topic
  scope_key TEXT NOT NULL DEFAULT '',
  tier TEXT NOT NULL DEFAULT 'hot',       -- hot|cold
  pinned INTEGER NOT NULL DEFAULT 0,
  strength REAL NOT NULL DEFAULT 1.0,     -- at last_accessed_at; it fades when it is read
  hit_count INTEGER NOT NULL DEFAULT 0,
  created_at INTEGER NOT NULL,
  updated_at INTEGER NOT NULL,
  last_accessed_at INTEGER NOT NULL,
  archived_at INTEGER,                    -- when it went cold
  metadata_json TEXT,
  checksum INTEGER NOT NULL
);
-- In the order of a prompt, for each scope: however many there are, a prompt reads the first few.
CREATE INDEX facts_hot ON facts(scope, scope_key, pinned DESC, hit_count DESC, last_accessed_at DESC, seq DESC) WHERE tier = 'hot';
CREATE INDEX facts_pinned ON facts(seq) WHERE pinned = 1;
CREATE INDEX facts_scope ON facts(scope, scope_key, seq);
-- The same words in the same scope are found without any vector.
CREATE INDEX facts_text ON facts(scope, scope_key, text);

-- The same key in the same scope is the same fact; one that was merged has several.
CREATE TABLE fact_keys (
  scope TEXT NOT NULL,
  scope_key TEXT NOT NULL,
  idempotency_key TEXT NOT NULL,
  fact_seq INTEGER NOT NULL REFERENCES facts(seq) ON DELETE CASCADE,
  is_own INTEGER NOT NULL,                -- 0: joined a fact that others had told
  PRIMARY KEY (scope, scope_key, idempotency_key)
) WITHOUT ROWID;
CREATE INDEX fact_keys_fact ON fact_keys(fact_seq);

-- What a person had forgotten is not learned again from the turns that told it. Only a digest is left.
CREATE TABLE forgotten_texts (
  digest BLOB PRIMARY KEY,
  at INTEGER NOT NULL
) WITHOUT ROWID;

-- Where a fact came from; one that was merged has several.
CREATE TABLE fact_sources (
  fact_seq INTEGER NOT NULL REFERENCES facts(seq) ON DELETE CASCADE,
  number INTEGER NOT NULL,
  kind TEXT NOT NULL,                     -- turn|op|import|person|tool
  reference TEXT NOT NULL,                -- an event, an op, a file, a user
  text TEXT NOT NULL,                     -- as this source said it
  at INTEGER NOT NULL,
  PRIMARY KEY (fact_seq, number)
) WITHOUT ROWID;
CREATE INDEX fact_sources_reference ON fact_sources(kind, reference);

CREATE TABLE fact_vectors (
  fact_seq INTEGER PRIMARY KEY REFERENCES facts(seq) ON DELETE CASCADE,
  model TEXT NOT NULL,
  dims INTEGER NOT NULL,
  vector BLOB NOT NULL                    -- dims f32, little-endian, as sqlite-vec reads them
);

CREATE TABLE turn_vectors (
  turn_id INTEGER PRIMARY KEY REFERENCES turns(id) ON DELETE CASCADE,
  model TEXT NOT NULL,
  dims INTEGER NOT NULL,
  vector BLOB NOT NULL                    -- one f32 scale, then dims i8: there are many more turns than facts
);

-- Whose vectors are in use; those of another model are made anew in the background.
CREATE TABLE active_embedder (
  only_row INTEGER PRIMARY KEY CHECK (only_row = 1),
  model TEXT NOT NULL,
  since INTEGER NOT NULL
);

CREATE VIRTUAL TABLE facts_fts USING fts5(text, content='facts', content_rowid='seq', tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER facts_fts_insert AFTER INSERT ON facts BEGIN
  INSERT INTO facts_fts(rowid, text) VALUES (new.seq, new.text);
END;
CREATE TRIGGER facts_fts_delete AFTER DELETE ON facts BEGIN
  INSERT INTO facts_fts(facts_fts, rowid, text) VALUES ('delete', old.seq, old.text);
END;
CREATE TRIGGER facts_fts_update AFTER UPDATE OF text ON facts BEGIN
  INSERT INTO facts_fts(facts_fts, rowid, text) VALUES ('delete', old.seq, old.text);
  INSERT INTO facts_fts(rowid, text) VALUES (new.seq, new.text);
END;

-- Filled in batches behind the cursor `turns_indexed`, so that a turn's end does not pay for it.
CREATE VIRTUAL TABLE turns_fts USING fts5(content, content='', contentless_delete=1,
  tokenize='porter unicode61 remove_diacritics 2');
CREATE TRIGGER turns_fts_delete AFTER DELETE ON turns BEGIN
  DELETE FROM turns_fts WHERE rowid = old.id;
END;

CREATE TABLE memory_cursors (
  name TEXT PRIMARY KEY,                  -- turns_indexed|extracted
  position INTEGER NOT NULL,
  updated_at INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE gardener_runs (
  task TEXT PRIMARY KEY,                  -- compactor|extractor|evictor|harvester
  last_run_at INTEGER NOT NULL,
  counted_from INTEGER NOT NULL,          -- the next run is due an interval later
  last_outcome TEXT NOT NULL,
  runs INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID;
