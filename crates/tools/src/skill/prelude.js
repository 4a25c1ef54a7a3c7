// The world a skill sees: a function of `host`, the native side, which no skill can reach.
// `host` speaks in strings, numbers, bytes and operation numbers; everything with a shape is made here.
(function (host) {
  "use strict";
  const { Promise, Map, Error, TypeError, RangeError, String, Number, JSON, Object, Array, Uint8Array, ArrayBuffer, InternalError } =
    globalThis;

  // What waits for the native side: operation number to what happens when it is settled.
  const waiting = new Map();

  function settle(op, fault, value) {
    const waiter = waiting.get(op);
    waiting.delete(op);
    if (waiter === undefined) return;
    if (fault === undefined) waiter.resolve(value);
    else waiter.reject(new TypeError(fault));
  }

  function describe(error) {
    if (error instanceof Error) return `${error.name}: ${error.message}\n${error.stack ?? ""}`;
    if (error === null) return "nothing was thrown; the heap is probably full";
    return `thrown: ${show(error)}`;
  }

  function show(value) {
    if (typeof value === "string") return value;
    if (value instanceof Error) return describe(value);
    if (typeof value === "object" && value !== null) {
      try {
        return JSON.stringify(value) ?? String(value);
      } catch {
        return String(value);
      }
    }
    return String(value);
  }

  const bytesOf = (data) => {
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    throw new TypeError("expected an ArrayBuffer or a view of one");
  };

  class TextEncoder {
    get encoding() {
      return "utf-8";
    }
    encode(text = "") {
      return host.encode(String(text));
    }
  }

  class TextDecoder {
    #fatal;
    constructor(label = "utf-8", options = {}) {
      if (!["utf-8", "utf8", "unicode-1-1-utf-8"].includes(String(label).toLowerCase())) {
        throw new RangeError(`only utf-8 is known, not ${label}`);
      }
      this.#fatal = Boolean(options.fatal);
    }
    get encoding() {
      return "utf-8";
    }
    get fatal() {
      return this.#fatal;
    }
    decode(data = new Uint8Array(0)) {
      return host.decode(bytesOf(data), this.#fatal);
    }
  }

  class URLSearchParams {
    #pairs;
    #changed;
    constructor(init = "", changed = () => {}) {
      this.#changed = changed;
      if (typeof init === "object" && init !== null) {
        const pairs = typeof init[Symbol.iterator] === "function" ? [...init] : Object.entries(init);
        this.#pairs = pairs.map(([name, value]) => [String(name), String(value)]);
      } else {
        this.#pairs = host.parseForm(String(init).replace(/^\?/, ""));
      }
    }
    #change(pairs) {
      this.#pairs = pairs;
      this.#changed(this.toString());
    }
    append(name, value) {
      this.#change([...this.#pairs, [String(name), String(value)]]);
    }
    delete(name) {
      this.#change(this.#pairs.filter(([key]) => key !== String(name)));
    }
    get(name) {
      const pair = this.#pairs.find(([key]) => key === String(name));
      return pair === undefined ? null : pair[1];
    }
    getAll(name) {
      return this.#pairs.filter(([key]) => key === String(name)).map(([, value]) => value);
    }
    has(name) {
      return this.#pairs.some(([key]) => key === String(name));
    }
    set(name, value) {
      const at = this.#pairs.findIndex(([key]) => key === String(name));
      if (at < 0) return this.append(name, value);
      const rest = this.#pairs.filter(([key], index) => index === at || key !== String(name));
      this.#change(rest.map((pair, index) => (index === at ? [pair[0], String(value)] : pair)));
    }
    sort() {
      this.#change([...this.#pairs].sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)));
    }
    forEach(visit, self) {
      for (const [name, value] of this.#pairs) visit.call(self, value, name, this);
    }
    get size() {
      return this.#pairs.length;
    }
    *entries() {
      yield* this.#pairs.map((pair) => [...pair]);
    }
    *keys() {
      yield* this.#pairs.map(([name]) => name);
    }
    *values() {
      yield* this.#pairs.map(([, value]) => value);
    }
    [Symbol.iterator]() {
      return this.entries();
    }
    toString() {
      return host.writeForm(this.#pairs);
    }
  }

  const URL_PARTS = ["protocol", "username", "password", "host", "hostname", "port", "pathname", "search", "hash"];

  class URL {
    #href;
    #params;
    constructor(input, base) {
      this.#href = host.parseUrl(String(input), base === undefined ? undefined : String(base));
    }
    static canParse(input, base) {
      try {
        return Boolean(new URL(input, base));
      } catch {
        return false;
      }
    }
    static part(url, name) {
      return host.urlPart(url.#href, name);
    }
    static change(url, name, value) {
      url.#href = host.changeUrl(url.#href, name, String(value));
      if (name === "search") url.#params = undefined;
    }
    get href() {
      return this.#href;
    }
    set href(value) {
      this.#href = host.parseUrl(String(value), undefined);
      this.#params = undefined;
    }
    get origin() {
      return host.urlPart(this.#href, "origin");
    }
    get searchParams() {
      this.#params ??= new URLSearchParams(this.search, (query) => {
        this.#href = host.changeUrl(this.#href, "search", query);
      });
      return this.#params;
    }
    toString() {
      return this.#href;
    }
    toJSON() {
      return this.#href;
    }
  }
  const { part, change } = URL;
  delete URL.part;
  delete URL.change;
  for (const name of URL_PARTS) {
    Object.defineProperty(URL.prototype, name, {
      get() {
        return part(this, name);
      },
      set(value) {
        change(this, name, value);
      },
      enumerable: true,
      configurable: true,
    });
  }

  class Headers {
    #fields = new Map();
    constructor(init = []) {
      const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
      for (const [name, value] of pairs) this.append(name, value);
    }
    append(name, value) {
      const key = String(name).toLowerCase();
      const before = this.#fields.get(key);
      this.#fields.set(key, before === undefined ? String(value) : `${before}, ${value}`);
    }
    set(name, value) {
      this.#fields.set(String(name).toLowerCase(), String(value));
    }
    get(name) {
      return this.#fields.get(String(name).toLowerCase()) ?? null;
    }
    has(name) {
      return this.#fields.has(String(name).toLowerCase());
    }
    delete(name) {
      this.#fields.delete(String(name).toLowerCase());
    }
    forEach(visit, self) {
      for (const [name, value] of this.#fields) visit.call(self, value, name, this);
    }
    entries() {
      return this.#fields.entries();
    }
    keys() {
      return this.#fields.keys();
    }
    values() {
      return this.#fields.values();
    }
    [Symbol.iterator]() {
      return this.entries();
    }
  }

  class Response {
    #body;
    #used = false;
    constructor({ status, url, headers, body }) {
      this.status = status;
      this.ok = status >= 200 && status < 300;
      this.url = url;
      this.headers = new Headers(headers);
      this.#body = body;
    }
    get bodyUsed() {
      return this.#used;
    }
    #take() {
      if (this.#used) throw new TypeError("the body was already read");
      this.#used = true;
      return this.#body;
    }
    async bytes() {
      return this.#take();
    }
    async arrayBuffer() {
      return this.#take().buffer;
    }
    async text() {
      return host.decode(this.#take(), false);
    }
    async json() {
      return JSON.parse(await this.text());
    }
  }

  async function fetch(input, init = {}) {
    const headers = new Headers(init.headers);
    const preset = (type) => {
      if (!headers.has("content-type")) headers.set("content-type", type);
    };
    let body = init.body ?? undefined;
    if (typeof body === "string") {
      preset("text/plain;charset=UTF-8");
      body = host.encode(body);
    } else if (body instanceof URLSearchParams) {
      preset("application/x-www-form-urlencoded;charset=UTF-8");
      body = host.encode(body.toString());
    } else if (body !== undefined) {
      body = bytesOf(body);
    }
    const method = String(init.method ?? "GET").toUpperCase();
    const fetched = await new Promise((resolve, reject) => {
      waiting.set(host.fetch(method, String(input), [...headers], body), { resolve, reject });
    });
    return new Response(fetched);
  }

  function setTimeout(run, delay = 0, ...args) {
    if (typeof run !== "function") throw new TypeError("setTimeout takes a function");
    const op = host.timer(Math.max(0, Number(delay) || 0));
    const resolve = () => {
      try {
        run(...args);
      } catch (error) {
        host.log("error", `in a timer: ${describe(error)}`);
      }
    };
    waiting.set(op, { resolve, reject: resolve });
    return op;
  }

  const log = (level) => (...parts) => host.log(level, parts.map(show).join(" "));

  const crypto = {
    randomUUID: () => host.randomUuid(),
    getRandomValues(view) {
      bytesOf(view).set(host.random(view.byteLength));
      return view;
    },
  };

  const console = {
    debug: log("debug"),
    log: log("info"),
    info: log("info"),
    warn: log("warn"),
    error: log("error"),
  };

  Object.assign(globalThis, {
    console,
    crypto,
    Headers,
    setTimeout,
    clearTimeout: (op) => void waiting.delete(op),
    queueMicrotask: (run) => void Promise.resolve().then(run),
    TextDecoder,
    TextEncoder,
    URL,
    URLSearchParams,
  });

  const isSkill = (candidate) =>
    typeof candidate?.listTools === "function" && typeof candidate?.execute === "function";

  function skillOf(module) {
    const skill = [module.default, module].find(isSkill);
    if (skill === undefined) {
      throw new TypeError("export listTools() and execute(call, ctx), by name or as the default export");
    }
    return skill;
  }

  function listed(tool, index) {
    const at = `listTools()[${index}]`;
    const { name, description, inputSchema, mutatesState } = tool ?? {};
    if (typeof name !== "string") throw new TypeError(`${at}.name must be a string`);
    if (typeof description !== "string") throw new TypeError(`${at}.description must be a string (${name})`);
    if (typeof inputSchema !== "object" || inputSchema === null || Array.isArray(inputSchema)) {
      throw new TypeError(`${at}.inputSchema must be an object (${name})`);
    }
    if (mutatesState !== undefined && typeof mutatesState !== "boolean") {
      throw new TypeError(`${at}.mutatesState must be true or false (${name})`);
    }
    return { name, description, inputSchemaJson: JSON.stringify(inputSchema), mutatesState };
  }

  function contextAt(nowIso, configJson) {
    return {
      nowIso,
      config: JSON.parse(configJson),
      db: {
        query: (sql, params = []) => host.query(String(sql), [...params]),
        run: (sql, params = []) => host.run(String(sql), [...params]),
      },
      http: { fetch },
      time: {
        format: (zone, at = nowIso) => host.formatTime(String(zone), new Date(at).getTime()),
      },
    };
  }

  // What a skill throws is data. A full heap shows as an InternalError, or as null when not even that fits.
  async function told(work) {
    try {
      return ["done", await work()];
    } catch (error) {
      return [error === null || error instanceof InternalError ? "broke" : "threw", describe(error)];
    }
  }

  return {
    settle,
    forget: () => waiting.clear(),
    list: (module) =>
      told(async () => {
        const tools = await skillOf(module).listTools();
        if (!Array.isArray(tools)) throw new TypeError("listTools() must return an array");
        return JSON.stringify(tools.map(listed));
      }),
    execute: (module, name, argumentsJson, nowIso, configJson) =>
      told(async () => {
        const result = await skillOf(module).execute({ name, argumentsJson }, contextAt(nowIso, configJson));
        if (typeof result?.content !== "string") {
          throw new TypeError("execute() must return { content: string }");
        }
        return result.content;
      }),
  };
});
