// A client in JavaScript without a network, a clock that the test moves, and one peer that says what the test wants.
import { Client } from "../../extras/node/glue.mjs";

export const [FROM, PEER, LIFE] = [{ address: "10.0.0.9", port: 37319 }, "e36759dea8a54260", 1740800000000000];
export const sent = [];
let clock = Date.now();
Date.now = () => clock;

export const client = new Client({ name: "tiny" });
client.unicast = { send: (parts) => sent.push(Buffer.concat(parts).toString()), close() {} };
client.multicast = { close() {} };
client.announceAt = clock + 1e9;
export const hear = (layer, entry, body, isMulticast = false, sender = PEER, more = {}) => {
  const header = JSON.stringify({ glue: [1, 1, sender, LIFE, 0], [layer]: entry, ...more });
  client.receive(Buffer.from(`${header}\n${typeof body === "string" ? body : JSON.stringify(body)}`), FROM, isMulticast);
};
const announced = { name: "kitchen", interval_ms: 1000, epoch: 0, version: 1, previous: 0, base: 0, operations: ["+#"] };
export const alive = () => hear("discovery", [5, 0, null, null, "announce"], announced, true);
export const frames = () =>
  sent.splice(0).flatMap((text) => {
    const [header, , payload] = text.split("\n");
    const { transport } = JSON.parse(header);
    return transport?.[0] === "data" ? [{ channel: transport[6], sequence: transport[7], payload }] : [];
  });
export const pass = (ms) => {
  for (clock += ms % 500; ms >= 500; ms -= 500) alive(), client.tend((clock += 500));
};
