// Keeps a note for each call, and their number in the same transaction: a copy with one and not the other is torn.
export const listTools = () => [
  { name: "notes.keep", description: "Keeps a note.", inputSchema: { type: "object" }, mutatesState: false },
  { name: "notes.all", description: "Reads the notes.", inputSchema: { type: "object" }, mutatesState: false },
];

export const execute = async (call, ctx) => {
  ctx.db.run("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, filler TEXT NOT NULL)");
  ctx.db.run("CREATE TABLE IF NOT EXISTS total (id INTEGER PRIMARY KEY CHECK (id = 1), kept INTEGER NOT NULL)");
  if (call.name === "notes.keep") {
    ctx.db.run("BEGIN IMMEDIATE");
    // Long enough that the database has many pages by the time of the backup.
    ctx.db.run("INSERT INTO notes (filler) VALUES (?)", ["n".repeat(3000)]);
    ctx.db.run("INSERT INTO total (id, kept) VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET kept = kept + 1");
    ctx.db.run("COMMIT");
  }
  const [{ kept }] = ctx.db.query("SELECT coalesce(max(kept), 0) AS kept FROM total");
  const [{ rows, whole }] = ctx.db.query("SELECT count(*) AS rows, coalesce(sum(length(filler) = 3000), 0) AS whole FROM notes");
  return { content: JSON.stringify({ kept, rows, whole }) };
};
