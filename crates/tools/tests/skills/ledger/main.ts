import type { SkillDbParam, SkillModule, SkillRuntimeContext } from "../../../types/skill.d.ts";

const works: Record<string, (ctx: SkillRuntimeContext) => unknown> = {
  values(ctx) {
    ctx.db.run("CREATE TABLE IF NOT EXISTS kept (id INTEGER PRIMARY KEY, value)");
    const values: SkillDbParam[] = [null, true, 1, 1.5, 9007199254740993n, "text", new Uint8Array([1, 2])];
    const changes = values.map((value) => ctx.db.run("INSERT INTO kept (value) VALUES (?)", [value]));
    const rows = ctx.db.query<{ id: number; value: unknown }>("SELECT id, value FROM kept ORDER BY id");
    const shown = rows.map(({ value }) => (value instanceof Uint8Array ? [...value] : typeof value === "bigint" ? `${value}n` : value));
    return [shown, changes.at(-1)];
  },
  count: (ctx) => ctx.db.query("SELECT count(*) AS kept FROM kept"),
  left_open(ctx) {
    ctx.db.run("CREATE TABLE IF NOT EXISTS kept (id INTEGER PRIMARY KEY, value)");
    ctx.db.run("BEGIN IMMEDIATE");
    ctx.db.run("INSERT INTO kept (value) VALUES ('lost')");
    return "left open";
  },
  half_done(ctx) {
    ctx.db.run("CREATE TABLE IF NOT EXISTS kept (id INTEGER PRIMARY KEY, value)");
    return new Promise(() => {});
  },
  nothing_done: () => new Promise(() => {}),
  forever: (ctx) =>
    ctx.db.query("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"),
};

const skill: SkillModule = {
  listTools: () =>
    Object.keys(works).map((name) => ({
      name,
      description: name,
      inputSchema: { type: "object" },
      mutatesState: true,
    })),
  execute: async (call, ctx) => ({ content: JSON.stringify(await works[call.name.split(".")[1]](ctx)) }),
};

export default skill;
