import type { SkillModule, SkillRuntimeContext } from "../../../types/skill.d.ts";

const looks: Record<string, (ctx: SkillRuntimeContext) => unknown> = {
  url() {
    const url = new URL("../b?q=1 2#end", "https://user@example.org:8443/a/c");
    url.searchParams.append("r", "ä&b");
    url.port = "";
    return [url.href, url.host, url.pathname, url.searchParams.get("q"), url.origin, URL.canParse("nonsense")];
  },
  params() {
    const params = new URLSearchParams({ b: "2", a: "1" });
    params.append("a", "x y");
    params.sort();
    return [params.toString(), params.getAll("a"), [...params.keys()], params.has("c")];
  },
  text() {
    const bytes = new TextEncoder().encode("grüße");
    return [bytes.length, new TextDecoder().decode(bytes), new TextDecoder().decode(new Uint8Array([0xff]).buffer)];
  },
  crypto() {
    const random = crypto.getRandomValues(new Uint8Array(16));
    return [/^[0-9a-f-]{36}$/.test(crypto.randomUUID()), random.some((byte) => byte !== 0)];
  },
  async timers() {
    const order: string[] = [];
    const later = (name: string, ms: number) => new Promise<void>((done) => setTimeout(() => (order.push(name), done()), ms));
    const never = setTimeout(() => order.push("cleared"), 1);
    clearTimeout(never);
    await Promise.all([later("second", 20), later("first", 1)]);
    return order;
  },
  time: (ctx) => [ctx.nowIso, ctx.time.format("Europe/Berlin"), ctx.time.format("Asia/Tokyo", 0)],
  config: (ctx) => ctx.config,
  absent: () =>
    ["process", "require", "Deno", "fetch", "WebAssembly", "std", "os", "host", "__host"].filter((name) => name in globalThis),
};

const skill: SkillModule = {
  listTools: () =>
    Object.keys(looks).map((name) => ({
      name,
      description: `Looks at ${name}.`,
      inputSchema: { type: "object" },
      mutatesState: false,
    })),
  async execute(call, ctx) {
    console.log("looking at", call.name, { now: ctx.nowIso });
    return { content: JSON.stringify(await looks[call.name.split(".")[1]](ctx)) };
  },
};

export default skill;
