-- The gardener's journal: facts that a model was paid for and that are not all kept yet.

CREATE TABLE gardener_journal (
  name TEXT PRIMARY KEY,                  -- extracted, or the id of an op
  position INTEGER NOT NULL,              -- where the cursor goes once they are kept; 0 for an op
  facts_json TEXT NOT NULL,
  created_at INTEGER NOT NULL
) WITHOUT ROWID;
