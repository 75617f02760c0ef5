/* Two processes that do nothing but send each other bytes through the loopback: what TCP allows here.

       ./loopback BYTES TIMES

   prints the median microseconds of BYTES there and one byte back. Both ends look for bytes again and
   again; the connection is one, and no byte is touched. */

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return 1e6 * t.tv_sec + 1e-3 * t.tv_nsec;
}

static int ascending(const void *a, const void *b) {
    double first = *(const double *)a, second = *(const double *)b;
    return (first > second) - (first < second);
}

static void move(int connection, char *data, size_t bytes, int sending) {
    while (bytes) {
        ssize_t moved = sending ? send(connection, data, bytes, MSG_DONTWAIT)
                                : recv(connection, data, bytes, MSG_DONTWAIT);
        if (moved <= 0) continue;
        data += moved;
        bytes -= (size_t)moved;
    }
}

int main(int count, char **arguments) {
    if (count != 3) return 2;
    size_t bytes = strtoul(arguments[1], NULL, 10);
    int times = atoi(arguments[2]), one = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in place = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof place;
    char *data = calloc(bytes, 1);
    double *took = calloc((size_t)times, sizeof *took);
    bind(listener, (struct sockaddr *)&place, sizeof place);
    getsockname(listener, (struct sockaddr *)&place, &length);
    listen(listener, 1);
    int child = !fork(), connection;
    if (child) {
        connection = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(connection, (struct sockaddr *)&place, sizeof place)) return 1;
    } else connection = accept(listener, NULL, NULL);
    setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    for (int i = 0; i < times; i++) {
        double begin = now();
        move(connection, data, bytes, !child);
        move(connection, data, 1, child);
        took[i] = now() - begin;
    }
    if (child) return 0;
    qsort(took, (size_t)times, sizeof *took, ascending);
    printf("%.1f\n", took[times / 2]);
    return 0;
}
