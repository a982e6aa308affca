// A client of MQTT.js for test_clients.py: subscribes, publishes one message of each QoS, and prints what it gets.
const mqtt = require("mqtt");
const [url, version] = process.argv.slice(2);
const client = mqtt.connect(url, { protocolVersion: Number(version), clientId: "js", reconnectPeriod: 0 });
const found = [];
client.on("error", (error) => { console.error(error.message); process.exit(1); });
client.on("message", (topic, payload, packet) => {
  found.push(`${topic} ${payload} ${packet.qos}`);
  if (found.length === 3) client.end(false, () => console.log(found.sort().join("\n")));
});
client.on("connect", async () => {
  await client.subscribeAsync("js/+", { qos: 2 });
  for (const qos of [0, 1, 2]) await client.publishAsync(`js/${qos}`, `message ${qos}`, { qos });
});
