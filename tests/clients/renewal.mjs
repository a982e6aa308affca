// What the client in JavaScript does with messages that a receiver holds behind a gap, without a network.
import assert from "node:assert/strict";
import { PEER, alive, client, frames, hear, pass } from "./trial.mjs";

const acknowledge = (channel, next, ranges) => hear("transport", ["ack", 0, 4096, channel, next], ranges);

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
