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

/** Bytes as hex, as JSON has none. */
const hex = (bytes) => ({ hex: bytes.toString("hex") });

/** One value of CBOR (RFC 8949), as far as JSON has it, and bytes. */
function cbor(bytes) {
  let at = 0;
  const take = (size) => bytes.subarray(at, (at += size));
  const argument = (info) => {
    if (info < 24) return info;
    const size = 1 << (info - 24);
    return size === 8 ? Number(take(8).readBigUInt64BE()) : take(size).readUIntBE(0, size);
  };
  const half = (bits) => {
    const [sign, exponent, fraction] = [bits & 0x8000 ? -1 : 1, (bits >> 10) & 31, bits & 1023];
    return sign * (exponent ? 2 ** (exponent - 15) * (1 + fraction / 1024) : (2 ** -14 * fraction) / 1024);
  };
  const value = () => {
    const [major, info] = [bytes[at] >> 5, bytes[at++] & 31];
    if (major === 7) {
      if (info === 25) return half(take(2).readUInt16BE());
      if (info === 26) return take(4).readFloatBE();
      if (info === 27) return take(8).readDoubleBE();
      return { 20: false, 21: true, 22: null }[info];
    }
    const count = argument(info);
    if (major < 2) return major ? -1 - count : count;
    if (major === 2) return hex(take(count));
    if (major === 3) return take(count).toString("utf8");
    if (major === 4) return Array.from({ length: count }, value);
    return Object.fromEntries(Array.from({ length: count }, () => [value(), value()]));
  };
  return value();
}

/** One value of msgpack, as far as JSON has it, and bytes. */
function msgpack(bytes) {
  let at = 0;
  const take = (size) => bytes.subarray(at, (at += size));
  const list = (count) => Array.from({ length: count }, value);
  const map = (count) => Object.fromEntries(Array.from({ length: count }, () => [value(), value()]));
  const text = (count) => take(count).toString("utf8");
  const sized = (make, size) => make(take(size).readUIntBE(0, size));
  function value() {
    const tag = bytes[at++];
    if (tag < 0x80) return tag;
    if (tag < 0x90) return map(tag & 15);
    if (tag < 0xa0) return list(tag & 15);
    if (tag < 0xc0) return text(tag & 31);
    if (tag >= 0xe0) return tag - 256;
    if (tag === 0xca) return take(4).readFloatBE();
    if (tag === 0xcb) return take(8).readDoubleBE();
    if (tag >= 0xcc && tag <= 0xce) return sized(Number, 1 << (tag - 0xcc));
    if (tag >= 0xd0 && tag <= 0xd2) return take(1 << (tag - 0xd0)).readIntBE(0, 1 << (tag - 0xd0));
    if (tag >= 0xc4 && tag <= 0xc6) return hex(sized(take, 1 << (tag - 0xc4)));
    if (tag >= 0xd9 && tag <= 0xdb) return sized(text, 1 << (tag - 0xd9));
    if (tag >= 0xdc && tag <= 0xdd) return sized(list, 2 << (tag - 0xdc));
    if (tag >= 0xde) return sized(map, 2 << (tag - 0xde));
    return { 0xc0: null, 0xc2: false, 0xc3: true }[tag];
  }
  return value();
}

/** A numpy array of integers or floats as nested lists. */
function numpy(bytes) {
  const [{ dtype, shape, order = "C" }, memory] = split(bytes);
  const [, end, kind, width] = dtype.match(/^([<>|])([iuf])(\d)$/);
  const size = Number(width);
  const wide = { f4: "Float", f8: "Double", i8: "BigInt64", u8: "BigUInt64" }[kind + size];
  const type = wide ?? `${kind === "i" ? "Int" : "UInt"}${8 * size}`;
  const read = `read${type}${size === 1 ? "" : end === ">" ? "BE" : "LE"}`;
  const inner = (axis) => (order === "C" ? shape.slice(axis + 1) : shape.slice(0, axis));
  const steps = shape.map((_, axis) => inner(axis).reduce((product, count) => product * count, size));
  const places = (axis) => Array.from({ length: shape[axis] }, (_, place) => place * steps[axis]);
  const part = (axis, at) =>
    axis < shape.length ? places(axis).map((place) => part(axis + 1, at + place)) : Number(memory[read](at));
  return part(0, 0);
}

/** A table of flatbuffers: where its fields are, by their number in the schema; 0 if one is not there. */
class Table {
  constructor(bytes, at) {
    const vtable = at - bytes.readInt32LE(at);
    const size = bytes.readUInt16LE(vtable);
    this.bytes = bytes;
    this.field = (number) => {
      const place = 4 + 2 * number < size ? bytes.readUInt16LE(vtable + 4 + 2 * number) : 0;
      return place && at + place;
    };
  }
  target = (at) => at + this.bytes.readUInt32LE(at);
  number = (field, read, missing) => (this.field(field) ? this.bytes[read](this.field(field)) : missing);
  table = (field) => new Table(this.bytes, this.target(this.field(field)));
  text(field) {
    const at = this.target(this.field(field));
    return this.bytes.subarray(at + 4, at + 4 + this.bytes.readUInt32LE(at)).toString("utf8");
  }
  tables(field) {
    const at = this.target(this.field(field));
    const places = Array.from({ length: this.bytes.readUInt32LE(at) }, (_, index) => at + 4 + 4 * index);
    return places.map((place) => new Table(this.bytes, this.target(place)));
  }
  /** A list of structures of two 64-bit integers. */
  pairs(field) {
    const at = this.target(this.field(field));
    const places = Array.from({ length: this.bytes.readUInt32LE(at) }, (_, index) => at + 4 + 16 * index);
    return places.map((place) => [place, place + 8].map((each) => Number(this.bytes.readBigInt64LE(each))));
  }
}

/** The columns of an Arrow IPC stream with one record batch of signed integers without nulls. */
function arrow(bytes) {
  let [at, columns] = [0, []];
  const found = {};
  for (;;) {
    const size = bytes.readInt32LE(at + 4);
    if (bytes.readUInt32LE(at) !== 0xffffffff) throw new Error("no Arrow stream");
    if (!size) return found;
    const encoded = bytes.subarray(at + 8, at + 8 + size);
    const message = new Table(encoded, encoded.readUInt32LE(0));
    const [kind, header] = [encoded[message.field(1)], message.table(2)];
    const body = bytes.subarray(at + 8 + size);
    if (kind === 1) {
      const width = (column) => column.table(3).number(0, "readInt32LE", 0) / 8;
      columns = header.tables(1).map((column) => [column.text(0), width(column)]);
    }
    if (kind === 3) {
      const buffers = header.pairs(2);
      columns.forEach(([name, width], place) => {
        const [start, length] = buffers[2 * place + 1];
        const values = Array.from({ length: length / width }, (_, index) => start + width * index);
        found[name] = values.map((value) => body.readIntLE(value, width));
      });
    }
    at += 8 + size + Number(message.field(3) ? encoded.readBigInt64LE(message.field(3)) : 0n);
  }
}

const CODECS = { 1: ["msgpack", msgpack], 2: ["cbor", cbor], 3: ["numpy", numpy], 4: ["arrow", arrow] };

/** What a payload means. */
function meaning(group, payload) {
  if (group.topic.startsWith("$glue/receivers/at/")) return ofReceivers(payload);
  if (group.codec) {
    const [name, decode] = CODECS[group.codec] ?? [group.codec, hex];
    return { [name]: decode(payload) };
  }
  return group.json ? { json: JSON.parse(payload.toString("utf8")) } : hex(payload);
}

/** What a batch of messages to receivers means, or a report. */
function ofReceivers(payload) {
  const [head, rest] = split(payload);
  let start = 0;
  const take = (size) => rest.subarray(start, (start += size));
  const shown = (bytes, json) => (json ? { json: JSON.parse(bytes.toString("utf8")) } : hex(bytes));
  if (!("batch" in head)) {
    const { taken = [], moved = [], done = [] } = head;
    const results = (head.results ?? []).map(([batch, seq, status, size, json]) => {
      return { batch, seq, status, payload: shown(take(size), json) };
    });
    return { report: { taken, moved, done, results } };
  }
  const end = rest.indexOf(NEWLINE);
  const payloads = JSON.parse(take(end).toString("utf8")).map((json) => ({ json }));
  take(1);
  for (const [index, size] of head.bytes ?? []) payloads[index] = hex(take(size));
  const asks = Object.fromEntries((head.asks ?? []).map(([index, within, path]) => [index, [within / 1000, path]]));
  const messages = head.seqs.map((seq, index) => {
    const [within, path] = asks[index] ?? [0, []];
    return { seq, id: head.ids[index], within, path, payload: payloads[index] };
  });
  const { kind, partition, partitions } = head;
  return { batch: { number: head.batch, kind, partition, partitions, messages } };
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
        properties: group.properties ?? {},
        payload: meaning(group, payload),
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
  if (layers.transport?.kind === "skip" || layers.transport?.kind === "wake") return {};
  if (layers.transport?.kind === "waited") return { ends: JSON.parse(body.toString("utf8")) };
  if (layers.discovery) {
    if (!body.length || layers.discovery.kind === "path") return {};
    const [head, ...part] = body.toString("utf8").split("\n");
    return { document: JSON.parse(head), ...(part.length ? { part: part.join("\n") } : {}) };
  }
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
