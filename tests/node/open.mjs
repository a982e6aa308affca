// Opens glue's sealed datagrams, written after docs/wire-format.md: plain Node.js.
//
//     node open.mjs FOLDER KEYFILE
//
// prints one JSON object: the content of each NAME.sealed of the folder, as hex.

import { createDecipheriv, hkdfSync } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const SUITES = { 0xe1: ["AES-256-GCM", "aes-256-gcm"], 0xe2: ["ChaCha20-Poly1305", "chacha20-poly1305"] };
const TAG = 16;

function derived(root, salt, info, length) {
  return Buffer.from(hkdfSync("sha256", root, salt, info, length));
}

/** The root of the epoch whose id is in the datagram. */
function rootOf(key, id) {
  const roots = key.epochs.map((epoch) => Buffer.from(epoch.root, "hex"));
  return roots.find((root) => derived(root, Buffer.alloc(0), "glue1 key id", 1)[0] === id);
}

/** The datagrams of a file: where the open part of the first is repeated, but for first byte and number, is the next. */
function datagrams(data) {
  const next = data.indexOf(data.subarray(1, 20), 24);
  const size = next < 0 ? data.length : next - 1;
  return Array.from({ length: Math.ceil(data.length / size) }, (_, at) => data.subarray(at * size, (at + 1) * size));
}

/** The datagrams that were sealed as one block. */
function openedBlock(parts, key) {
  const [first] = parts;
  const last = parts.at(-1);
  const size = Buffer.alloc(2);
  size.writeUInt16BE(first.length - 40);
  parts.forEach((part, at) => {
    if (part[0] !== first[0] + (part === last ? 4 : 0) || part.readUInt32BE(20) !== first.readUInt32BE(20) + at) {
      throw new Error("not a block");
    }
  });
  const text = Buffer.concat(parts.map((part) => part.subarray(24)));
  const plain = decrypted(first, text, Buffer.concat([first.subarray(0, 20), size]), first[0] - 4, key);
  return plain.subarray(0, plain.length - (parts.length - 1) * TAG);
}

function opened(data, key) {
  const parts = datagrams(data);
  if (parts.length > 1) return openedBlock(parts, key);
  return decrypted(data, data.subarray(24), data.subarray(0, 20), data[0], key);
}

function decrypted(datagram, text, associated, format, key) {
  const prefix = datagram.subarray(0, 20);
  const number = datagram.subarray(20, 24);
  const [name, cipher] = SUITES[format];
  const info = Buffer.concat([Buffer.from("glue1 group "), prefix.subarray(2, 4), Buffer.from(name)]);
  const secret = derived(rootOf(key, prefix[1]), prefix.subarray(4, 20), info, 32);
  const nonce = Buffer.concat([Buffer.alloc(8), number]);
  const decipher = createDecipheriv(cipher, secret, nonce, { authTagLength: TAG });
  decipher.setAAD(associated);
  decipher.setAuthTag(text.subarray(-TAG));
  return Buffer.concat([decipher.update(text.subarray(0, -TAG)), decipher.final()]);
}

const [folder, keyFile] = process.argv.slice(2);
const key = JSON.parse(readFileSync(keyFile, "utf8"));
const suffix = ".sealed";
const names = readdirSync(folder).filter((file) => file.endsWith(suffix)).map((file) => file.slice(0, -suffix.length));
const contents = names.sort().map((name) => [name, opened(readFileSync(join(folder, name + suffix)), key).toString("hex")]);
console.log(JSON.stringify(Object.fromEntries(contents)));
