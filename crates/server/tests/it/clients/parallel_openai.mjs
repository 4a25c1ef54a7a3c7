// npm `openai`: many streams at once, in one conversation and in many. Prints what was heard that was not said to it.
import { createRequire } from "node:module";
import path from "node:path";
const require = createRequire(path.join(process.env.CLIENT_MODULES, "x.js"));
const { OpenAI } = require("openai");

const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.API_KEY, maxRetries: 0 });
const count = Number(process.env.AT_ONCE);

const chat = async (topic, text) => {
  const stream = await client.chat.completions.create(
    { model: "cortex", messages: [{ role: "user", content: text }], stream: true },
    { headers: { "X-Cortex-Topic": topic } });
  let heard = "";
  for await (const chunk of stream) heard += chunk.choices[0]?.delta?.content ?? "";
  return heard;
};
const response = async (topic, text) => {
  const stream = await client.responses.create({ model: "cortex", input: text, conversation: topic, stream: true });
  let heard = "";
  for await (const event of stream) if (event.type === "response.output_text.delta") heard += event.delta;
  return heard;
};

const foreign = [];
const check = async (name, ask, topicOf) => {
  await Promise.all(Array.from({ length: count }, async (_, number) => {
    const text = `${name}-${number}-`;
    const heard = await ask(topicOf(number), text);
    if (heard !== `You said: ${text}`) foreign.push([text, heard]);
  }));
};
await check("one", chat, () => "npm-one");
await check("many", chat, (number) => `npm-many-${number}`);
await check("responses", response, () => "npm-responses");
console.log(JSON.stringify({ foreign, streams: 3 * count }));
