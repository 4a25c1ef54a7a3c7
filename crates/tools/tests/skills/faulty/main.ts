interface Order {
  id: number;
  lines: string[];
}

type Fault = () => unknown;

const faults: Record<string, Fault> = {
  type_error: () => {
    const order = JSON.parse('{"id":1}') as Order;
    return order.lines.length;
  },
  thrown_text: () => {
    throw "just a text";
  },
  no_content: () => 42,
};

export const listTools = () =>
  Object.keys(faults).map((name) => ({ name, description: name, inputSchema: { type: "object" } }));

export async function execute(call: { name: string }): Promise<{ content: string }> {
  return { content: faults[call.name.split(".")[1]]() as string };
}
