/* See glue.h. The parts: network, reading JSON, writing datagrams, discovery, sending, receiving, and the turn. */
#define _DEFAULT_SOURCE /* struct ip_mreq and clock_gettime beside -std=c99 */
#include "glue.h"
#include <arpa/inet.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>
#define DROP(why) do { g->counts[GLUE_##why]++; return; } while (0)
#define EACH(kind, at, list) for (struct kind *at = (list); at < (list) + sizeof(list) / sizeof *(list); at++)
#define BIT(i) ((uint32_t)1 << (i))
#define NONE UINT64_MAX /* no number */
#define NAME(WHAT) #WHAT,
const char *const glue_counters[GLUE_COUNTERS] = {GLUE_COUNT(NAME)};

/* ---- network and clock: all that a port to another system changes --------------------------------------------- */
static uint64_t clock_us(clockid_t clock) {
    struct timespec time;
    return clock_gettime(clock, &time), (uint64_t)time.tv_sec * 1000000 + (uint64_t)time.tv_nsec / 1000;
}
static uint64_t milliseconds(void) { return clock_us(CLOCK_MONOTONIC) / 1000; }
static int open_socket(uint32_t host, uint16_t port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = host};
    int opened = socket(AF_INET, SOCK_DGRAM, 0), on = 1;
    if (opened >= 0 && port) setsockopt(opened, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    return opened < 0 || !bind(opened, (struct sockaddr *)&address, sizeof address) ? opened : (close(opened), -1);
}
static int open_network(struct glue *g) { /* multicast has a TTL of 1 and comes back, if nothing else is set */
    const struct glue_config *c = &g->config;
    struct ip_mreq join = {.imr_interface.s_addr = c->interface ? inet_addr(c->interface) : htonl(INADDR_ANY)};
    g->group.host = join.imr_multiaddr.s_addr = inet_addr(c->group ? c->group : "239.192.137.1");
    g->group.port = htons(c->port ? c->port : 37320);
    g->unicast = open_socket(join.imr_interface.s_addr, 0);
    g->multicast = open_socket(g->group.host, g->group.port); /* lwIP: bind to INADDR_ANY */
    return g->unicast >= 0 && g->multicast >= 0 &&
           !setsockopt(g->multicast, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof join) &&
           !setsockopt(g->unicast, IPPROTO_IP, IP_MULTICAST_IF, &join.imr_interface, sizeof join.imr_interface);
}
static void close_network(struct glue *g) {
    close(g->unicast), close(g->multicast); /* of -1, nothing */
    g->unicast = g->multicast = -1;
}
static void send_datagram(struct glue *g, struct glue_address to) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = to.port, .sin_addr.s_addr = to.host};
    ssize_t sent = sendto(g->unicast, g->out, g->used, 0, (struct sockaddr *)&address, sizeof address);
    g->counts[sent == (ssize_t)g->used ? GLUE_SENT : GLUE_SEND_FAILED]++;
}
static int receive_from(struct glue *g, int from, int is_multicast) { /* 0: nothing is there */
    struct sockaddr_in address;
    socklen_t size = sizeof address;
    ssize_t got = recvfrom(from, g->in, sizeof g->in, MSG_DONTWAIT, (struct sockaddr *)&address, &size);
    struct glue_address source = {address.sin_addr.s_addr, address.sin_port};
    if (got >= 0) glue_receive(g, g->in, (size_t)got, source, is_multicast);
    return got >= 0;
}
static void wait_network(struct glue *g, int wait_ms) {
    struct pollfd sockets[2] = {{.fd = g->unicast, .events = POLLIN}, {.fd = g->multicast, .events = POLLIN}};
    poll(sockets, 2, wait_ms);
}

/* ---- reading JSON in place: a span is a piece of text, a value one that was taken whole ------------------------ */
struct span { const char *at, *end; };
static int is_one_of(char c, const char *set) { return c && strchr(set, c); }
/* Take the next value of a list, or the next key or value of an object, without looking into it; 0 at the end. */
static int next(struct span *s, struct span *value) {
    int depth = 0, is_quoted = 0;
    while (s->at < s->end && is_one_of(*s->at, " \t\r\n,:")) s->at++;
    for (value->at = s->at; s->at < s->end; s->at++) {
        if (is_quoted && *s->at == '\\') s->at += s->at + 1 < s->end;
        else if (*s->at == '"') is_quoted = !is_quoted;
        else if (is_quoted) continue;
        else if (is_one_of(*s->at, "[{")) depth++;
        else if (is_one_of(*s->at, "]}")) depth--;
        else if (!depth && is_one_of(*s->at, " \t\r\n,:")) break;
    }
    value->end = s->at;
    return value->at < value->end && !depth && !is_quoted;
}
static int enter(struct span value, char bracket, struct span *inside) { /* go into a list or an object, if it is one */
    *inside = (struct span){value.at + 1, value.end - 1};
    return value.end - value.at >= 2 && *value.at == bracket;
}
static int is_text(struct span v, const char *text) {
    return v.end - v.at == (ptrdiff_t)strlen(text) + 2 && *v.at == '"' && !memcmp(v.at + 1, text, strlen(text));
}
static int find(struct span object, const char *name, struct span *value) {
    for (struct span key; next(&object, &key) && next(&object, value);) if (is_text(key, name)) return 1;
    return 0;
}
static uint64_t number(struct span v) {
    uint64_t n = 0;
    if (v.end == v.at || v.end - v.at > 16) return NONE;
    for (; v.at < v.end && *v.at >= '0' && *v.at <= '9'; v.at++) n = n * 10 + (uint64_t)(*v.at - '0');
    return v.at == v.end && n < (uint64_t)1 << 53 ? n : NONE;
}
static uint64_t find_number(struct span object, const char *name, uint64_t otherwise) {
    struct span v;
    uint64_t found = find(object, name, &v) ? number(v) : NONE;
    return found == NONE ? otherwise : found;
}
/* An entry of a header: a list of up to 8 values, and those that are numbers; without values if there is none. */
struct entry { int fields; struct span part[8]; uint64_t n[8]; };
static struct entry find_entry(struct span object, const char *name) {
    struct entry e = {0};
    struct span list, value;
    if (!find(object, name, &list) || !enter(list, '[', &list)) return e;
    for (; next(&list, &value); e.n[e.fields++] = number(value))
        if (e.fields == 8) return (struct entry){0}; else e.part[e.fields] = value;
    return e;
}
static int text(struct span v, char *out, size_t room) { /* 0: no string, too long, or with an escape but \" \\ \/ */
    size_t used = 0;
    if (v.end - v.at < 3 || *v.at != '"') return 0;
    for (v.at++, v.end--; v.at < v.end; out[used++] = *v.at++)
        if (used + 1 == room || !*v.at || (*v.at == '\\' && !is_one_of(*++v.at, "\"\\/"))) return 0;
    return out[used] = 0, 1;
}

/* ---- topics --------------------------------------------------------------------------------------------------- */
static int matches(const char *pattern, const char *topic) {
    if (*topic == '$' && is_one_of(*pattern, "+#")) return 0;
    for (;; pattern++, topic++) {
        if (*pattern == '#') return 1;
        if (*pattern == '+') for (pattern++; *topic && *topic != '/';) topic++;
        else for (; *pattern && *pattern != '/' && *pattern == *topic; pattern++) topic++;
        if (*pattern != '/' || *topic != '/') return !*topic && (!*pattern || !strcmp(pattern, "/#"));
    }
}
static int is_valid(const char *name, int is_pattern) {
    for (const char *c = name; *c; c++) {
        int alone = is_pattern && (c == name || c[-1] == '/') && (!c[1] || (c[1] == '/' && *c == '+'));
        if ((unsigned char)*c < ' ' || is_one_of(*c, "\"\\") || (is_one_of(*c, "+#") && !alone)) return 0;
    }
    return *name && strlen(name) < GLUE_TEXT;
}
static uint64_t hashed(const char *name, uint64_t hash) { /* FNV-1a */
    for (; *name; name++) hash = (hash ^ (unsigned char)*name) * 0x100000001b3;
    return hash;
}

/* ---- writing datagrams into the one buffer; past its end, `used` alone grows ------------------------------------ */
static void put_bytes(struct glue *g, const void *bytes, size_t size) {
    if (g->used <= sizeof g->out && size <= sizeof g->out - g->used && size) memcpy(g->out + g->used, bytes, size);
    g->used += size;
}
static void put(struct glue *g, const char *form, ...) { /* # stands for a uint64_t, $ for a text */
    va_list values;
    for (va_start(values, form); *form; form++) {
        char digits[21] = "", *at = digits + 20;
        uint64_t n = *form == '#' ? va_arg(values, uint64_t) : 0;
        if (*form == '#') do *--at = (char)('0' + n % 10); while (n /= 10);
        const char *words = *form == '#' ? at : *form == '$' ? va_arg(values, const char *) : form;
        put_bytes(g, words, words == form ? 1 : strlen(words));
    }
    va_end(values);
}
static void begin(struct glue *g, const char *layer) {
    uint64_t network = g->config.network;
    g->used = 0, put(g, "{\"glue\":[1,#,\"$\",#,#],\"$\":[", network, g->id, g->life, g->counter++, layer);
}
static uint64_t draw(struct glue *g) { /* xorshift64*; never 0 */
    g->random ^= g->random >> 12, g->random ^= g->random << 25, g->random ^= g->random >> 27;
    return (g->random * 0x2545f4914f6cdd1d >> 33) + 1;
}

/* ---- discovery ------------------------------------------------------------------------------------------------ */
/* Send to a peer, or to all (p is NULL). Announcements, answers and probes tell all patterns. */
static void discover(struct glue *g, const struct glue_peer *p, struct glue_address to, uint64_t token, uint64_t echo,
                     const char *kind) {
    int is_wanting = *kind == 'w' && p->version < p->announced;
    begin(g, "discovery"), put(g, is_wanting ? "#,#,#,#," : "#,#,null,null,", token, echo, is_wanting ? p->epoch : 0,
                               is_wanting ? p->version : 0);
    put(g, *kind == 'p' ? "\"$\",\"$\"]}\n" : "$\"$\"]}\n", *kind == 'p' ? p->id : "", kind);
    if (is_one_of(*kind, "ap")) {
        put(g, "{\"name\":\"$\",\"interval_ms\":1000,\"epoch\":0,\"version\":#,", g->config.name,
            (uint64_t)g->subscriptions);
        put(g, "\"previous\":0,\"base\":0,\"operations\":[");
        for (int i = 0; i < g->subscriptions; i++) put(g, i ? ",\"+$\"" : "\"+$\"", g->patterns[i]);
        put(g, "]}");
    }
    send_datagram(g, to);
}
/* Tell one peer; until it has proved its address, it gets no more datagrams than came from there. */
static void tell(struct glue *g, struct glue_peer *p, const char *kind) {
    if (p->is_proven || p->credit > 0) discover(g, p, p->address, p->token, p->echo, kind);
    if (p->credit > 0) p->credit--;
}
static void announce(struct glue *g) { /* at 0, 0.1 and 0.3 s, then each second */
    discover(g, NULL, g->group, g->beacon, 0, "announce");
    g->announced_at = g->now, g->announce_at = g->now + g->announce_gap;
    g->announce_gap = g->announce_gap < 200 ? g->announce_gap * 2 : 1000;
}
static void drop_channel(struct glue *g, struct glue_channel *c) {
    EACH(glue_held, h, g->held) if (h->channel == c) h->channel = NULL;
    if (g->assembly.channel == c) g->assembly.channel = NULL;
    *c = (struct glue_channel){.peer = -1};
}
/* Forget a life: its frames, and what waits for its acknowledgement. It is unused then; its id stays. */
static void reset_peer(struct glue *g, struct glue_peer *p) {
    EACH(glue_channel, c, g->received) if (c->peer == p - g->peers) drop_channel(g, c);
    uint32_t own = BIT(p - g->peers);
    EACH(glue_outgoing, m, g->outbox) if (m->receivers & own) m->receivers -= own, g->counts[GLUE_GIVEN_UP]++;
    memset((char *)p + sizeof p->id, 0, sizeof *p - sizeof p->id);
    p->heard = g->now, p->token = draw(g), p->channel = ++g->channels, p->limit = GLUE_WINDOW, p->lease = 5000;
}
static void change_interest(struct glue_peer *p, struct span operation) {
    char read[GLUE_TEXT + 1], *pattern = read + 1, *free = NULL, *known = NULL;
    if (!text(operation, read, sizeof read)) { p->is_full = 1; return; }
    if (!strncmp(pattern, "$glue/", 6)) return; /* nothing is published there by this client */
    for (int i = 0; i < GLUE_INTERESTS; i++) {
        if (!*p->interests[i]) free = p->interests[i];
        else if (!strcmp(p->interests[i], pattern)) known = p->interests[i];
    }
    if (*read == '-' && known) *known = 0;
    else if (*read == '+' && !known && free) strcpy(free, pattern);
    else if (*read == '+' && !known) p->is_full = 1;
}
/* Apply the operations of an announcement, or of an `operations` frame, which has `first`. */
static void follow(struct glue_peer *p, struct span object) {
    struct span list, each;
    uint64_t epoch = find_number(object, "epoch", 0), version = find_number(object, "version", 0), count = 0;
    if (epoch < p->epoch || !find(object, "operations", &list) || !enter(list, '[', &list)) return;
    for (struct span rest = list; next(&rest, &each);) count++;
    uint64_t first = find_number(object, "first", version >= count ? version - count : 0);
    if (epoch > p->epoch) { /* until its base is there, the peer is sent everything */
        memset(p->interests, 0, sizeof p->interests);
        p->epoch = epoch, p->version = p->announced = p->is_full = 0, p->base = find_number(object, "base", 1);
    }
    for (; next(&list, &each); first++) if (first == p->version) p->version++, change_interest(p, each);
    p->announced = version > p->announced ? version : first > p->announced ? first : p->announced;
}
static struct glue_peer *find_peer(struct glue *g, const char *id) {
    EACH(glue_peer, p, g->peers) if (p->is_used && !strcmp(p->id, id)) return p;
    return NULL;
}
static int is_same(struct glue_address a, struct glue_address b) { return a.host == b.host && a.port == b.port; }
/* `body`: what is in the object behind the header; empty if there is none. */
static void receive_discovery(struct glue *g, const char *id, uint64_t life, struct entry *e, struct span body,
                              struct glue_address from, int is_multicast) {
    struct glue_peer *p = find_peer(g, id);
    struct span kind = e->part[e->fields - 1], name;
    uint64_t token = e->n[0], echo = e->n[1], epoch = e->n[2], version = e->n[3];
    int is_announce = is_text(kind, "announce"), is_probe = is_text(kind, "probe"), is_call = is_text(kind, "call");
    int speaks = is_announce || is_probe || is_call || is_text(kind, "answer"), is_new = !p;
    if (token == NONE || echo == NONE || (speaks && !body.at)) DROP(MALFORMED);
    if (is_new && !speaks) return;
    if (is_new) EACH(glue_peer, q, g->peers) if (!q->is_used || (!p && !q->is_proven && q->heard + 999 < g->now)) p = q;
    if (!p) DROP(TOO_MANY_PEERS);
    if (is_new) strcpy(p->id, id), reset_peer(g, p), p->is_used = 1, p->life = life, p->address = from;
    if (life != p->life || !is_same(from, p->address)) { /* a restart, a move, or a forgery: it has to return a token */
        if (!echo || echo != p->new_token || life != p->new_life || !is_same(from, p->new_address)) {
            if (g->now < p->new_at || (life == p->life && g->now < p->heard + 1500)) return;
            p->new_token = draw(g), p->new_life = life, p->new_address = from, p->new_at = g->now + 50;
            return discover(g, p, from, p->new_token, token, "probe");
        }
        if (life != p->life) reset_peer(g, p);
        p->is_used = 1, p->life = life, p->address = from, p->token = echo;
    }
    p->heard = g->now, p->credit += p->credit < 32;
    if (echo && (echo == p->token || echo == g->beacon)) p->is_proven = 1;
    int is_news = token && token != p->echo && !is_multicast;
    if (token && (!is_multicast || !p->echo)) p->echo = token;
    if (speaks) {
        uint64_t interval = find_number(body, "interval_ms", 1000);
        p->lease = interval < 10 ? 50 : interval > 12000 ? 60000 : 5 * interval;
        if (find(body, "name", &name)) text(name, p->name, sizeof p->name);
    }
    if (body.at && (speaks || is_text(kind, "operations"))) follow(p, body);
    if (is_text(kind, "goodbye")) {
        if (echo == p->token) reset_peer(g, p);
        else p->heard = g->now - p->lease * 7 / 10, p->probe_at = g->now;
    } else if ((epoch != NONE && version != NONE) || (is_probe && is_text(e->part[4], g->id)) || is_call ||
               (is_announce && (is_new || e->fields > 5))) tell(g, p, "answer");
    else if (is_announce && !p->is_proven) tell(g, p, "probe");
    else if (is_news) tell(g, p, "want");
}

/* ---- sending: best effort by one datagram to all, reliable on one channel to each peer ------------------------- */
static int is_interested(const struct glue_peer *p, const char *topic) {
    int found = p->is_full || p->version < p->base;
    for (int i = 0; i < GLUE_INTERESTS && !found; i++) found = *p->interests[i] && matches(p->interests[i], topic);
    return found && p->is_used && p->is_proven;
}
static struct glue_outgoing *waiting(struct glue *g, int k) { return &g->outbox[(g->first + k) % GLUE_OUTBOX]; }
/* Send what is new and fits the window, and again what is lost: behind an acknowledged frame, or without an answer. */
static void flush(struct glue *g, int i) {
    struct glue_peer *p = &g->peers[i];
    for (int k = 0, is_first = 1; k < g->pending; k++) {
        struct glue_outgoing *m = waiting(g, k);
        uint64_t wait = m->sequence[i] < p->seen ? 30 : m->attempt[i] < 3 ? (uint64_t)40 << m->attempt[i] : 250;
        int is_due = m->sent[i] ? g->now >= m->sent[i] + wait : is_first || m->sequence[i] < p->limit;
        if (!(m->receivers & BIT(i))) continue;
        is_first = 0;
        if (!is_due || m->held & BIT(i)) continue;
        if (m->sent[i]) g->counts[GLUE_RESENT]++, m->attempt[i] += m->attempt[i] < 999;
        m->sent[i] = g->now, begin(g, "transport");
        put(g, "\"data\",#,#,0,0,0,#,#]}\n", m->attempt[i], g->now - m->since, p->channel, m->sequence[i]);
        put_bytes(g, m->body, m->size), send_datagram(g, p->address);
    }
}
/* Go on with another channel: the receiver forgot this one, or a message on it was given up. What the receiver holds
 * behind a gap is sent again, as it comes up on no channel that ends before the gap is closed. */
static void renew_channel(struct glue *g, int i) {
    struct glue_peer *p = &g->peers[i];
    p->channel = ++g->channels, p->sequence = p->acked = p->seen = 0, p->limit = GLUE_WINDOW, p->stale = 0;
    for (int k = 0; k < g->pending; k++) {
        struct glue_outgoing *m = waiting(g, k);
        m->held &= ~BIT(i), m->sent[i] = m->attempt[i] = 0, m->sequence[i] = p->sequence;
        p->sequence += m->receivers >> i & 1;
    }
}
static void acknowledged(struct glue *g, int i, uint64_t channel, uint64_t upto, uint64_t window, struct span ranges) {
    struct glue_peer *p = &g->peers[i];
    struct span start, stop;
    uint64_t from = 0, to = 0;
    if (channel != p->channel || upto > p->sequence) return;
    if (upto < p->acked) { /* the receiver began anew, unless this was overtaken */
        if (g->now > p->acked_at + 500 && ++p->stale >= 5) renew_channel(g, i);
        return;
    }
    p->acked = upto, p->stale = 0, p->acked_at = g->now, p->limit = upto + window > p->limit ? upto + window : p->limit;
    do {
        for (int k = 0; k < g->pending; k++) {
            struct glue_outgoing *m = waiting(g, k);
            if (m->sequence[i] < upto) m->receivers &= ~BIT(i);
            else if (m->sequence[i] >= upto + from && m->sequence[i] < upto + to) m->held |= BIT(i);
        }
        if (to && upto + to > p->seen) p->seen = upto + to;
        from = next(&ranges, &start) ? number(start) : NONE, to = next(&ranges, &stop) ? number(stop) : NONE;
    } while (from != NONE && to != NONE);
    flush(g, i);
}
int glue_publish(struct glue *g, const char *topic, const void *payload, size_t size, int flags) {
    uint64_t hash = hashed(topic, 0xcbf29ce484222325);
    int k = 0, count = 0, last = 0, is_reliable = flags & GLUE_RELIABLE;
    uint32_t receivers = 0;
    if (!is_valid(topic, 0)) return GLUE_INVALID;
    for (int i = 0; i < GLUE_PEERS; i++) if (is_interested(&g->peers[i], topic)) count++, last = i, receivers |= BIT(i);
    while (k < g->topics && g->published[k].hash != hash) k++;
    if (k == GLUE_TOPICS) return GLUE_TOO_MANY;
    if (is_reliable && g->pending == GLUE_OUTBOX) return GLUE_FULL;
    if (count && g->announce_gap == 100) announce(g); /* interests that answers need */
    begin(g, "transport"), put(g, "\"best\",0,#]}\n", g->best);
    size_t start = g->used;
    put(g, "{\"groups\":[{\"topic\":\"$\",\"sequence\":#,\"at\":#,\"length\":#,\"position\":#$}]}\n", topic,
        g->published[k].sequence + 1, clock_us(CLOCK_REALTIME), (uint64_t)size, g->published[k].counts[is_reliable] + 1,
        flags & GLUE_JSON ? ",\"json\":1" : ""), put_bytes(g, payload, size);
    if (is_reliable || !count || g->used - start > GLUE_BODY) g->counter--; /* this datagram does not leave */
    if (g->used - start > GLUE_BODY) return GLUE_TOO_LONG;
    if (k == g->topics) g->topics++;
    g->published[k].hash = hash, g->published[k].sequence++, g->published[k].counts[is_reliable]++;
    if (!is_reliable && count) g->best++, send_datagram(g, count == 1 ? g->peers[last].address : g->group);
    if (!is_reliable || !count) return count;
    struct glue_outgoing *m = waiting(g, g->pending++);
    *m = (struct glue_outgoing){.receivers = receivers, .since = g->now = milliseconds(), .size = g->used - start};
    memcpy(m->body, g->out + start, m->size);
    for (int i = 0; i < GLUE_PEERS; i++) if (receivers & BIT(i)) m->sequence[i] = g->peers[i].sequence++, flush(g, i);
    return count;
}

/* ---- receiving ------------------------------------------------------------------------------------------------ */
/* Hand one message of a group up, unless it is late or nobody subscribed. */
static void hand_up(struct glue *g, struct glue_peer *p, struct glue_message *m, uint64_t position, int is_unordered) {
    uint64_t hash = hashed(m->topic, hashed(p->id, 0xcbf29ce484222325 ^ p->life));
    struct glue_stream *stream = g->streams;
    int is_wanted = 0;
    for (int i = 0; i < g->subscriptions; i++) is_wanted |= matches(g->patterns[i], m->topic);
    if (!is_wanted) DROP(UNWANTED);
    if (m->reliable) {
        EACH(glue_stream, s, g->streams)
            if (s->hash == hash || (stream->hash != hash && s->used < stream->used)) stream = s;
        if (stream->hash != hash) *stream = (struct glue_stream){.hash = hash};
        if (m->sequence <= stream->sequence && !is_unordered) DROP(DUPLICATE);
        stream->used = g->now + 1;
        if (m->sequence > stream->sequence) stream->sequence = m->sequence;
        if (!m->retained && !is_unordered) {
            m->missed = stream->position && position > stream->position ? position - stream->position : 0;
            stream->position = position + 1, g->counts[GLUE_MISSED] += (uint32_t)m->missed;
        }
    }
    g->counts[GLUE_DELIVERED]++;
    g->config.on_message(g->config.user, m);
}
/* Hand up the messages of a bundle of `total` bytes that are whole; the first `done` were handed up before, their bytes
 * are gone. Returns how many bytes of payloads were used, or -1: there is no index yet. */
static long take_bundle(struct glue *g, struct glue_peer *p, const uint8_t *data, size_t size, uint64_t total,
                        uint64_t *done, uint64_t age, int is_reliable) {
    const uint8_t *line = memchr(data, '\n', size), *at = line ? line + 1 : data;
    uint64_t left = total - (uint64_t)(at - data), n = 0; /* bytes of payloads, messages */
    struct span object, list, group, each;
    char topic[GLUE_TEXT];
    if (!line) return g->counts[GLUE_MALFORMED] += size == total, -1;
    if (!enter((struct span){(const char *)data, (const char *)line}, '{', &object) || !find(object, "groups", &list) ||
        !enter(list, '[', &list)) left = 1;
    else while (next(&list, &group) && enter(group, '{', &group)) {
        struct span lengths = {NULL, NULL};
        struct glue_message m = {.topic = topic, .publisher = p->name, .reliable = is_reliable};
        int has_topic = find(group, "topic", &each) && text(each, topic, sizeof topic);
        int is_unordered = find_number(group, "unordered", 0) == 1;
        uint64_t count = find_number(group, "count", 1), length = find_number(group, "length", NONE);
        uint64_t sequence = find_number(group, "sequence", 0), position = find_number(group, "position", sequence);
        m.json = find_number(group, "json", 0) == 1, m.retained = find_number(group, "retain", 0) == 2;
        if (find(group, "codec", &each)) m.codec = number(each) < 65536 ? (int)number(each) : -1;
        if (find(group, "lengths", &each) && enter(each, '[', &lengths)) count = 16384;
        for (uint64_t k = 0; k < count && (!lengths.at || next(&lengths, &each)); k++) {
            if (lengths.at) length = number(each);
            if (length > left || !sequence || n == 16384) return g->counts[GLUE_MALFORMED]++, 0;
            left -= length;
            if (n++ < *done) continue;
            if (length > (size_t)(data + size - at)) return (long)(at - line - 1);
            m.payload = at, m.size = length, m.sequence = sequence + k, m.missed = 0, at += length, ++*done;
            if (!has_topic) g->counts[GLUE_TOO_LARGE]++;
            else if (age > find_number(group, "lifespan", UINT64_MAX)) g->counts[GLUE_EXPIRED]++;
            else hand_up(g, p, &m, position + k, is_unordered);
        }
    }
    g->counts[GLUE_MALFORMED] += left > 0;
    return (long)(at - line - 1);
}
/* Hand up the next frame of a channel. 0: not yet, another channel has the memory for fragments. */
static int take_frame(struct glue *g, struct glue_channel *c, struct glue_held *f) {
    struct glue_peer *p = &g->peers[c->peer];
    struct glue_assembly *a = &g->assembly;
    uint64_t total = f->fragment[2], done = 0; /* its numbers: message, size, total, index */
    if (!total) return take_bundle(g, p, f->data, f->size, f->size, &done, g->now - f->at, 1), 1;
    if (!f->fragment[3]) { /* the first of a message */
        if (a->channel && a->channel != c && g->now < a->at + 10000) return 0;
        a->channel = c, a->used = a->received = a->done = 0, memcpy(a->next, f->fragment, sizeof a->next);
    }
    if (a->channel != c || memcmp(f->fragment, a->next, sizeof a->next) || !f->size || f->size > total - a->received)
        return g->counts[GLUE_FRAGMENTS_IGNORED]++, 1;
    if (f->size > GLUE_MESSAGE - a->used) return a->channel = NULL, g->counts[GLUE_TOO_LARGE]++, 1;
    memcpy(a->data + a->used, f->data, f->size);
    a->used += f->size, a->received += f->size, a->next[3]++, a->at = g->now;
    long gone = take_bundle(g, p, a->data, a->used, total, &a->done, g->now - f->at, 1);
    if (gone > 0) {
        uint8_t *rest = (uint8_t *)memchr(a->data, '\n', a->used) + 1;
        a->used -= (size_t)gone;
        memmove(rest, rest + gone, (size_t)(a->data + a->used - rest));
    }
    if (a->received == total) a->channel = NULL;
    return 1;
}
static struct glue_held *held_at(struct glue *g, struct glue_channel *c, uint64_t sequence) {
    EACH(glue_held, h, g->held) if (h->channel == c && h->sequence == sequence) return h;
    return NULL;
}
static void release(struct glue *g, struct glue_channel *c) { /* hand up what now is in order */
    struct glue_held *h;
    for (; (h = held_at(g, c, c->next)) && take_frame(g, c, h); c->next++) h->channel = NULL, c->ack = 1;
}
static struct glue_channel *find_channel(struct glue *g, int peer, uint64_t number, int may_open) {
    struct glue_channel *oldest = g->received;
    EACH(glue_channel, c, g->received) {
        if (c->peer == peer && c->number == number) return c->used = g->now, c;
        if (c->used < oldest->used) oldest = c;
    }
    if (!may_open) return NULL;
    drop_channel(g, oldest);
    *oldest = (struct glue_channel){.peer = peer, .number = number, .used = g->now};
    return oldest;
}
/* Hold a frame, and hand up what is in order then. The last place is kept for a frame that is next. */
static void receive_reliable(struct glue *g, struct glue_channel *c, uint64_t sequence, uint64_t waited,
                             const uint64_t *fragment, struct span body) {
    struct glue_held *free = NULL;
    int places = 0;
    c->ack = 1;
    if (sequence < c->next || held_at(g, c, sequence)) DROP(DUPLICATE);
    if (sequence >= c->next + GLUE_WINDOW) DROP(BEYOND_WINDOW);
    EACH(glue_held, h, g->held) if (!h->channel) free = h, places++;
    if (places < (sequence > c->next ? 2 : 1)) DROP(NOT_HELD);
    free->channel = c, free->sequence = sequence, free->at = g->now - waited, free->size = (size_t)(body.end - body.at);
    memcpy(free->fragment, fragment, sizeof free->fragment), memcpy(free->data, body.at, free->size);
    release(g, c);
    if (sequence == c->next) { free->channel = NULL; DROP(NOT_HELD); }
}
static void acknowledge(struct glue *g, struct glue_channel *c) {
    const char *before = "[#";
    c->ack = 0, begin(g, "transport"), put(g, "\"ack\",0,#,#,#]}\n", (uint64_t)GLUE_WINDOW, c->number, c->next);
    for (uint64_t k = 1, was = 0, is; k <= GLUE_WINDOW; k++, was = is)
        if ((is = held_at(g, c, c->next + k) != NULL) != was) put(g, before, k), before = ",#";
    put(g, *before == '[' ? "[]" : "]");
    send_datagram(g, g->peers[c->peer].address);
}
static int is_repeated(struct glue_peer *p, uint64_t sequence) { /* of the last 64; a far jump begins anew */
    if (sequence >= p->best + 64 || sequence + 64 < p->best) p->best_seen = 0, p->best = sequence;
    for (; p->best <= sequence; p->best++) p->best_seen <<= 1; /* bit 0: the frame before `best` */
    uint64_t bit = (uint64_t)1 << (p->best - 1 - sequence), was = p->best_seen & bit;
    return p->best_seen |= bit, was != 0;
}
static void receive_transport(struct glue *g, int i, struct entry *e, struct entry *fragment, struct span body) {
    uint64_t *n = e->n, done = 0;
    size_t size = (size_t)(body.end - body.at);
    struct span each, kind = e->part[0], list;
    for (int k = 1; k < e->fields; k++) if (n[k] == NONE) DROP(MALFORMED);
    int is_group = is_text(kind, "group"), is_list = enter(body, '[', &list);
    if (e->fields == 8 && (is_group || is_text(kind, "data"))) {
        if (n[3]) acknowledged(g, i, n[3], n[4], 4096, (struct span){NULL, NULL});
        struct glue_channel *c = find_channel(g, i, n[6], !is_group);
        if (c) receive_reliable(g, c, n[7], n[2], fragment->n, body);
    } else if (e->fields == 3 && is_text(kind, "best")) {
        if (is_repeated(&g->peers[i], n[2])) DROP(DUPLICATE);
        if (fragment->fields) DROP(FRAGMENTS_IGNORED);
        take_bundle(g, &g->peers[i], (const uint8_t *)body.at, size, size, &done, n[1], 0);
    } else if (is_list && ((e->fields == 5 && is_text(kind, "ack")) || (e->fields == 6 && is_text(kind, "mended")))) {
        acknowledged(g, i, n[e->fields - 2], n[e->fields - 1], n[e->fields - 3], list);
    } else if (is_list && e->fields == 2 && is_text(kind, "open")) {
        while (next(&list, &each)) if (is_text(each, g->id)) find_channel(g, i, n[1], 1)->ack = 1;
    } else if (e->fields == 3 && is_text(kind, "skip")) {
        struct glue_channel *c = find_channel(g, i, n[1], 0);
        if (!c) return;
        EACH(glue_held, h, g->held) if (h->channel == c && h->sequence < n[2]) h->channel = NULL;
        c->ack = 1;
        if (n[2] <= c->next) return;
        if (g->assembly.channel == c) g->assembly.channel = NULL; /* the rest of this message will not come */
        c->next = n[2], release(g, c);
    }
}
void glue_receive(struct glue *g, const uint8_t *data, size_t size, struct glue_address from, int is_multicast) {
    const char *line = memchr(data, '\n', size < GLUE_HEADER ? size : GLUE_HEADER);
    struct span object, body = {line ? line + 1 : NULL, (const char *)data + size}, inside;
    char id[17];
    g->counts[GLUE_RECEIVED]++;
    if (!line || size > GLUE_DATAGRAM || !enter((struct span){(const char *)data, line}, '{', &object)) DROP(MALFORMED);
    struct entry glue = find_entry(object, "glue"), e = find_entry(object, "discovery");
    uint64_t life = glue.n[3];
    if (glue.fields != 5 || !text(glue.part[2], id, sizeof id) || life == NONE) DROP(MALFORMED);
    if (glue.n[0] != 1 || glue.n[1] != g->config.network) DROP(OTHER_NETWORK);
    if (!strcmp(id, g->id)) return (void)(g->counts[GLUE_NAME_CLASH] += life != g->life);
    if (e.fields >= 5) {
        if (!enter(body, '{', &inside)) inside = (struct span){NULL, NULL};
        return receive_discovery(g, id, life, &e, inside, from, is_multicast);
    }
    struct glue_peer *p = find_peer(g, id);
    struct entry fragment = find_entry(object, "fragment");
    e = find_entry(object, "transport");
    if (e.fields < 2) DROP(MALFORMED);
    if (!p || p->life != life || !is_same(p->address, from)) DROP(UNKNOWN_SENDER);
    p->heard = g->now, receive_transport(g, (int)(p - g->peers), &e, &fragment, body);
}

/* ---- the turn ------------------------------------------------------------------------------------------------- */
static void tend(struct glue *g) {
    if (g->now >= g->announce_at) announce(g);
    EACH(glue_channel, c, g->received) if (release(g, c), c->ack) acknowledge(g, c); /* the memory may be free now */
    EACH(glue_peer, p, g->peers) {
        uint64_t silence = g->now - p->heard;
        if (!p->is_used) continue;
        if (silence >= p->lease) { reset_peer(g, p); continue; }
        if (silence >= p->lease * 7 / 10 && g->now >= p->probe_at)
            p->probe_at = g->now + p->lease / 50, tell(g, p, "probe");
        if (p->version < p->announced && g->now >= p->want_at) p->want_at = g->now + 100, tell(g, p, "want");
        flush(g, (int)(p - g->peers));
    }
    while (g->pending) { /* the oldest messages that are acknowledged or too old make room */
        uint32_t left = waiting(g, 0)->receivers;
        if (left && g->now < waiting(g, 0)->since + GLUE_GIVE_UP_MS) break;
        waiting(g, 0)->receivers = 0, g->first = (g->first + 1) % GLUE_OUTBOX, g->pending--;
        for (int i = 0; i < GLUE_PEERS; i++) if (left & BIT(i)) g->counts[GLUE_GIVEN_UP]++, renew_channel(g, i);
    }
}
void glue_poll(struct glue *g, int wait_ms) {
    if (wait_ms > 0) wait_network(g, wait_ms < 20 ? wait_ms : 20);
    g->now = milliseconds();
    for (int k = 0; k < 64; k++) /* so many at most, or acknowledgements are late */
        if (!(receive_from(g, g->unicast, 0) + receive_from(g, g->multicast, 1))) break;
    tend(g);
}
int glue_open(struct glue *g, const struct glue_config *config) {
    uint64_t hash = hashed(config->name, 0xcbf29ce484222325);
    memset(g, 0, sizeof *g);
    g->config = *config, g->unicast = g->multicast = -1;
    if (!is_valid(config->name, 0)) return GLUE_INVALID;
    if (!g->config.network) g->config.network = 1;
    for (int i = 0; i < 16; i++) g->id[i] = "0123456789abcdef"[hash >> 4 * i & 15];
    g->random = config->random ^ hash ? config->random ^ hash : 1;
    for (int i = 0; i < 8; i++) draw(g);
    g->life = draw(g) << 20 ^ draw(g), g->beacon = draw(g);
    EACH(glue_channel, c, g->received) c->peer = -1;
    g->now = g->announced_at = g->announce_at = milliseconds(), g->announce_gap = 100;
    return open_network(g) ? 0 : (close_network(g), GLUE_NO_NETWORK);
}
int glue_subscribe(struct glue *g, const char *pattern) {
    size_t told = 100 + strlen(g->config.name) + strlen(pattern); /* bytes of an announcement: at most 512 */
    if (!is_valid(pattern, 1)) return GLUE_INVALID;
    for (int i = 0; i < g->subscriptions; i++) told += strlen(g->patterns[i]) + 4;
    if (g->subscriptions == GLUE_SUBSCRIPTIONS || told > 512) return GLUE_FULL;
    strcpy(g->patterns[g->subscriptions++], pattern);
    g->announce_at = g->announced_at + 10, g->announce_gap = 100;
    return 0;
}
int glue_pending(const struct glue *g) { return g->pending; }
void glue_close(struct glue *g) {
    for (int k = 0; k < 2; k++) EACH(glue_peer, p, g->peers) if (p->is_used) tell(g, p, "goodbye");
    discover(g, NULL, g->group, g->beacon, 0, "goodbye");
    close_network(g);
}
