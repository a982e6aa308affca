// What the client in JavaScript sends and keeps at its limits, and after its goodbye, without a network.
import assert from "node:assert/strict";
import { PEER, alive, client, hear, pass, sent } from "./trial.mjs";

// A peer learns many patterns from frames that each fit a datagram.
const patterns = Array.from({ length: 100 }, (_, number) => `house/floor-1/room-${number}/temperature`);
for (const pattern of patterns) client.subscribe(pattern, () => {});
alive();
const peer = client.peers.get(PEER);
peer.proven = true;
sent.length = 0;
hear("discovery", [5, 0, 0, 10, "want"], "");
const told = sent.splice(0);
assert.ok(told.length > 1 && told.every((text) => text.length <= 1472));
const parts = told.map((text) => JSON.parse(text.split("\n")[1]));
assert.deepEqual(parts.flatMap(({ operations }) => operations), patterns.slice(10).map((pattern) => `+${pattern}`));
assert.deepEqual(parts.map(({ last }) => last), [...parts.slice(1).map(() => false), true]);
for (const [at, { first }] of parts.entries()) assert.equal(first, at ? parts[at - 1].first + parts[at - 1].operations.length : 10);
assert.throws(() => client.subscribe("x".repeat(600), () => {}), RangeError);

// Channels that a publisher has left do not pile up, and the ones in use stay.
const bundle = (sequence) => `{"groups":[{"topic":"${patterns[0]}","sequence":${sequence},"at":0,"length":1}]}\nx`;
for (let number = 1; number <= 2000; number++) {
  hear("transport", ["data", 0, 0, 0, 0, 0, number, 0], bundle(2 * number));
  hear("transport", ["data", 0, 0, 0, 0, 0, 1, number], bundle(2 * number + 1));
}
assert.equal(peer.channels.size, 256);
assert.equal(peer.channels.get(1).next, 2001);

// Strangers do not fill the memory.
const stranger = { name: "stranger", interval_ms: 1000, epoch: 0, version: 0, previous: 0, base: 0, operations: [] };
for (let number = 0; number < 2000; number++)
  hear("discovery", [5, 0, null, null, "announce"], stranger, true, `${number}`.padStart(16, "0"));
assert.deepEqual([client.peers.size, client.counts["too many peers"], client.peers.has(PEER)], [1024, 977, true]);

const [first] = [...client.peers.keys()].filter((id) => id !== PEER);
hear("transport", ["data", 0, 0, 0, 0, 0, 1, 5], "held", false, first);
assert.equal(client.held, 104);

// They keep no place from a newcomer for more than a second, and those that have proved themselves stay.
pass(1000);
hear("discovery", [5, 0, null, null, "announce"], stranger, true, "f".repeat(16));
assert.deepEqual([client.peers.size, client.peers.has("f".repeat(16)), client.peers.has(PEER)], [1024, true, true]);
assert.deepEqual([client.peers.has(first), client.held], [false, 0]);

// A message says how many it is, not how much memory it takes.
const delivered = [];
client.subscribe("safe/#", ({ topic }) => delivered.push(topic));
const malformed = client.counts.malformed ?? 0;
const groups = (...changes) => changes.map((change) => ({ topic: "safe/t", sequence: 1, at: 0, length: 0, ...change }));
const wrong = [
  groups({ count: 4e9 }), groups({ count: 1e300 }), groups({ count: 9000 }, { count: 9000 }), groups({ lengths: [-1, 1] }),
  groups({ count: "2" }), groups({ topic: 7 }), groups({ sequence: "1" }), groups({ position: null }), 5,
];
let best = 0;
for (const each of wrong) hear("transport", ["best", 0, best++], `${JSON.stringify({ groups: each })}\n`);
await null;
assert.deepEqual([client.counts.malformed - malformed, delivered], [wrong.length, []]);

// One that cannot be read holds up none behind it, and counts once.
hear("transport", ["data", 0, 0, 0, 0, 0, 3000, 1], `${JSON.stringify({ groups: groups({ topic: "safe/u" }) })}\n`);
hear("transport", ["data", 0, 0, 0, 0, 0, 3000, 0], "nothing");
await null;
assert.deepEqual([client.counts.malformed - malformed, delivered], [wrong.length + 1, ["safe/u"]]);

// Topics of a publisher do not pile up.
for (let number = 0; number < 10_100; number++)
  hear("transport", ["data", 0, 0, 0, 0, 0, 3000, 2 + number],
    `${JSON.stringify({ groups: groups({ topic: `safe/${number}` }) })}\n`);
assert.equal(peer.streams.size, 10_000);
assert.ok(peer.streams.has("safe/10099") && !peer.streams.has("safe/99"));

// What waits takes 64 MiB at most. Beyond, the channels that hold the most are forgotten, and their senders begin anew.
const part = "x".repeat(1200);
const gap = (number) => {
  for (let sequence = 1; sequence < 1024; sequence++) hear("transport", ["data", 0, 0, 0, 0, 0, number, sequence], part);
};
const sum = () => [...client.peers.values()].flatMap(({ channels }) => [...channels.values()]).reduce((all, { bytes }) => all + bytes, 0);
for (let number = 5000; number < 5060; number++) gap(number), assert.ok(client.held <= 64 << 20, client.held);
assert.equal(client.held, sum());
assert.ok(client.counts["channels forgotten"] > 20 && peer.channels.has(5059));
hear("transport", ["data", 0, 0, 0, 0, 0, 5059, 0], `${JSON.stringify({ groups: groups({ topic: "safe/next" }) })}\n`);
await null;
assert.equal(delivered.at(-1), "safe/next");

// So messages in fragments come, however much others hold; what the rest of a message will not follow is dropped.
for (let number = 6000; number < 6004; number++) {
  for (let index = 0; index < 13_000; index++)
    hear("transport", ["data", 0, 0, 0, 0, 0, number, index], part, false, PEER, { fragment: [0, 1200, 16 << 20, index] });
  hear("transport", ["skip", number, 14_000], "");
}
assert.equal(client.held, sum());
const bytes = `${JSON.stringify({ groups: groups({ topic: "safe/large", length: 3_000_000 }) })}\n${"y".repeat(3_000_000)}`;
for (let at = 0; at < bytes.length; at += 1200)
  hear("transport", ["data", 0, 0, 0, 0, 0, 7000, at / 1200], bytes.slice(at, at + 1200), false, PEER, { fragment: [0, 1200, bytes.length, at / 1200] });
await null;
assert.equal(delivered.at(-1), "safe/large");
hear("transport", ["skip", 7000], "");
hear("transport", ["data", 0, 0, 0, 0, 0, 7000, 1 << 20], "");
assert.equal(client.counts["beyond window"], 1);
for (const { number } of [...peer.channels.values()]) hear("transport", ["skip", number, 1 << 20], "");
assert.deepEqual([client.held, sum()], [0, 0]);

// A peer with more patterns than are kept is sent everything.
const learn = (first, operations) => hear("discovery", [5, 0, null, null, "operations"], { epoch: 0, first, last: true, operations });
for (let first = 1; first < 1000; first++) learn(first, [`+a/${first}`]);
assert.deepEqual([peer.wants("$b"), peer.interests.size], [false, 1000]);
learn(1000, ["+a/last"]);
assert.deepEqual([peer.wants("$b"), peer.interests.size], [true, 1000]);

// What a peer that leaves has not acknowledged is given up, and counted.
client.publish("a", "x", { reliable: true });
hear("discovery", [0, peer.token, null, null, "goodbye"], "");
assert.deepEqual([client.peers.has(PEER), client.counts["given up"]], [false, 1]);
alive();

// After its goodbye it answers nobody, so nobody takes it for alive again.
sent.length = 0;
const closed = client.close();
const goodbyes = sent.splice(0);
assert.ok(goodbyes.every((text) => JSON.parse(text.split("\n")[0]).discovery.at(-1) === "goodbye"));
hear("discovery", [6, 0, null, null, PEER, "call"], { name: "kitchen", interval_ms: 1000, epoch: 0, operations: [] });
await closed;
assert.deepEqual(sent, []);
