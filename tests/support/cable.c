/* A cable with faults between two network namespaces, for kernels without netem.
 *
 * usage: cable NAMESPACE_A DEVICE_A NAMESPACE_B DEVICE_B [seed=N] [a.FAULT=X] [b.FAULT=X] ...
 *
 * It makes a TAP device in each namespace and carries every Ethernet frame from one to the other. A TAP has no
 * offloads: each frame is one packet of at most the MTU, so that one loss is one datagram and not a whole train.
 * `a.` are the faults of what A sends, `b.` of what B sends. They are those of glue/simulation/conditions.py, in
 * its order and its units (seconds, bytes, probabilities; see FAULTS). Each direction and each fault has a stream
 * of random numbers of its own, and every stream advances by one with every frame, so that the outcome of the n-th
 * frame of a direction depends on nothing but the seed and its own fault.
 *
 * Prints "ready" once both devices exist, and one line of JSON at SIGUSR1, and at its end by SIGTERM, SIGINT or the
 * end of its parent: what happened to the frames so far, by direction. Each frame is "sent", each copy of one
 * "duplicated", and each of them in the end one of "arrived", "lost", "queue full", "refused" (by the receiving
 * device, or for want of memory here) or "in flight".
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    FRAME_LIMIT = 9018,      /* jumbo frames of 9,000 bytes and an Ethernet header with a VLAN tag */
    IN_FLIGHT_LIMIT = 65536, /* frames in each direction: 100 MB of 1,500 bytes, 5 s at 150 Mb/s */
    FRAMES_A_TURN = 64,      /* read from one side before the other has its turn */
    DEVICE_QUEUE = 20000,    /* frames that wait in the kernel for us; the default of 500 loses some of a burst */
};

static const uint64_t SECOND = 1000000000;

static void fail(const char *what) {
    fprintf(stderr, "cable: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* ------------------------------------------------------------------------------------------------ randomness */

enum stream { LOSS, BURST, CORRUPT, CORRUPT_BIT, DUPLICATE, JITTER, COPY_JITTER, REORDER, STREAMS };

/* SplitMix64 (Steele, Lea, Flood 2014). */
static uint64_t next_number(uint64_t *state) {
    uint64_t z = *state += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
}

/* Uniform in [0, 1). */
static double next_fraction(uint64_t *state) { return (double)(next_number(state) >> 11) * 0x1p-53; }

/* ------------------------------------------------------------------------------------------------ conditions */

struct conditions {
    double loss, burst_enter, burst_leave, burst_loss, corrupt, duplicate;
    double delay, jitter, reorder, reorder_delay;
    double rate, queue; /* rate 0: unlimited */
};

static const struct {
    const char *name;
    size_t offset;
    double limit;
} FAULTS[] = {
    {"loss", offsetof(struct conditions, loss), 1},
    {"burst_enter", offsetof(struct conditions, burst_enter), 1},
    {"burst_leave", offsetof(struct conditions, burst_leave), 1},
    {"burst_loss", offsetof(struct conditions, burst_loss), 1},
    {"corrupt", offsetof(struct conditions, corrupt), 1},
    {"duplicate", offsetof(struct conditions, duplicate), 1},
    {"delay", offsetof(struct conditions, delay), 1e6},
    {"jitter", offsetof(struct conditions, jitter), 1e6},
    {"reorder", offsetof(struct conditions, reorder), 1},
    {"reorder_delay", offsetof(struct conditions, reorder_delay), 1e6},
    {"rate", offsetof(struct conditions, rate), 1e12},
    {"queue", offsetof(struct conditions, queue), 1e6},
};

static bool set_fault(struct conditions *conditions, const char *name, size_t length, const char *text) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end) return false;
    for (size_t i = 0; i < sizeof FAULTS / sizeof *FAULTS; i++) {
        if (strlen(FAULTS[i].name) != length || strncmp(FAULTS[i].name, name, length)) continue;
        memcpy((char *)conditions + FAULTS[i].offset, &value, sizeof value);
        return value >= 0 && value <= FAULTS[i].limit;
    }
    return false;
}

/* ------------------------------------------------------------------------------------- frames on their way */

struct frame {
    uint64_t due, sequence;
    size_t length;
    unsigned char data[];
};

enum count {
    SENT, SENT_BYTES, ARRIVED, ARRIVED_BYTES, LOST, DUPLICATED, CORRUPTED, HELD_BACK, QUEUE_FULL, REFUSED, IN_FLIGHT,
    COUNTS
};

static const char *const COUNT_NAMES[COUNTS] = {
    "sent", "sent bytes", "arrived", "arrived bytes", "lost", "duplicated", "corrupted", "held back", "queue full",
    "refused", "in flight",
};

struct direction {
    int from, to;
    struct conditions conditions;
    uint64_t counts[COUNTS];
    uint64_t random[STREAMS];
    bool is_bad;         /* the state of the Gilbert-Elliott model */
    uint64_t busy_until; /* when the limited rate has put on the wire all that it has taken */
    uint64_t sequence;
    struct frame *heap[IN_FLIGHT_LIMIT]; /* the next one due first; those due together in the order they came */
};

static bool is_before(const struct frame *a, const struct frame *b) {
    return a->due < b->due || (a->due == b->due && a->sequence < b->sequence);
}

static void push(struct direction *way, struct frame *frame) {
    size_t at = way->counts[IN_FLIGHT]++;
    for (; at && is_before(frame, way->heap[(at - 1) / 2]); at = (at - 1) / 2) way->heap[at] = way->heap[(at - 1) / 2];
    way->heap[at] = frame;
}

static struct frame *pop(struct direction *way) {
    struct frame *first = way->heap[0], *last = way->heap[--way->counts[IN_FLIGHT]];
    size_t at = 0;
    for (size_t child; (child = 2 * at + 1) < way->counts[IN_FLIGHT]; at = child) {
        if (child + 1 < way->counts[IN_FLIGHT] && is_before(way->heap[child + 1], way->heap[child])) child++;
        if (!is_before(way->heap[child], last)) break;
        way->heap[at] = way->heap[child];
    }
    way->heap[at] = last;
    return first;
}

static void depart(struct direction *way, const unsigned char *data, size_t length, uint64_t due) {
    struct frame *frame = way->counts[IN_FLIGHT] < IN_FLIGHT_LIMIT ? malloc(sizeof *frame + length) : NULL;
    if (!frame) {
        way->counts[REFUSED]++;
        return;
    }
    frame->due = due;
    frame->sequence = way->sequence++;
    frame->length = length;
    memcpy(frame->data, data, length);
    push(way, frame);
}

/* ---------------------------------------------------------------------------------------- what befalls a frame */

static uint64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (uint64_t)time.tv_sec * SECOND + (uint64_t)time.tv_nsec;
}

static uint64_t nanoseconds(double seconds) { return (uint64_t)(seconds * (double)SECOND); }

/* When the frame has left through the limited rate; false if its queue was full. */
static bool transmit(struct direction *way, size_t length, uint64_t time, uint64_t *departure) {
    const struct conditions *conditions = &way->conditions;
    *departure = time;
    if (conditions->rate == 0) return true;
    uint64_t start = way->busy_until > time ? way->busy_until : time;
    if (start - time > nanoseconds(conditions->queue)) return false;
    *departure = way->busy_until = start + nanoseconds((double)length / conditions->rate);
    return true;
}

static void meet_faults(struct direction *way, unsigned char *data, size_t length, uint64_t time) {
    const struct conditions *conditions = &way->conditions;
    double luck[STREAMS];
    for (int stream = 0; stream < STREAMS; stream++) luck[stream] = next_fraction(&way->random[stream]);
    if (luck[BURST] < (way->is_bad ? conditions->burst_leave : conditions->burst_enter)) way->is_bad = !way->is_bad;

    uint64_t departure;
    if (!transmit(way, length, time, &departure)) {
        way->counts[QUEUE_FULL]++;
        return;
    }
    if (luck[LOSS] < (way->is_bad ? conditions->burst_loss : conditions->loss)) {
        way->counts[LOST]++;
        return;
    }
    if (luck[CORRUPT] < conditions->corrupt) {
        size_t bit = (size_t)(luck[CORRUPT_BIT] * 8 * (double)length);
        data[bit / 8] ^= (unsigned char)(1 << bit % 8);
        way->counts[CORRUPTED]++;
    }
    double delay = conditions->delay + luck[JITTER] * conditions->jitter;
    if (luck[REORDER] < conditions->reorder) {
        way->counts[HELD_BACK]++;
        delay += conditions->reorder_delay;
    }
    depart(way, data, length, departure + nanoseconds(delay));
    if (luck[DUPLICATE] < conditions->duplicate) {
        way->counts[DUPLICATED]++;
        delay = conditions->delay + luck[COPY_JITTER] * conditions->jitter;
        depart(way, data, length, departure + nanoseconds(delay));
    }
}

static void take_in(struct direction *way) {
    unsigned char data[FRAME_LIMIT];
    for (int i = 0; i < FRAMES_A_TURN; i++) {
        ssize_t length = read(way->from, data, sizeof data);
        if (length <= 0) return;
        way->counts[SENT]++;
        way->counts[SENT_BYTES] += (uint64_t)length;
        meet_faults(way, data, (size_t)length, now());
    }
}

static void let_arrive(struct direction *way) {
    while (way->counts[IN_FLIGHT] && way->heap[0]->due <= now()) {
        struct frame *frame = pop(way);
        if (write(way->to, frame->data, frame->length) == (ssize_t)frame->length) {
            way->counts[ARRIVED]++;
            way->counts[ARRIVED_BYTES] += frame->length;
        } else {
            way->counts[REFUSED]++; /* the device is down */
        }
        free(frame);
    }
}

/* ---------------------------------------------------------------------------------------------- the devices */

static int open_tap(const char *namespace, const char *device) {
    char path[256];
    struct ifreq request = {.ifr_flags = IFF_TAP | IFF_NO_PI};
    if (strlen(device) >= IFNAMSIZ) errno = ENAMETOOLONG, fail(device);
    strcpy(request.ifr_name, device);
    snprintf(path, sizeof path, "/run/netns/%s", namespace);
    int place = open(path, O_RDONLY | O_CLOEXEC);
    if (place < 0 || setns(place, CLONE_NEWNET) < 0) fail(path);
    close(place);
    int tap = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tap < 0) fail("/dev/net/tun");
    if (ioctl(tap, TUNSETIFF, &request) < 0) fail(device);
    int socket_there = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    request.ifr_qlen = DEVICE_QUEUE;
    if (socket_there < 0 || ioctl(socket_there, SIOCSIFTXQLEN, &request) < 0) fail("queue length");
    close(socket_there);
    return tap;
}

static struct direction ways[2];

static void parse(const char *argument, uint64_t *seed) {
    const char *equals = strchr(argument, '=');
    bool good = false;
    if (equals && !strncmp(argument, "seed=", 5)) {
        char *end;
        *seed = strtoull(equals + 1, &end, 10);
        good = !*end && end != equals + 1;
    } else if (equals && (!strncmp(argument, "a.", 2) || !strncmp(argument, "b.", 2))) {
        const char *name = argument + 2;
        good = set_fault(&ways[*argument - 'a'].conditions, name, (size_t)(equals - name), equals + 1);
    }
    if (!good) {
        fprintf(stderr, "cable: not understood or out of range: %s\n", argument);
        exit(2);
    }
}

static void seed_streams(uint64_t seed) {
    for (uint64_t i = 0; i < 2 * STREAMS; i++) {
        uint64_t state = seed * 2 * STREAMS + i;
        ways[i / STREAMS].random[i % STREAMS] = next_number(&state); /* scrambled, so that they are far apart */
    }
}

static void print_counts(void) {
    for (int i = 0; i < 2; i++) {
        printf("%s\"%c\": {", i ? ", " : "{", 'a' + i);
        for (int count = 0; count < COUNTS; count++)
            printf("%s\"%s\": %" PRIu64, count ? ", " : "", COUNT_NAMES[count], ways[i].counts[count]);
        printf("}");
    }
    puts("}");
    fflush(stdout);
}

static volatile sig_atomic_t is_over, is_asked;

static void catch(int signal) {
    if (signal == SIGUSR1) is_asked = 1;
    else is_over = 1;
}

/* Returns the mask to wait with: the signals are blocked but then, so that none comes between a look and the wait. */
static sigset_t catch_signals(void) {
    static const int signals[] = {SIGTERM, SIGINT, SIGUSR1};
    struct sigaction action = {.sa_handler = catch};
    sigset_t blocked, while_waiting;
    sigemptyset(&blocked);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        sigaction(signals[i], &action, NULL);
        sigaddset(&blocked, signals[i]);
    }
    sigprocmask(SIG_BLOCK, &blocked, &while_waiting);
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) sigdelset(&while_waiting, signals[i]);
    return while_waiting;
}

static struct timespec until_next_due(void) {
    uint64_t time = now(), next = time + SECOND;
    for (int i = 0; i < 2; i++)
        if (ways[i].counts[IN_FLIGHT] && ways[i].heap[0]->due < next) next = ways[i].heap[0]->due;
    uint64_t wait = next > time ? next - time : 0;
    return (struct timespec){(time_t)(wait / SECOND), (long)(wait % SECOND)};
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fputs("usage: cable NAMESPACE_A DEVICE_A NAMESPACE_B DEVICE_B [seed=N] [a.FAULT=X] [b.FAULT=X]\n", stderr);
        return 2;
    }
    uint64_t seed = 1;
    for (int i = 5; i < argc; i++) parse(argv[i], &seed);
    seed_streams(seed);
    sigset_t while_waiting = catch_signals();
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    prctl(PR_SET_TIMERSLACK, 1); /* else every wait is up to 50 µs too long */
    ways[0].from = ways[1].to = open_tap(argv[1], argv[2]);
    ways[1].from = ways[0].to = open_tap(argv[3], argv[4]);
    puts("ready");
    fflush(stdout);

    struct pollfd ends[2] = {{ways[0].from, POLLIN, 0}, {ways[1].from, POLLIN, 0}};
    while (!is_over) {
        struct timespec wait = until_next_due();
        int readable = ppoll(ends, 2, &wait, &while_waiting);
        if (readable < 0 && errno != EINTR) fail("ppoll");
        for (int i = 0; i < 2; i++) {
            take_in(&ways[i]);
            let_arrive(&ways[i]);
        }
        if (readable > 0 && (ends[0].revents | ends[1].revents) & POLLERR) break; /* a device is gone */
        if (is_asked) is_asked = 0, print_counts();
    }
    print_counts();
    return 0;
}
