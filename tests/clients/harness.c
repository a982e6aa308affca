/* The small client (extras/c) without a network and in virtual time, for tests. Commands on standard input:
 *
 *     receive unicast|multicast PORT HEX    one datagram from this port of 10.0.0.9
 *     advance MS                            let time pass, and do what is due
 *     subscribe PATTERN | publish TOPIC TEXT | reliable TOPIC TEXT | goodbye | memory | counters | sync
 *
 * Printed are `sent PORT HEX` (port 37320: to all), `message …` and `result N`. With arguments, SEED COUNT FILE …, it
 * receives so many mutated copies of these datagrams. */
#define sendto fake_sendto
#define clock_gettime fake_clock_gettime
#include "glue.c"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static struct glue glue;
static uint64_t virtual_ms = 1000000;
static int is_quiet;
static uint64_t total;

int fake_clock_gettime(clockid_t clock, struct timespec *time) {
    (void)clock;
    *time = (struct timespec){(time_t)(virtual_ms / 1000), (long)(virtual_ms % 1000 * 1000000)};
    return 0;
}

ssize_t fake_sendto(int socket, const void *data, size_t size, int flags, const struct sockaddr *to, socklen_t length) {
    (void)socket, (void)flags, (void)length;
    const unsigned char *bytes = data;
    if (is_quiet) {
        for (size_t i = 0; i < size; i++) total += bytes[i]; /* the sanitizer is to see the reads */
        return (ssize_t)size;
    }
    printf("sent %d ", ntohs(((const struct sockaddr_in *)to)->sin_port));
    for (size_t i = 0; i < size; i++) printf("%02x", bytes[i]);
    puts("");
    return (ssize_t)size;
}

static void on_message(void *user, const struct glue_message *m) {
    (void)user;
    if (is_quiet) {
        for (size_t i = 0; i < m->size; i++) total += m->payload[i];
        total += strlen(m->topic) + strlen(m->publisher);
        if (total % 7 == 0) glue_publish(&glue, "from/handler", m->payload, m->size, (int)(total & 3));
        return;
    }
    printf("message %s %s %" PRIu64 " %" PRIu64 " %d %d %d %d ", m->publisher, m->topic, m->sequence, m->missed, m->reliable,
           m->json, m->retained, m->codec);
    for (size_t i = 0; i < m->size; i++) printf("%02x", m->payload[i]);
    puts("");
}

static void turn(void) {
    glue.now = milliseconds();
    tend(&glue);
}

static void receive(int port, int is_multicast, const uint8_t *data, size_t size) {
    uint8_t *exact = malloc(size + !size); /* so that the sanitizer sees each read past the end */
    memcpy(exact, data, size);
    glue_receive(&glue, exact, size, (struct glue_address){inet_addr("10.0.0.9"), htons((uint16_t)port)}, is_multicast);
    free(exact);
}

static void start(void) {
    struct glue_config config = {.name = "tiny", .interface = "127.0.0.1", .on_message = on_message, .random = 7};
    if (glue_open(&glue, &config)) exit(3);
    close_network(&glue);
}

static int mutate(uint64_t seed, uint64_t count, char **files, int number_of_files) {
    static uint8_t originals[64][GLUE_DATAGRAM], bytes[GLUE_DATAGRAM + 1];
    static size_t sizes[64];
    static const char alphabet[] = "0123456789\"[]{},:\\u-ad \n+#/$";
    struct glue random = {.random = seed | 1};
    is_quiet = 1;
    for (int i = 0; i < number_of_files && i < 64; i++) {
        FILE *file = fopen(files[i], "rb");
        if (!file) return 4;
        sizes[i] = fread(originals[i], 1, GLUE_DATAGRAM, file);
        fclose(file);
    }
    uint64_t counts[GLUE_COUNTERS] = {0};
    for (uint64_t n = 0; n < count; n++) {
        if (n % 100 == 0) {
            for (int i = 0; n && i < GLUE_COUNTERS; i++) counts[i] += glue.counts[i];
            start(), glue_subscribe(&glue, "#"), glue_subscribe(&glue, "$glue/#");
        }
        uint64_t which = draw(&random) % (uint64_t)number_of_files;
        size_t size = sizes[which];
        memcpy(bytes, originals[which], size);
        for (uint64_t k = draw(&random) % 4; k && size; k--) {
            size_t at = draw(&random) % size, header = 80 < size ? 80 : size, kind = draw(&random) % 6;
            if (draw(&random) % 2) at = size - 1 - draw(&random) % header; /* near the end of the header, or of a body */
            if (kind == 0) bytes[at] ^= (uint8_t)(1 << draw(&random) % 8);
            else if (kind == 1) size = at;
            else if (kind == 2) bytes[at] = (uint8_t)draw(&random);
            else if (kind == 3) memmove(bytes + at, bytes + at + 1, --size - at);
            else bytes[at] = (uint8_t)alphabet[draw(&random) % (sizeof alphabet - 1)];
        }
        virtual_ms += draw(&random) % 20;
        glue.now = milliseconds();
        receive(draw(&random) % 16 ? 37319 : 5000, (int)(draw(&random) % 2), bytes, size);
        if (draw(&random) % 8 == 0) turn();
    }
    for (int i = 0; i < GLUE_COUNTERS; i++)
        printf("counter %" PRIu64 " %s\n", counts[i] + glue.counts[i], glue_counters[i]);
    return 0;
}

int main(int argc, char **argv) {
    static char line[16384];
    static uint8_t bytes[8192];
    if (argc > 3) return mutate(strtoull(argv[1], NULL, 10), strtoull(argv[2], NULL, 10), argv + 3, argc - 3);
    start();
    while (fgets(line, sizeof line, stdin)) {
        char *command = strtok(line, " \n"), *first = strtok(NULL, " \n"), *second = strtok(NULL, " \n");
        char *third = strtok(NULL, " \n");
        if (!strcmp(command, "receive")) {
            size_t size = third ? strlen(third) / 2 : 0;
            for (size_t i = 0; i < size; i++) sscanf(third + 2 * i, "%2hhx", &bytes[i]);
            receive(atoi(second), *first == 'm', bytes, size);
        } else if (!strcmp(command, "advance")) {
            virtual_ms += strtoull(first, NULL, 10);
            turn();
        } else if (!strcmp(command, "subscribe")) {
            printf("result %d\n", glue_subscribe(&glue, first));
        } else if (!strcmp(command, "publish") || !strcmp(command, "reliable")) {
            printf("result %d\n", glue_publish(&glue, first, second, strlen(second), *command == 'r' ? GLUE_RELIABLE : 0));
        } else if (!strcmp(command, "goodbye")) {
            glue_close(&glue);
        } else if (!strcmp(command, "memory")) {
            printf("memory %zu\n", sizeof glue);
        } else if (!strcmp(command, "counters")) {
            for (int i = 0; i < GLUE_COUNTERS; i++) printf("counter %" PRIu32 " %s\n", glue.counts[i], glue_counters[i]);
        }
        puts("synced");
        fflush(stdout);
    }
    return 0;
}
