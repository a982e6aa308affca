/* A small client of glue for microcontrollers: C99, no allocation, nothing but BSD sockets. docs/other-languages.md has
 * what it does not do, docs/wire-format.md each datagram. All functions belong to one thread. A handler may publish and
 * subscribe, but must not call glue_poll or glue_close. */
#ifndef GLUE_H
#define GLUE_H
#include <stddef.h>
#include <stdint.h>

/* Limits; all memory is in struct glue. With GLUE_LIMITS, a header of yours in quotes, that one defines them all. */
#ifdef GLUE_LIMITS
#include GLUE_LIMITS
#else
#define GLUE_PEERS 8          /* other endpoints, at most 32; more take the place of silent strangers, or are ignored */
#define GLUE_INTERESTS 8      /* patterns kept for each peer; one with more is sent everything, and drops the rest */
#define GLUE_SUBSCRIPTIONS 8  /* patterns of this client */
#define GLUE_TOPICS 16        /* topics that this client publishes on in its life; further ones are GLUE_TOO_MANY */
#define GLUE_OUTBOX 8         /* reliable messages that are not acknowledged */
#define GLUE_HELD 8           /* datagrams that wait for an earlier one, of all peers together */
#define GLUE_CHANNELS 16      /* streams of reliable frames that come in; the longest unused makes place */
#define GLUE_STREAMS 32       /* topics of publishers whose last number is known; the longest unused makes place */
#define GLUE_MESSAGE 16384    /* for fragments: an index, the largest payload and one more datagram */
#define GLUE_TEXT 96          /* bytes of a name, topic or pattern, with the zero at its end */
#define GLUE_GIVE_UP_MS 10000 /* a reliable message is sent again for so long */
#endif
enum { GLUE_DATAGRAM = 1472, GLUE_HEADER = 192, GLUE_BODY = 1280, GLUE_WINDOW = 16 }; /* bytes; frames */
enum { GLUE_RELIABLE = 1, GLUE_JSON = 2 }; /* flags of glue_publish; below: errors */
enum { GLUE_INVALID = -1, GLUE_TOO_LONG = -2, GLUE_FULL = -3, GLUE_NO_NETWORK = -4, GLUE_TOO_MANY = -5 }; /* topics */
/* What happened to datagrams, frames and messages. */
#define GLUE_COUNT(X) X(RECEIVED) X(SENT) X(SEND_FAILED) X(DELIVERED) X(MALFORMED) X(OTHER_NETWORK) X(NAME_CLASH) \
    X(UNKNOWN_SENDER) X(TOO_MANY_PEERS) X(DUPLICATE) X(BEYOND_WINDOW) X(NOT_HELD) X(UNWANTED) X(TOO_LARGE) \
    X(FRAGMENTS_IGNORED) X(EXPIRED) X(MISSED) X(RESENT) X(GIVEN_UP)
#define GLUE_COUNTER(NAME) GLUE_##NAME,
enum { GLUE_COUNT(GLUE_COUNTER) GLUE_COUNTERS };

struct glue_message { /* texts and payload are valid during the call */
    const char *topic, *publisher;
    const uint8_t *payload;
    size_t size;
    uint64_t sequence, missed; /* missed: reliable messages of this publisher and topic before it will not come */
    int reliable, json, retained, codec; /* codec: as in the wire format, 0 for none, -1 for one with a name */
};
struct glue_config {
    const char *name, *interface, *group; /* unique; IPv4 addresses, NULL: the system's choice, 239.192.137.1 */
    uint16_t port, network;               /* 0: 37320 and 1 */
    uint64_t random;                      /* another number at each start, from the hardware or the clock */
    void (*on_message)(void *user, const struct glue_message *message), *user;
};
struct glue_address { uint32_t host; uint16_t port; }; /* in network byte order */
struct glue_peer {
    char id[17], name[GLUE_TEXT], interests[GLUE_INTERESTS][GLUE_TEXT];
    int is_used, is_proven, is_full, stale, credit;
    struct glue_address address, new_address;            /* new_…: of a life that has not proved itself */
    uint64_t life, token, echo, new_life, new_token, new_at;
    uint64_t heard, lease, probe_at, want_at; /* milliseconds, as all times */
    uint64_t epoch, version, announced, base;            /* of its interests */
    uint64_t channel, sequence, acked, acked_at, limit, seen; /* of our frames to it */
    uint64_t best, best_seen;                            /* best-effort frames that came */
};
struct glue {
    struct glue_config config;
    struct glue_address group;
    uint64_t now, life, random, beacon, counter, best, channels, announce_at, announced_at, announce_gap;
    int unicast, multicast, subscriptions, topics, first, pending; /* first, pending: the ring of the outbox */
    uint32_t counts[GLUE_COUNTERS];
    size_t used; /* of out */
    uint8_t out[GLUE_DATAGRAM], in[GLUE_DATAGRAM + 1];
    char id[17], patterns[GLUE_SUBSCRIPTIONS][GLUE_TEXT];
    struct glue_peer peers[GLUE_PEERS];
    struct { uint64_t hash, sequence, counts[2]; } published[GLUE_TOPICS];
    struct glue_stream { uint64_t hash, sequence, position, used; } streams[GLUE_STREAMS];
    struct glue_channel { int peer, ack; uint64_t number, next, used; } received[GLUE_CHANNELS];
    struct glue_held {
        struct glue_channel *channel;
        uint64_t sequence, at, fragment[4];
        size_t size;
        uint8_t data[GLUE_DATAGRAM];
    } held[GLUE_HELD + 1];
    struct glue_assembly { /* of a message in fragments: the index, and payloads that were not handed up */
        struct glue_channel *channel;
        uint64_t next[4], at, received, done;
        size_t used;
        uint8_t data[GLUE_MESSAGE];
    } assembly;
    struct glue_outgoing {
        uint32_t receivers, held; /* a bit for each peer that lacks it or something before it; that holds it */
        uint64_t since, sequence[GLUE_PEERS], sent[GLUE_PEERS], attempt[GLUE_PEERS];
        size_t size;
        uint8_t body[GLUE_BODY];
    } outbox[GLUE_OUTBOX];
};

int glue_open(struct glue *glue, const struct glue_config *config); /* take part; returns 0, or an error */
/* Receive messages of topics that match a pattern, with the wildcards + and # of MQTT. Returns 0, or an error. */
int glue_subscribe(struct glue *glue, const char *pattern);
/* Publish. Returns to how many peers (0: nobody subscribed), or an error. GLUE_FULL: poll, then try again. */
int glue_publish(struct glue *glue, const char *topic, const void *payload, size_t size, int flags);
/* Wait up to so many milliseconds (and at most 20) for datagrams, and do all that is due. Call it all the time. */
void glue_poll(struct glue *glue, int wait_ms);
int glue_pending(const struct glue *glue); /* how many reliable messages some receiver has not acknowledged */
void glue_close(struct glue *glue);        /* say goodbye; what is not acknowledged is lost */
/* Handle one datagram: for networks without BSD sockets, and for tests. */
void glue_receive(struct glue *glue, const uint8_t *data, size_t size, struct glue_address from, int is_multicast);
extern const char *const glue_counters[GLUE_COUNTERS]; /* names of the counts */
#endif
