// A whole connector: lines in, answers out, and nothing lost when either side restarts.
//     node connector.ts                   # what you type is said, as one conversation, until its end or Ctrl-C
//     node connector.ts messages.jsonl    # {"id": "1", "conversationId": "kitchen", "text": "hello"}
// It needs Node 22.18 or newer. CORTEX_URL is the server, CORTEX_KEY its key where it asks for one.
import { createReadStream } from "node:fs";
import { createInterface } from "node:readline";
type Heard = { id: string; type: string; causationid?: string; data: Record<string, unknown> };

const { CORTEX_URL: url = "http://localhost:7751", CORTEX_KEY: key, CONNECTOR: name = "example-ts" } = process.env;
const waiting = new Map<string, string>(); // events without an answer yet, by id
const seen = new Set<string>(); // messages that were shown
let [socket, isOver, pause]: [WebSocket | undefined, boolean, number] = [undefined, false, 1];

function event(kind: string, id: string, data: object): string {
  const head = { specversion: "1.0", type: `assistant.message.${kind}`, source: `urn:connector:${name}`, id };
  return JSON.stringify({ ...head, data: { connectorId: name, ...data } });
}

function read(line: string): void {
  const said = line.startsWith("{") ? JSON.parse(line) : { text: line.trim() };
  const { id = crypto.randomUUID(), conversationId = "main", text } = said;
  waiting.set(id, event("inbound", id, { conversationId, text }));
  socket?.send(waiting.get(id)!);
}

function hear(to: WebSocket, { id, type, causationid = "", data }: Heard): void {
  if (type === "assistant.message.outbound") {
    if (seen.size < seen.add(id).size) console.log(`${data.conversationId}: ${data.text}`); // it may come twice
    to.send(event("ack", crypto.randomUUID(), { messageId: id }));
    waiting.delete(causationid);
  } else if (type === "assistant.message.settled" && data.replies === 0) {
    waiting.delete(causationid); // the assistant chose silence
  } else if (type === "assistant.message.error") {
    console.error(data.message);
    pause = Number(data.retryAfterSeconds ?? 1);
    data.retryable ? to.close() : waiting.delete(causationid);
  }
  if (isOver && waiting.size === 0) to.close();
}

async function connect(): Promise<void> {
  const headers: HeadersInit = key ? { Authorization: `Bearer ${key}` } : {};
  const answer = await fetch(`${url}/connector?connectorId=${name}`, { headers });
  if (!answer.ok) throw new Error(await answer.text());
  const opened = new WebSocket(`${url.replace("http", "ws")}/connector/${await answer.text()}?ack=1&receipts=1`);
  opened.onmessage = ({ data }) => hear(opened, JSON.parse(data));
  opened.onopen = () => {
    [socket, pause] = [opened, 1];
    for (const frame of waiting.values()) opened.send(frame); // ids of old: what was accepted is not asked twice
  };
  await new Promise((resolve) => (opened.onclose = opened.onerror = resolve)).then(() => (socket = undefined));
}

for (const end of ["SIGINT", "SIGTERM"]) process.on(end, () => process.exit(0)); // what was not acked comes again
const lines = createInterface({ input: process.argv[2] ? createReadStream(process.argv[2]) : process.stdin });
lines.on("line", read).on("close", () => ((isOver = true), waiting.size === 0 && socket?.close()));
while (waiting.size > 0 || !isOver) {
  await connect().catch((error) => console.error(`away: ${error.cause ?? error}`));
  await new Promise((again) => setTimeout(again, isOver && waiting.size === 0 ? 0 : pause * 1000));
}
