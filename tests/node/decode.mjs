// A decoder of glue's wire format, written after docs/wire-format.md and docs/entries.json: plain Node.js.
//
//     node decode.mjs FOLDER ENTRIES
//
// reads the names of all fields from ENTRIES, then every NAME.datagram of the folder, in alphabetical order, and
// prints what each means as one JSON array:
// header fields by name, the body as hex, and what the body holds. A message in fragments is told with its last one.

import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const { version: VERSION, entries: ENTRIES } = JSON.parse(readFileSync(process.argv[3], "utf8"));
const NEWLINE = 10;

/** The JSON text before the first newline, parsed, and the bytes behind it. */
function split(bytes) {
  const end = bytes.indexOf(NEWLINE);
  if (end < 0) throw new Error("no newline");
  return [JSON.parse(bytes.subarray(0, end).toString("utf8")), bytes.subarray(end + 1)];
}

/** The declared entry of a layer that a list is: told by its kind, which stands first or last. */
function declared(layer, list) {
  const entries = ENTRIES.filter((entry) => entry.layer === layer);
  return entries.find(({ kind }) => kind === null || kind === list[0] || kind === list.at(-1));
}

/** The names of a list's fields; those before a kind that stands last may be left out. */
function namesOf(layer, list) {
  const all = declared(layer, list).fields.map((field) => field.name);
  return all.at(-1) === "kind" ? [...all.slice(0, list.length - 1), "kind"] : all;
}

/** The header with the fields of each layer by name. */
function named(header) {
  const layers = {};
  for (const [layer, entry] of Object.entries(header)) {
    layers[layer] = Object.fromEntries(namesOf(layer, entry).map((name, place) => [name, entry[place]]));
  }
  return layers;
}

/** The messages of a bundle, each on its own. */
function messages(bundle) {
  const [index, payloads] = split(bundle);
  const found = [];
  let start = 0;
  for (const group of index.groups) {
    const lengths = group.lengths ?? Array(group.count ?? 1).fill(group.length);
    lengths.forEach((length, number) => {
      const payload = payloads.subarray(start, start + length);
      start += length;
      found.push({
        topic: group.topic,
        sequence: group.sequence + number,
        at: group.at,
        type: group.type ?? null,
        retain: group.retain ?? 0,
        lifespan: group.lifespan ?? null,
        payload: group.json ? { json: JSON.parse(payload.toString("utf8")) } : { hex: payload.toString("hex") },
      });
    });
  }
  if (start !== payloads.length) throw new Error("lengths do not add up");
  return found;
}

/** Messages under assembly: fragments by their place. */
const assemblies = new Map();

/** The whole message, once all of its fragments are there; null before. */
function assembled({ glue, fragment }, body) {
  const key = [glue.sender, glue.incarnation, fragment.message].join();
  const fragments = assemblies.get(key) ?? new Map();
  if (!fragments.has(fragment.index)) fragments.set(fragment.index, body);
  assemblies.set(key, fragments);
  const count = Math.ceil(fragment.total / fragment.size);
  if (fragments.size < count) return null;
  assemblies.delete(key);
  return Buffer.concat(Array.from({ length: count }, (_, index) => fragments.get(index)));
}

/** The frame that parity over one frame is a copy of. */
function copied(block) {
  const [header, body] = split(block.subarray(2, 2 + block.readUInt16LE(0)));
  return { header, body: body.toString("hex") };
}

/** What the body of a datagram with this header holds. */
function content(layers, body) {
  if (layers.transport?.kind === "skip") return {};
  if (layers.discovery) return body.length ? { document: JSON.parse(body.toString("utf8")) } : {};
  if (layers.transport.kind === "open") return { members: JSON.parse(body.toString("utf8")) };
  if (layers.transport.kind === "parity") return { copies: layers.transport.count === 1 ? [copied(body)] : [] };
  if (layers.transport.kind === "ack" || layers.transport.kind === "mended") {
    const flat = JSON.parse(body.toString("utf8")).map((value) => layers.transport.next + value);
    return { ranges: Array.from({ length: flat.length / 2 }, (_, pair) => flat.slice(2 * pair, 2 * pair + 2)) };
  }
  const whole = layers.fragment ? assembled(layers, body) : body;
  return { messages: whole === null ? [] : messages(whole) };
}

function decode(name, bytes) {
  const [header, body] = split(bytes);
  if (header.glue[0] !== VERSION) throw new Error(`version ${header.glue[0]}`);
  const layers = named(header);
  return { name, ...layers, body: body.toString("hex"), ...content(layers, body) };
}

const folder = process.argv[2];
const suffix = ".datagram";
const names = readdirSync(folder).filter((file) => file.endsWith(suffix)).map((file) => file.slice(0, -suffix.length));
const decoded = names.sort().map((name) => decode(name, readFileSync(join(folder, name + suffix))));
console.log(JSON.stringify(decoded, null, 2));
