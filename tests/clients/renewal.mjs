// What the client in JavaScript does with messages that a receiver holds behind a gap, without a network.
import assert from "node:assert/strict";
import { Client } from "../../extras/node/glue.mjs";

const [FROM, PEER, LIFE] = [{ address: "10.0.0.9", port: 37319 }, "e36759dea8a54260", 1740800000000000];
const sent = [];
let clock = Date.now();
Date.now = () => clock;

const client = new Client({ name: "tiny" });
client.unicast = { send: (parts) => sent.push(Buffer.concat(parts).toString()) };
client.announceAt = clock + 1e9;
const hear = (layer, entry, body, isMulticast = false) => {
  const header = JSON.stringify({ glue: [1, 1, PEER, LIFE, 0], [layer]: entry });
  client.receive(Buffer.from(`${header}\n${JSON.stringify(body)}`), FROM, isMulticast);
};
const announced = { name: "kitchen", interval_ms: 1000, epoch: 0, version: 1, previous: 0, base: 0, operations: ["+#"] };
const alive = () => hear("discovery", [5, 0, null, null, "announce"], announced, true);
const acknowledge = (channel, next, ranges) => hear("transport", ["ack", 0, 4096, channel, next], ranges);
const frames = () =>
  sent.splice(0).flatMap((text) => {
    const [header, , payload] = text.split("\n");
    const { transport } = JSON.parse(header);
    return transport?.[0] === "data" ? [{ channel: transport[6], sequence: transport[7], payload }] : [];
  });
const pass = (ms) => {
  for (clock += ms % 500; ms >= 500; ms -= 500) alive(), client.tend((clock += 500));
};

alive();
client.peers.get(PEER).proven = true;
client.publish("t", "lost", { reliable: true });
const [{ channel }] = frames();
pass(3000);
client.publish("t", "held", { reliable: true });
client.publish("t", "too", { reliable: true });
frames();
acknowledge(channel, 0, [1, 3]);
pass(1000);
assert.deepEqual([...new Set(frames().map(({ sequence }) => sequence))], [0], "what it holds is not sent again");
pass(8000);
const again = frames().filter((frame) => frame.channel !== channel);
assert.deepEqual([...new Set(again.map(({ payload }) => payload))], ["held", "too"], "the gap was given up");

const next = again[0].channel;
acknowledge(next, 2, []);
client.publish("t", "later", { reliable: true });
for (let time = 0; time < 20; time++) acknowledge(next, 1, []);
assert.deepEqual([...new Set(frames().map((frame) => frame.channel))], [next], "these were overtaken");
pass(1000);
frames();
for (let time = 0; time < 5; time++) acknowledge(next, 0, []);
pass(500);
assert.deepEqual(frames().map((frame) => frame.channel > next && frame.payload), ["later"], "it forgot the channel");
