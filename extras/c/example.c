/* A program with the small client: what comes in is printed, and commands are read from standard input.
 *
 *     cc -std=c99 -O2 -o example example.c glue.c
 *     ./example NAME [INTERFACE_ADDRESS [GROUP PORT NETWORK]]
 *
 * The commands: subscribe PATTERN · publish TOPIC TEXT (best effort) · reliable TOPIC TEXT · peers · counters. The end of
 * the input waits for acknowledgements and says goodbye. */
#define _DEFAULT_SOURCE
#include "glue.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static struct glue glue; /* all its memory; not on the stack of a small device */

static void on_message(void *user, const struct glue_message *m) {
    (void)user;
    printf("message %s %s %" PRIu64 " %" PRIu64 " %s%s %zu ", m->publisher, m->topic, m->sequence, m->missed,
           m->reliable ? "reliable" : "best", m->retained ? "-retained" : "", m->size);
    fwrite(m->payload, 1, m->size, stdout);
    puts("");
}

static void obey(char *line) {
    char *command = strtok(line, " "), *topic = strtok(NULL, " "), *payload = strtok(NULL, "");
    int result = GLUE_INVALID;
    if (!command) return;
    if (!strcmp(command, "subscribe") && topic) {
        result = glue_subscribe(&glue, topic);
    } else if ((!strcmp(command, "publish") || !strcmp(command, "reliable")) && payload) {
        int flags = *command == 'r' ? GLUE_RELIABLE : 0;
        while ((result = glue_publish(&glue, topic, payload, strlen(payload), flags)) == GLUE_FULL) glue_poll(&glue, 5);
    } else if (!strcmp(command, "peers")) {
        for (int i = result = 0; i < GLUE_PEERS; i++)
            if (glue.peers[i].is_used) printf("peer %s %d\n", glue.peers[i].name, glue.peers[i].is_proven);
    } else if (!strcmp(command, "counters")) {
        for (int i = result = 0; i < GLUE_COUNTERS; i++) printf("counter %" PRIu32 " %s\n", glue.counts[i], glue_counters[i]);
    }
    printf("result %d %s\n", result, command);
}

int main(int argc, char **argv) {
    static char lines[4096];
    size_t used = 0;
    ssize_t got = 1;
    struct timespec time;
    if (argc < 2) return fputs("usage: example NAME [INTERFACE_ADDRESS [GROUP PORT NETWORK]]\n", stderr), 2;
    clock_gettime(CLOCK_REALTIME, &time);
    struct glue_config config = {.name = argv[1], .on_message = on_message};
    config.interface = argc > 2 ? argv[2] : NULL;
    if (argc > 5) config.group = argv[3], config.port = (uint16_t)atoi(argv[4]), config.network = (uint16_t)atoi(argv[5]);
    config.random = (uint64_t)time.tv_sec << 30 ^ (uint64_t)time.tv_nsec ^ (uint64_t)getpid() << 40;
    if (glue_open(&glue, &config)) return fputs("example: no network, or an invalid name\n", stderr), 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    fcntl(0, F_SETFL, fcntl(0, F_GETFL) | O_NONBLOCK);
    while (got) {
        glue_poll(&glue, 5);
        got = read(0, lines + used, sizeof lines - 1 - used);
        if (got > 0) lines[used += (size_t)got] = 0;
        for (char *end; (end = memchr(lines, '\n', used)); memmove(lines, end + 1, used + 1)) {
            *end = 0;
            used -= (size_t)(end + 1 - lines);
            obey(lines);
        }
        if (used == sizeof lines - 1) used = 0; /* too long a line */
    }
    while (glue_pending(&glue)) glue_poll(&glue, 5);
    glue_close(&glue);
    return 0;
}
