import type { SkillModule } from "./skill.d.ts";

const skill: SkillModule = {
  listTools() {
    return [
      {
        name: "SKILL_ID.recall",
        description: "Lists the notes that were remembered, newest first.",
        inputSchema: { type: "object", properties: {}, additionalProperties: false },
        mutatesState: false,
      },
      {
        name: "SKILL_ID.remember",
        description: "Remembers a short note.",
        inputSchema: {
          type: "object",
          properties: { note: { type: "string", minLength: 1, maxLength: 1000 } },
          required: ["note"],
          additionalProperties: false,
        },
        mutatesState: true,
      },
    ];
  },

  async execute(call, ctx) {
    ctx.db.run("CREATE TABLE IF NOT EXISTS notes (id INTEGER PRIMARY KEY, note TEXT NOT NULL, at TEXT NOT NULL)");
    switch (call.name) {
      case "SKILL_ID.recall": {
        const notes = ctx.db.query<{ note: string; at: string }>("SELECT note, at FROM notes ORDER BY id DESC LIMIT 20");
        return { content: notes.map(({ note, at }) => `${at} ${note}`).join("\n") || "No notes yet." };
      }
      case "SKILL_ID.remember": {
        const { note } = JSON.parse(call.argumentsJson) as { note: string };
        ctx.db.run("INSERT INTO notes (note, at) VALUES (?, ?)", [note, ctx.nowIso]);
        return { content: `Remembered: ${note}` };
      }
      default:
        throw new Error(`there is no tool ${call.name}`);
    }
  },
};

export default skill;
