import { sum } from "./lib/sum";
import { Size } from "./lib/size.js";
import greetings from "./greetings.json" with { type: "json" };

class Greeter {
  constructor(private readonly word: string) {}
  greet(name: string): string {
    return `${this.word}, ${name}!`;
  }
}

export default {
  listTools: () => [
    { name: "parts.greet", description: "Greets.", inputSchema: { type: "object" }, mutatesState: false },
  ],
  async execute() {
    const { double } = await import("./lib/double");
    const greeting = new Greeter(greetings.english).greet("world");
    return { content: `${greeting} ${sum(1, 2)} ${Size[Size.Large]} ${double(4)}` };
  },
};
