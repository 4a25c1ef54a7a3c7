const attacks: Record<string, () => unknown> = {
  loop() {
    for (;;) {}
  },
  never: () => new Promise(() => {}),
  far_timer: () => new Promise((done) => setTimeout(done, 3_600_000)),
  microtasks() {
    const again = (): Promise<void> => Promise.resolve().then(again);
    return again();
  },
  caught_loop() {
    for (;;) {
      try {
        for (;;) {}
      } catch {}
    }
  },
  objects() {
    const kept: unknown[] = [];
    for (;;) kept.push({ a: "x".repeat(1000) + kept.length });
  },
  text() {
    let text = "x";
    for (;;) text += text;
  },
  huge_array: () => new Uint8Array(1e9).fill(1).length,
  fills() {
    const bytes = new Uint8Array(16e6);
    for (;;) bytes.fill(1);
  },
  // One native function that searches for a long while, and looks at no deadline while it does.
  native: () => "a".repeat(6e5).indexOf("a".repeat(3e5) + "b"),
  recursion() {
    const deeper = (depth: number): number => deeper(depth + 1) + 1;
    return deeper(0);
  },
  deep_json: () => JSON.parse("[".repeat(2e6)),
  backtracking: () => /^(a+)+$/.test("a".repeat(40) + "b"),
  log_flood() {
    for (let line = 0; line < 5_000; line++) console.log("x".repeat(10_000));
  },
  kept_timers() {
    for (;;) setTimeout(() => {}, 1e6);
  },
  long_answer: () => "x".repeat(200_000),
};

export const listTools = () =>
  ["fine", ...Object.keys(attacks)].map((name) => ({
    name,
    description: `Does ${name}.`,
    inputSchema: { type: "object" },
    mutatesState: name !== "fine" && name !== "loop",
  }));

export async function execute(call: { name: string }) {
  const name = call.name.split(".")[1];
  return { content: name === "fine" ? "fine" : String(await attacks[name]()) };
}
