// Damaged datagrams do the client in JavaScript no harm: it raises nothing and keeps little.
import assert from "node:assert/strict";
import { readFileSync, readdirSync } from "node:fs";
import { FROM, alive, client, pass } from "./trial.mjs";

const golden = new URL("../golden/", import.meta.url);
const names = readdirSync(golden).filter((name) => name.endsWith(".datagram"));
const seeds = names.sort().map((name) => readFileSync(new URL(name, golden)).toString("latin1"));
const numbers = ["-1", "1.5", "1e300", "4294967295", "9007199254740991", "null", "[]", "{}", "true", '""'];
let state = 35;
const draw = (below) => (state = (Math.imul(state, 1103515245) + 12345) >>> 0) % below;

function damaged(text) {
  const [at, way, found] = [draw(text.length), draw(4), [...text.matchAll(/\d+/g)]];
  if (way === 0) return text.slice(0, at) + String.fromCharCode(draw(256)) + text.slice(at + 1);
  if (way === 1) return text.slice(0, at) + text.slice(at + draw(20));
  if (way === 2) return text.slice(0, at) + text.slice(at, at + draw(30)) + text.slice(at);
  const { index, 0: number } = found[draw(found.length)];
  return text.slice(0, index) + numbers[draw(numbers.length)] + text.slice(index + number.length);
}

client.subscribe("#", () => {});
alive();
for (let number = 0; number < 20_000; number++) {
  const text = seeds[draw(seeds.length)];
  client.receive(Buffer.from(number % 4 ? damaged(text) : text, "latin1"), FROM, number % 2 === 0);
  if (number % 50 === 0) pass(20);
}
assert.ok(client.counts.malformed > 1000 && client.counts.duplicate > 100, JSON.stringify(client.counts));
assert.ok(client.peers.size < 1000 && client.held < 1 << 20);
