import type { SkillModule } from "../../../types/skill.d.ts";

const skill: SkillModule = {
  listTools: () => [
    {
      name: "web.get",
      description: "Fetches.",
      inputSchema: { type: "object", properties: { url: { type: "string" } }, required: ["url"] },
      mutatesState: false,
    },
    { name: "web.post", description: "Posts.", inputSchema: { type: "object" }, mutatesState: true },
  ],
  async execute(call, ctx) {
    if (call.name === "web.post") {
      const body = new URLSearchParams({ a: "1", b: "x y" });
      const response = await ctx.http.fetch(new URL(String(ctx.config.url)), { method: "post", body });
      const { length } = new Uint8Array(await response.arrayBuffer());
      return { content: `${response.status} ${response.ok} ${length}` };
    }
    const { url } = JSON.parse(call.argumentsJson);
    const response = await ctx.http.fetch(url, { headers: { "X-Trace": "7" } });
    const type = response.headers.get("Content-Type");
    return { content: `${response.status} ${response.ok} ${type} ${await response.text()}` };
  },
};

export default skill;
