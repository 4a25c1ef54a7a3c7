// npm `ai` of Vercel with both of its providers: what works, what is refused, and many streams at once.
import { createRequire } from "node:module";
import path from "node:path";
const require = createRequire(path.join(process.env.CLIENT_MODULES, "x.js"));
const { embed, generateText, jsonSchema, streamText, tool, Output } = require("ai");
const { createOpenAICompatible } = require("@ai-sdk/openai-compatible");
const { createOpenAI } = require("@ai-sdk/openai");

const settings = { name: "cortex", baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY };
const compatible = createOpenAICompatible(settings);
const openai = createOpenAI(settings);
const models = { compatible: compatible("cortex"), chat: openai.chat("cortex"), responses: openai.responses("cortex") };
const count = Number(process.env.AT_ONCE);
const seen = { text: {}, tools: {}, foreign: [], streams: 0 };

const failure = async (work) => {
  try { await work(); return "nothing"; } catch (error) { return [error.statusCode, JSON.parse(error.responseBody).error.code]; }
};
const now = tool({ description: "now", inputSchema: jsonSchema({ type: "object", properties: {} }), execute: () => "noon" });
for (const [name, model] of Object.entries(models)) {
  const headers = { "X-Cortex-Topic": `ai-${name}` };
  seen.text[name] = (await generateText({ model, prompt: "hello", headers, maxRetries: 0 })).text;
  seen.tools[name] = await failure(() => generateText({ model, prompt: "hi", tools: { now }, headers, maxRetries: 0 }));
}
const schema = jsonSchema({ type: "object", properties: { a: { type: "string" } } });
seen.object = await failure(() =>
  generateText({ model: models.chat, prompt: "hi", output: Output.object({ schema }), maxRetries: 0 }));
seen.vector = (await embed({ model: openai.embedding("cortex"), value: "a dog", maxRetries: 0 })).embedding.length;

const check = async (name, model, topicOf) => {
  await Promise.all(Array.from({ length: count }, async (_, number) => {
    const text = `${name}-${number}-`;
    const stream = streamText({ model, prompt: text, headers: { "X-Cortex-Topic": topicOf(number) }, maxRetries: 0 });
    let heard = "";
    for await (const delta of stream.textStream) heard += delta;
    seen.streams += 1;
    if (heard !== `You said: ${text}`) seen.foreign.push([text, heard]);
  }));
};
await check("one", models.compatible, () => "ai-one");
await check("many", models.compatible, (number) => `ai-many-${number}`);
await check("responses", models.responses, () => "ai-responses");
console.log(JSON.stringify(seen));
