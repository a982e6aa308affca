// The client for Node.js without a network and in virtual time, for tests: the commands of harness.c, and `reset`, which
// begins with a new client. Counters have the names of those of the client in C.
import { createInterface } from "node:readline";
import { Client } from "../../extras/node/glue.mjs";

const FROM = "10.0.0.9";
let clock = 1_000_000_000;
Date.now = () => clock;
let client;
const print = (...words) => process.stdout.write(`${words.join(" ")}\n`);

function start() {
  client = new Client({ name: "tiny" });
  client.unicast = { send: (parts, port) => print("sent", port, Buffer.concat(parts).toString("hex")), close() {} };
  client.multicast = { close() {} };
}

function told({ publisher, topic, sequence, missed, reliable, json, retained, codec, payload }) {
  const flags = [reliable, json, retained].map(Number);
  print("message", publisher, topic, sequence, missed, ...flags, typeof codec === "number" ? codec : -1, payload.toString("hex"));
}

const commands = {
  receive: (way, port, hex = "") =>
    client.receive(Buffer.from(hex, "hex"), { address: FROM, port: Number(port) }, way === "multicast"),
  advance: (milliseconds) => client.tend((clock += Number(milliseconds))),
  subscribe: (pattern) => client.subscribe(pattern, told),
  publish: (topic, text) => print("result", client.publish(topic, text)),
  reliable: (topic, text) => print("result", client.publish(topic, text, { reliable: true })),
  goodbye: () => void client.close(),
  counters: () => {
    for (const [what, count] of Object.entries(client.counts)) print("counter", count, what.toUpperCase().replaceAll(" ", "_"));
  },
  reset: start,
};

start();
for await (const line of createInterface({ input: process.stdin })) {
  const [command, ...words] = line.split(" ");
  commands[command](...words);
  await null; // handlers of messages run as microtasks
  print("synced");
}
