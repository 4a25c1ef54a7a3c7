// npm `openai` against a server: prints one line of JSON with what it saw.
import { createRequire } from "node:module";
import path from "node:path";
const require = createRequire(path.join(process.env.CLIENT_MODULES, "x.js"));
const { OpenAI, NotFoundError, AuthenticationError, BadRequestError } = require("openai");

const baseURL = process.env.BASE_URL;
const client = new OpenAI({ baseURL, apiKey: process.env.API_KEY, maxRetries: 0 });
const seen = {};

const messages = (content) => [{ role: "user", content }];
const chat = await client.chat.completions.create({ model: "cortex", messages: messages("hello"), user: "node" });
seen.chat = chat.choices[0].message.content;
seen.finish = chat.choices[0].finish_reason;

seen.stream = "";
const stream = await client.chat.completions.create({
  model: "cortex", messages: messages("streamed"), user: "node", stream: true, stream_options: { include_usage: true },
});
for await (const chunk of stream) {
  seen.stream += chunk.choices[0]?.delta?.content ?? "";
  if (chunk.usage) seen.streamUsage = chunk.usage.total_tokens > 0;
}

const first = await client.responses.create({ model: "cortex", input: "first" });
seen.response = first.output_text;
const next = await client.responses.create({ model: "cortex", input: "next", previous_response_id: first.id });
seen.next = next.output_text;
seen.events = [];
seen.deltas = "";
for await (const event of await client.responses.create({ model: "cortex", input: "flowing", stream: true })) {
  if (event.type === "response.output_text.delta") seen.deltas += event.delta;
  if (seen.events.at(-1) !== event.type) seen.events.push(event.type);
  if (event.type === "response.completed") seen.completed = event.response.output[0].content[0].text;
}

seen.models = (await client.models.list()).data.map((model) => model.id);
seen.model = (await client.models.retrieve("cortex")).id;

const embedding = await client.embeddings.create({ model: "cortex", input: ["a dog", "a puppy"] });
seen.vectors = embedding.data.map((row) => row.embedding.length);
seen.ofLengthOne = Math.abs(Math.hypot(...embedding.data[0].embedding) - 1) < 0.001;
const floats = await client.embeddings.create({ model: "cortex", input: "a dog", encoding_format: "float" });
seen.same = floats.data[0].embedding.every((x, i) => Math.abs(x - embedding.data[0].embedding[i]) < 1e-6);

const failure = async (kind, work) => {
  try { await work(); return "nothing"; } catch (error) { return [error instanceof kind, error.status, error.code, error.param]; }
};
seen.unknown = await failure(NotFoundError, () =>
  client.chat.completions.create({ model: "no-such-model", messages: messages("hello") }));
seen.wrongKey = await failure(AuthenticationError, () =>
  new OpenAI({ baseURL, apiKey: "wrong", maxRetries: 0 }).models.list());
seen.bad = await failure(BadRequestError, () => client.chat.completions.create({ model: "cortex", messages: [] }));
console.log(JSON.stringify(seen));
