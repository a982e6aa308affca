// A client of glue for Node.js, without packages: announces itself, subscribes and publishes, best effort and reliable.
//
//     import { Client } from "./glue.mjs";
//     const client = new Client({ name: "dashboard" });
//     client.subscribe("home/#", (message) => console.log(message.topic, message.payload.toString()));
//     await client.start();
//     client.publish("home/lamp", "on", { reliable: true });
//     await client.close();
//
// Written from docs/wire-format.md, after the client in C (extras/c), with the same limits where none is named.

import { createHash, randomInt } from "node:crypto";
import { createSocket } from "node:dgram";

const [DATAGRAM, HEADER, WINDOW, GIVE_UP_MS, MESSAGE] = [1472, 192, 1024, 10_000, 16 << 20];
const [PEERS, CHANNELS, PATTERN, OPERATIONS, REPLIES] = [1024, 256, 512, 1000, 16]; // the last: frames for a want
const [INTERESTS, STREAMS, MESSAGES, HELD] = [1000, 10_000, 16_384, 64 << 20]; // of a peer twice; of a bundle; bytes
const FIELDS = { data: 7, group: 7, best: 2, ack: 4, open: 1, skip: 2 }; // behind the kind of a transport entry
const weight = (body) => body.length + 100;
const KINDS = ["announce", "answer", "call", "probe"]; // with an announcement as their body
const token = () => randomInt(1, 2 ** 31);
const place = ({ address, port }) => `${address}:${port}`;

/** Whether a topic matches a pattern, with the wildcards of MQTT. */
export function matches(pattern, topic) {
  if (topic.startsWith("$") && /^[+#]/.test(pattern)) return false;
  const [levels, names] = [pattern.split("/"), topic.split("/")];
  for (const [index, level] of levels.entries()) {
    if (level === "#") return true;
    if (index >= names.length || (level !== "+" && level !== names[index])) return false;
  }
  return levels.length === names.length;
}

/** The JSON text before the first newline, parsed, and the bytes behind it. */
function split(bytes, limit = bytes.length) {
  const end = bytes.subarray(0, limit).indexOf(10);
  if (end < 0) throw new Error("no newline");
  return [JSON.parse(bytes.subarray(0, end).toString("utf8")), bytes.subarray(end + 1)];
}

const isCount = (value) => Number.isSafeInteger(value) && value >= 0;

/** What is known of a life of another endpoint. */
class Peer {
  constructor(id, life, from, channel) {
    Object.assign(this, { id, life, from, channel, name: "", token: token(), echo: 0, proven: false, credit: 1 });
    Object.assign(this, { heard: Date.now(), lease: 5000, probeAt: 0, epoch: 0, version: 0, announced: 0, base: 0 });
    Object.assign(this, { wantAt: 0, full: false, sequence: 0, acked: 0, limit: 128, seen: 0, stale: 0, ackedAt: 0 });
    this.candidate = null;
    this.interests = new Set();
    this.waiting = new Map(); // sequence: message that is not acknowledged
    this.channels = new Map(); // number: what came in
    this.best = new Set();
    this.streams = new Map(); // topic: the last number and the next position
  }
  wants = (topic) =>
    this.proven && (this.full || this.version < this.base || [...this.interests].some((pattern) => matches(pattern, topic)));
}

/** An endpoint. `peers` maps ids to what is known of them; `counts` has what happened to datagrams and messages. */
export class Client {
  constructor({ name, interface: host, group = "239.192.137.1", port = 37320, network = 1 }) {
    if (!name || Buffer.byteLength(name) > 255) throw new RangeError("a name has 1 to 255 bytes");
    Object.assign(this, { name, host, group: { address: group, port }, network, peers: new Map(), counts: {} });
    this.id = createHash("sha256").update(name).digest("hex").slice(0, 16);
    Object.assign(this, { life: Date.now() * 1024 + randomInt(1024), beacon: token(), counter: 0, channels: 0, best: 0 });
    Object.assign(this, { subscriptions: [], topics: new Map(), announceAt: 0, gap: 100, held: 0, closed: false });
  }

  /** Join the group; resolves once the first announcement has left. */
  async start() {
    const open = (options, port, address) =>
      new Promise((resolve, reject) => {
        const socket = createSocket(options);
        const fail = (error) => (socket.close(), reject(error));
        socket.once("error", fail).bind(port, address, () => resolve(socket.off("error", fail)));
      });
    this.unicast = await open({ type: "udp4" }, 0, this.host);
    try {
      this.multicast = await open({ type: "udp4", reuseAddr: true }, this.group.port, this.group.address);
      this.multicast.addMembership(this.group.address, this.host);
      if (this.host) this.unicast.setMulticastInterface(this.host);
    } catch (error) {
      for (const socket of [this.unicast, this.multicast]) socket?.close(); // else the process would not end
      this.unicast = this.multicast = undefined;
      throw error;
    }
    this.unicast.on("message", (bytes, from) => this.receive(bytes, from, false)).on("error", () => this.count("failed"));
    this.multicast.on("message", (bytes, from) => this.receive(bytes, from, true)).on("error", () => this.count("failed"));
    this.timer = setInterval(() => this.tend(Date.now()), 10);
    this.tend(Date.now());
  }

  /** Call a handler with each message of the topics that match a pattern. */
  subscribe(pattern, handler) {
    if (!pattern || Buffer.byteLength(JSON.stringify(pattern)) > PATTERN) throw new RangeError(`no pattern: ${pattern}`);
    this.subscriptions.push({ pattern, handler });
    Object.assign(this, { announceAt: 0, gap: 100 });
  }

  /** Publish bytes or text; with `json`, any value as JSON. Returns to how many peers. */
  publish(topic, value, { reliable = false, json = false } = {}) {
    const payload = Buffer.from(json ? JSON.stringify(value) : value);
    const numbers = this.topics.get(topic) ?? { sequence: 0, true: 0, false: 0 };
    const group = { topic, sequence: numbers.sequence + 1, at: Date.now() * 1000, length: payload.length };
    Object.assign(group, { position: numbers[reliable] + 1 }, json && { json: 1 });
    const body = Buffer.concat([Buffer.from(`${JSON.stringify({ groups: [group] })}\n`), payload]);
    if (!topic || /[+#\0]/.test(topic)) throw new RangeError(`no topic: ${topic}`);
    if (body.length > DATAGRAM - HEADER) throw new RangeError(`${payload.length} bytes do not fit a datagram`);
    this.topics.set(topic, { ...numbers, sequence: group.sequence, [reliable]: group.position });
    const peers = [...this.peers.values()].filter((peer) => peer.wants(topic));
    if (peers.length && this.unicast && !this.announceAt) this.announce(Date.now());
    if (!reliable && peers.length)
      this.send(peers.length > 1 ? this.group : peers[0].from, { transport: ["best", 0, this.best++] }, body);
    for (const peer of reliable ? peers : []) {
      peer.waiting.set(peer.sequence++, { body, since: Date.now(), sent: 0, attempt: 0 });
      this.flush(peer, Date.now());
    }
    return peers.length;
  }

  /** Wait until what was published is acknowledged or given up, say goodbye, and close the sockets. */
  async close() {
    while ([...this.peers.values()].some((peer) => peer.waiting.size)) await new Promise((done) => setTimeout(done, 10));
    clearInterval(this.timer);
    this.closed = true; // an answer after the goodbye would make this client known again
    for (const peer of [...this.peers.values(), ...this.peers.values()]) this.tell(peer, "goodbye");
    this.discover(this.group, this.beacon, 0, "goodbye");
    await new Promise((done) => setTimeout(done, 20));
    for (const socket of [this.unicast, this.multicast]) socket?.close();
  }

  count(what, by = 1) {
    this.counts[what] = (this.counts[what] ?? 0) + by;
  }

  // ------------------------------------------------------------------------------------------------ discovery

  send(to, header, body = Buffer.alloc(0)) {
    const glue = [1, this.network, this.id, this.life, this.counter++];
    this.unicast?.send([Buffer.from(`${JSON.stringify({ glue, ...header })}\n`), body], to.port, to.address);
  }

  discover(to, ownToken, echo, kind, { want = [null, null], called = [], part = null } = {}) {
    const operations = this.subscriptions.map(({ pattern }) => `+${pattern}`);
    const log = { version: this.subscriptions.length, previous: 0, base: 0 };
    while (KINDS.includes(kind) && JSON.stringify(operations).length > 380) operations.shift();
    let body = "";
    if (KINDS.includes(kind)) body = { name: this.name, interval_ms: 1000, epoch: 0, ...log, operations };
    if (kind === "operations") body = { epoch: 0, ...part };
    const entry = [ownToken, echo, ...want, ...called, kind];
    this.send(to, { discovery: entry }, Buffer.from(body && JSON.stringify(body)));
  }

  /** Send the operations from `first` on, in frames that fit a datagram. Who lacks more then asks again. */
  reply(peer, first) {
    for (let left = peer.proven ? REPLIES : 1, last = false; !last; left--) {
      const rest = this.subscriptions.slice(first).map(({ pattern }) => `+${pattern}`);
      let count = 1;
      while (count < rest.length && Buffer.byteLength(JSON.stringify(rest.slice(0, count + 1))) <= OPERATIONS) count++;
      last = left === 1 || count >= rest.length;
      const part = { first, last, operations: rest.slice(0, count) };
      this.discover(peer.from, peer.token, peer.echo, "operations", { part });
      first += count;
    }
  }

  tell(peer, kind) {
    if (!peer.proven && peer.credit-- <= 0) return void (peer.credit = 0);
    const want = kind === "want" && peer.version < peer.announced ? [peer.epoch, peer.version] : [null, null];
    this.discover(peer.from, peer.token, peer.echo, kind, { want, called: kind === "probe" ? [peer.id] : [] });
  }

  announce(now) {
    this.discover(this.group, this.beacon, 0, "announce");
    this.announceAt = now + this.gap;
    this.gap = this.gap < 200 ? this.gap * 2 : 1000;
  }

  receiveDiscovery(id, life, entry, bytes, from, isMulticast) {
    const [theirs, echo, epoch, version] = entry;
    const kind = entry.at(-1);
    if (entry.length < 5 || !isCount(theirs) || !isCount(echo)) throw new Error("malformed entry");
    const body = KINDS.includes(kind) || kind === "operations" ? JSON.parse(bytes.toString("utf8")) : null;
    let peer = this.peers.get(id);
    const isNew = !peer;
    if (isNew && !KINDS.includes(kind)) return;
    if (isNew && this.peers.size >= PEERS && !this.forgetStranger()) return this.count("too many peers");
    if (isNew) this.peers.set(id, (peer = new Peer(id, life, from, ++this.channels)));
    if (peer.life !== life || place(peer.from) !== place(from)) {
      const known = peer.candidate;
      if (!known || echo !== known.token || life !== known.life || place(from) !== place(known.from)) {
        if ((known && Date.now() < known.at + 50) || (peer.life === life && Date.now() < peer.heard + 1500)) return;
        peer.candidate = { token: token(), life, from, at: Date.now() };
        return this.discover(from, peer.candidate.token, theirs, "probe", { called: [id] });
      }
      if (peer.life !== life) this.forget(peer), this.peers.set(id, (peer = new Peer(id, life, from, ++this.channels)));
      Object.assign(peer, { from, token: echo, candidate: null });
    }
    Object.assign(peer, { heard: Date.now(), credit: Math.min(32, peer.credit + 1) });
    peer.proven ||= echo > 0 && (echo === peer.token || echo === this.beacon);
    const isNews = theirs > 0 && theirs !== peer.echo && !isMulticast;
    if (theirs && (!isMulticast || !peer.echo)) peer.echo = theirs;
    if (KINDS.includes(kind)) {
      peer.name = String(body.name);
      peer.lease = Math.min(60_000, 5 * Math.max(10, Number(body.interval_ms) || 1000));
    }
    if (body) this.follow(peer, body);
    if (kind === "goodbye") {
      if (echo === peer.token) this.forget(peer);
      else Object.assign(peer, { heard: Date.now() - 0.7 * peer.lease, probeAt: 0 });
    } else if (isCount(epoch) && isCount(version)) {
      if (epoch) this.tell(peer, "answer");
      else if (peer.credit-- > 0) this.reply(peer, version);
    } else if ((kind === "probe" && entry[4] === this.id) || kind === "call") this.tell(peer, "answer");
    else if (kind === "announce" && (isNew || entry.length > 5)) this.tell(peer, "answer");
    else if (kind === "announce" && !peer.proven) this.tell(peer, "probe");
    else if (isNews) this.tell(peer, "want");
  }

  /** Forget a life; what it has not acknowledged is given up. */
  forget(peer) {
    for (const channel of peer.channels.values()) this.held -= channel.bytes;
    if (peer.waiting.size) this.count("given up", peer.waiting.size);
    peer.waiting.clear(), this.peers.delete(peer.id);
  }

  /** Forget one who has proved nothing and was silent for a second. Returns whether there was one. */
  forgetStranger() {
    for (const peer of this.peers.values())
      if (!peer.proven && peer.heard + 999 < Date.now()) return this.forget(peer), true;
  }

  /** Apply the operations on a peer's interests. */
  follow(peer, { epoch, first, version = 0, base = first === undefined ? 0 : 1, operations }) {
    if (!isCount(epoch) || !Array.isArray(operations) || epoch < peer.epoch) return;
    if (epoch > peer.epoch) Object.assign(peer, { epoch, version: 0, announced: 0, base, full: false, interests: new Set() });
    let number = first ?? version - operations.length;
    for (const operation of operations) {
      if (number++ !== peer.version) continue;
      peer.version++;
      const isKept = peer.interests.size < INTERESTS && operation.length <= PATTERN;
      if (operation[0] === "+" && !isKept) peer.full = true; // it is sent everything
      else if (operation[0] === "+") peer.interests.add(operation.slice(1));
      else peer.interests.delete(operation.slice(1));
    }
    peer.announced = Math.max(peer.announced, version, number);
  }

  // -------------------------------------------------------------------------------------------------- sending

  flush(peer, now) {
    for (const [sequence, message] of peer.waiting) {
      if (!message.sent && sequence >= peer.limit && peer.waiting.keys().next().value !== sequence) break;
      if (message.held) continue;
      const wait = sequence < peer.seen ? 30 : Math.min(250, 40 << Math.min(message.attempt, 3));
      if (message.sent && now < message.sent + wait) continue;
      if (message.sent) message.attempt = Math.min(999, message.attempt + 1);
      message.sent = now;
      const age = Math.max(0, now - message.since);
      this.send(peer.from, { transport: ["data", message.attempt, age, 0, 0, 0, peer.channel, sequence] }, message.body);
    }
  }

  /** Go on with another channel: the receiver forgot this one, or a message on it was given up. What the receiver holds
   * behind a gap is sent again, as it comes up on no channel that ends before the gap is closed. */
  renewChannel(peer) {
    const messages = [...peer.waiting.values()].map((message) => ({ ...message, sent: 0, attempt: 0, held: false }));
    peer.waiting = new Map(messages.entries());
    Object.assign(peer, { channel: ++this.channels, sequence: messages.length, acked: 0, limit: 128, seen: 0, stale: 0 });
  }

  acknowledged(peer, channel, next, window, ranges) {
    if (channel !== peer.channel || next > peer.sequence) return;
    const isForgotten = () => Date.now() > peer.ackedAt + 500 && ++peer.stale >= 5; // else it was overtaken
    if (next < peer.acked) return void (isForgotten() && this.renewChannel(peer));
    Object.assign(peer, { acked: next, stale: 0, ackedAt: Date.now(), limit: Math.max(peer.limit, next + window) });
    const pairs = ranges.flatMap((start, at) => (at % 2 ? [] : [[next + start, next + ranges[at + 1]]]));
    for (const [sequence, message] of [...peer.waiting])
      if (sequence < next) peer.waiting.delete(sequence);
      else message.held ||= pairs.some(([start, stop]) => start <= sequence && sequence < stop);
    for (const [, stop] of pairs) peer.seen = Math.max(peer.seen, stop);
    this.flush(peer, Date.now());
  }

  // ------------------------------------------------------------------------------------------------ receiving

  receive(bytes, from, isMulticast) {
    if (this.closed) return;
    try {
      if (bytes.length > DATAGRAM) throw new Error("larger than a datagram of glue");
      const [header, body] = split(bytes, HEADER);
      const [version, network, sender, life] = header.glue;
      if (version !== 1 || network !== this.network) return this.count("other network");
      if (sender === this.id) return life === this.life ? undefined : this.count("name clash");
      if (typeof sender !== "string" || !isCount(life)) throw new Error("malformed glue");
      if (header.discovery) return this.receiveDiscovery(sender, life, header.discovery, body, from, isMulticast);
      const peer = this.peers.get(sender);
      if (!peer || peer.life !== life || place(peer.from) !== place(from)) return this.count("unknown sender");
      peer.heard = Date.now();
      if (header.transport) this.receiveTransport(peer, header, body);
    } catch {
      this.count("malformed");
    }
  }

  receiveTransport(peer, { transport, fragment }, body) {
    const [kind, ...n] = transport;
    const isFragment = Array.isArray(fragment) && fragment.length === 4 && fragment.every(isCount);
    if (n.length !== (FIELDS[kind] ?? n.length) || !n.every(isCount)) throw new Error("malformed entry");
    if (fragment !== undefined && !isFragment) throw new Error("malformed fragment");
    const open = (number) => {
      const channel = peer.channels.get(number) ?? { number, next: 0, held: new Map(), bytes: 0, parts: null };
      peer.channels.delete(number);
      peer.channels.set(number, channel); // the last: the longest unused makes place
      if (peer.channels.size > CHANNELS) this.forgetChannel(peer, peer.channels.values().next().value);
      return channel;
    };
    if (kind === "data" || (kind === "group" && peer.channels.has(n[5]))) {
      if (n[2]) this.acknowledged(peer, n[2], n[3], 4096, []);
      const [channel, sequence] = [open(n[5]), n[6]];
      channel.due = true;
      if (sequence < channel.next || channel.held.has(sequence)) this.count("duplicate");
      else if (sequence >= channel.next + WINDOW) this.count("beyond window");
      else {
        channel.held.set(sequence, { fragment, body: Buffer.from(body), at: Date.now() - n[1] });
        this.hold(channel, weight(body));
        if (this.held > HELD) this.makeRoom(channel);
      }
      this.release(peer, channel);
    } else if (kind === "best") {
      if (peer.best.has(n[1])) return this.count("duplicate");
      peer.best.add(n[1]);
      if (peer.best.size > 4096) peer.best.delete(peer.best.values().next().value);
      if (fragment) this.count("fragments ignored");
      else this.handUp(peer, body, n[0], false);
    } else if (kind === "ack") this.acknowledged(peer, n[2], n[3], n[1], JSON.parse(body.toString("utf8")));
    else if (kind === "open" && JSON.parse(body.toString("utf8")).includes(this.id)) open(n[0]).due = true;
    else if (kind === "skip" && peer.channels.has(n[0])) {
      const channel = open(n[0]);
      for (const [sequence, { body: passed }] of [...channel.held])
        if (sequence < n[1]) channel.held.delete(sequence), this.hold(channel, -weight(passed));
      if (n[1] > channel.next) this.dropParts(channel); // the rest of this message will not come
      Object.assign(channel, { next: Math.max(channel.next, n[1]), due: true });
      this.release(peer, channel);
    }
    for (const channel of peer.channels.values()) if (channel.due) this.acknowledge(peer, channel);
  }

  /** Count bytes of frames and fragments that wait. */
  hold(channel, bytes) {
    channel.bytes += bytes;
    this.held += bytes;
  }

  /** Forget the channels that hold the most, but for one: their senders see it, and send again on new channels. */
  makeRoom(kept) {
    const all = [...this.peers.values()].flatMap((peer) => [...peer.channels.values()].map((channel) => [peer, channel]));
    for (const [peer, channel] of all.sort(([, a], [, b]) => b.bytes - a.bytes)) {
      if (this.held <= HELD / 2) return;
      if (channel !== kept) this.forgetChannel(peer, channel);
    }
  }

  forgetChannel(peer, channel) {
    if (channel.bytes) this.count("channels forgotten");
    peer.channels.delete(channel.number);
    this.held -= channel.bytes;
  }

  dropParts(channel) {
    this.hold(channel, -(channel.parts?.weight ?? 0));
    channel.parts = null;
  }

  /** Hand up the frames that are in order. */
  release(peer, channel) {
    for (let frame; (frame = channel.held.get(channel.next)); ) {
      channel.held.delete(channel.next++);
      this.hold(channel, -weight(frame.body));
      const body = frame.fragment ? this.join(channel, frame) : frame.body;
      if (!body) continue;
      try {
        this.handUp(peer, body, Date.now() - frame.at, true);
      } catch {
        this.count("malformed"); // the frames behind it come up all the same
      }
    }
  }

  /** Put a fragment to those before it; returns the message once it is whole. */
  join(channel, { fragment: [message, , total, index], body }) {
    if (!index) {
      this.dropParts(channel);
      channel.parts = { message, bodies: [], size: 0, weight: 0 };
    }
    const { parts } = channel;
    if (parts?.message !== message || !body.length || total > MESSAGE) {
      this.dropParts(channel);
      return void this.count("fragments ignored");
    }
    parts.bodies.push(body);
    parts.size += body.length;
    parts.weight += weight(body);
    this.hold(channel, weight(body));
    if (parts.size < total) return;
    this.dropParts(channel);
    return Buffer.concat(parts.bodies);
  }

  acknowledge(peer, channel) {
    const ranges = [];
    for (const sequence of [...channel.held.keys()].sort((a, b) => a - b).map((each) => each - channel.next)) {
      if (ranges.at(-1) === sequence) ranges[ranges.length - 1]++;
      else if (ranges.length < 200) ranges.push(sequence, sequence + 1);
    }
    channel.due = false;
    this.send(peer.from, { transport: ["ack", 0, WINDOW, channel.number, channel.next] }, Buffer.from(JSON.stringify(ranges)));
  }

  handUp(peer, bundle, age, reliable) {
    const [{ groups }, payloads] = split(bundle);
    const counts = groups.map((group) => group.lengths?.length ?? group.count ?? 1);
    if (!counts.every(isCount) || counts.reduce((sum, count) => sum + count, 0) > MESSAGES) throw new Error("too many messages");
    const sizes = groups.map((group, index) => group.lengths ?? Array(counts[index]).fill(group.length));
    const isWhole = ({ topic, sequence, position = sequence }) =>
      typeof topic === "string" && [sequence, position].every(isCount);
    if (!groups.every(isWhole) || !sizes.flat().every(isCount)) throw new Error("malformed group");
    if (sizes.flat().reduce((sum, size) => sum + size, 0) !== payloads.length) throw new Error("lengths do not add up");
    let at = 0;
    for (const [index, group] of groups.entries())
      for (const [offset, size] of sizes[index].entries()) {
        const payload = payloads.subarray(at, (at += size));
        const [sequence, position] = [group.sequence + offset, (group.position ?? group.sequence) + offset];
        const message = { topic: group.topic, payload, publisher: peer.name, sequence, missed: 0, reliable };
        Object.assign(message, { retained: group.retain === 2, codec: group.codec ?? 0, json: group.json === 1 });
        const handlers = this.subscriptions.filter(({ pattern }) => matches(pattern, group.topic));
        if (!handlers.length || age > (group.lifespan ?? Infinity)) continue;
        if (reliable) {
          const key = group.topic.length > 64 ? createHash("sha1").update(group.topic).digest("base64") : group.topic;
          const stream = peer.streams.get(key) ?? { last: 0, next: 0 };
          if (sequence <= stream.last && !group.unordered) continue;
          if (!message.retained && !group.unordered) {
            message.missed = stream.next ? Math.max(0, position - stream.next) : 0;
            stream.next = position + 1;
          }
          peer.streams.delete(key); // the last: the longest unused makes place
          peer.streams.set(key, { ...stream, last: Math.max(stream.last, sequence) });
          if (peer.streams.size > STREAMS) peer.streams.delete(peer.streams.keys().next().value);
        }
        for (const { handler } of handlers) queueMicrotask(() => handler(message)); // its errors are not ours
      }
  }

  tend(now) {
    if (now >= this.announceAt) this.announce(now);
    for (const peer of this.peers.values()) {
      const silence = now - peer.heard;
      if (silence >= peer.lease) this.forget(peer);
      else if (silence >= 0.7 * peer.lease && now >= peer.probeAt) {
        peer.probeAt = now + peer.lease / 50;
        this.tell(peer, "probe");
      }
      if (peer.version < peer.announced && now >= peer.wantAt) {
        peer.wantAt = now + 100;
        this.tell(peer, "want");
      }
      const given = [...peer.waiting].filter(([, message]) => now >= message.since + GIVE_UP_MS);
      for (const [sequence] of given) peer.waiting.delete(sequence);
      if (given.length) this.count("given up", given.length), this.renewChannel(peer);
      this.flush(peer, now);
    }
  }
}
