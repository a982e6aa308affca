// A program with the client: what comes in is printed, and commands are read from standard input.
//
//     node example.mjs NAME [INTERFACE_ADDRESS [GROUP PORT NETWORK]]
//
// The commands: subscribe PATTERN · publish TOPIC TEXT (best effort) · reliable TOPIC TEXT · peers · counters. The end of
// the input waits for acknowledgements and says goodbye.

import { createInterface } from "node:readline";
import { Client } from "./glue.mjs";

const [name, host, group, port, network] = process.argv.slice(2);
const client = new Client({ name, interface: host, group, port: port && Number(port), network: network && Number(network) });
const print = ({ publisher, topic, sequence, missed, reliable, retained, payload }) => {
  const kind = `${reliable ? "reliable" : "best"}${retained ? "-retained" : ""}`;
  console.log(`message ${publisher} ${topic} ${sequence} ${missed} ${kind} ${payload.length} ${payload}`);
};
await client.start();
for await (const line of createInterface({ input: process.stdin })) {
  const [, command, topic, text] = line.match(/^(\S+) ?(\S*) ?(.*)$/) ?? [];
  let result = 0;
  if (command === "counters") for (const [what, count] of Object.entries(client.counts)) console.log(`counter ${count} ${what}`);
  else if (command === "subscribe") client.subscribe(topic, print);
  else if (command === "peers") for (const peer of client.peers.values()) console.log(`peer ${peer.name} ${Number(peer.proven)}`);
  else result = client.publish(topic, text, { reliable: command === "reliable" });
  console.log(`result ${result} ${command}`);
}
await client.close();
