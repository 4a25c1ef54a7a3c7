export interface SkillRuntimeContext {
  nowIso: string;
  config: Record<string, unknown>;
  db: { query: Function; run: Function };
  http: { fetch: typeof fetch };
}

export interface SkillToolCall {
  name: string; // namespaced: "skill.tool"
  argumentsJson: string;
}

export interface SkillModule {
  listTools(): Array<{
    name: string; // must be skill.tool
    description: string;
    inputSchema: Record<string, unknown>;
    mutatesState?: boolean; // if true, approval gate applies
  }>;
  execute(call: SkillToolCall, ctx: SkillRuntimeContext): Promise<{
    content: string;
    metadata?: Record<string, unknown>;
  }>;
}

export const listTools: SkillModule["listTools"] = () => [
  {
    name: "telegram.send",
    description: "Sends a message to a chat.",
    inputSchema: {
      type: "object",
      properties: { chat: { type: "string" }, text: { type: "string" } },
      required: ["chat", "text"],
    },
    mutatesState: true,
  },
  {
    name: "telegram.whoami",
    description: "Tells which bot this is.",
    inputSchema: { type: "object", properties: {} },
  },
];

export const execute: SkillModule["execute"] = async (call, ctx) => {
  const { chat, text } = JSON.parse(call.argumentsJson);
  switch (call.name) {
    case "telegram.send":
      return { content: `${ctx.nowIso} ${chat}: ${text}`, metadata: { chat } };
    default:
      return { content: `the bot ${ctx.config.bot}` };
  }
};
