// Checks a proof of identity, and opens signed and private bundles, written after docs/wire-format.md: plain Node.js.
//
//     node members.mjs FOLDER
//
// prints one JSON object: the certificate of kitchen.proof, and the content of each NAME.bundle, as hex.

import { createDecipheriv, createPrivateKey, createPublicKey, diffieHellman, hkdfSync, verify } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

const PUBLIC = { Ed25519: "302a300506032b6570032100", X25519: "302a300506032b656e032100" }; // RFC 8410, before the key
const SECRET_X25519 = "302e020100300506032b656e04220420";
const TAG = 16;
const concat = (...parts) => Buffer.concat(parts.map((part) => (typeof part === "string" ? Buffer.from(part) : part)));

function publicKey(kind, bytes) {
  return createPublicKey({ key: concat(Buffer.from(PUBLIC[kind], "hex"), bytes), format: "der", type: "spki" });
}

function check(what, key, signature, ...parts) {
  if (!verify(null, concat(...parts), publicKey("Ed25519", key), signature)) throw new Error(`${what}: wrong signature`);
}

function decrypted(secret, salt, info, nonce, about, text) {
  const key = Buffer.from(hkdfSync("sha256", secret, salt, info, 32));
  const decipher = createDecipheriv("aes-256-gcm", key, nonce, { authTagLength: TAG });
  decipher.setAAD(about);
  decipher.setAuthTag(text.subarray(-TAG));
  return concat(decipher.update(text.subarray(0, -TAG)), decipher.final());
}

/** The certificate of a proof, and the X25519 key of the life. */
function proved(proof, members) {
  const size = proof.readUInt16BE();
  const certificate = proof.subarray(2, 2 + size);
  const signature = proof.subarray(2 + size, 66 + size);
  const state = proof.subarray(66 + size, -64);
  check("certificate", members.authority, signature, "glue1 certificate\0", certificate);
  const document = JSON.parse(certificate);
  const own = Buffer.from(document.public, "hex");
  check("proof", own, proof.subarray(-64), "glue1 proof\0", members.salt, state, members.challenge);
  if (!state.subarray(32, 40).equals(members.incarnation)) throw new Error("another incarnation");
  return { document, own, exchange: state.subarray(0, 32) };
}

function opened(body, sender, members) {
  const kind = body[0] - 0x10;
  const head = body.subarray(0, 13);
  const from = concat(members.publisher, members.incarnation);
  let rest = body.subarray(13);
  if (kind & 1) {
    const signature = rest.subarray(0, 64);
    rest = rest.subarray(64);
    check("bundle", sender.own, signature, "glue1 bundle\0", from, head, rest);
  }
  if (!(kind & 2)) return rest;
  const id = rest.subarray(0, 8);
  const count = rest.readUInt16BE(8);
  if (count !== 1 || !rest.subarray(26, 34).equals(members.receiver)) throw new Error("no key for this receiver");
  const own = concat(Buffer.from(SECRET_X25519, "hex"), members["receiver secret"]);
  const privateKey = createPrivateKey({ key: own, format: "der", type: "pkcs8" });
  const secret = diffieHellman({ privateKey, publicKey: publicKey("X25519", sender.exchange) });
  const salts = concat(rest.subarray(10, 26), members["receiver salt"], id);
  const key = decrypted(secret, salts, "glue1 wrap AES-256-GCM", Buffer.alloc(12), Buffer.alloc(0), rest.subarray(34, 82));
  return decrypted(key, id, "glue1 topic AES-256-GCM", head.subarray(1), concat(from, head), rest.subarray(82));
}

const folder = process.argv[2];
const read = (name) => readFileSync(join(folder, name));
const texts = JSON.parse(read("members.json"));
const members = Object.fromEntries(Object.entries(texts).map(([name, hex]) => [name, Buffer.from(hex, "hex")]));
const sender = proved(read("kitchen.proof"), members);
const names = readdirSync(folder).filter((file) => file.endsWith(".bundle")).sort();
const bundles = names.map((name) => [name.slice(0, -7), opened(read(name), sender, members).toString("hex")]);
console.log(JSON.stringify({ name: sender.document.name, bundles: Object.fromEntries(bundles) }));
