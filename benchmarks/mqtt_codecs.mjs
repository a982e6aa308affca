// Reads packets with npm's mqtt-packet for mqtt_codecs.py: `node mqtt_codecs.mjs NODE_MODULES`. A line of input is a
// JSON array of [version, packet in base64]; the answer is a JSON array of what each is: a packet, the text of an
// error, or null where bytes are missing. Bytes are told as characters U+0000 to U+00FF.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const { parser } = createRequire(`${process.argv[2]}/`)("mqtt-packet");
Buffer.prototype.toJSON = function () { return this.toString("latin1"); };

function read([protocolVersion, data]) {
  let found = null;
  const reader = parser({ protocolVersion });
  reader.on("packet", (packet) => { found ??= packet; });
  reader.on("error", (error) => { found ??= error.message; });
  try {
    reader.parse(Buffer.from(data, "base64"));
  } catch (error) {
    found ??= `thrown: ${error.message}`;
  }
  return found;
}

for await (const line of createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  process.stdout.write(`${JSON.stringify(JSON.parse(line).map(read))}\n`);
}
