/* Rounds of messages as an MPI program, which MPI runs and SMPI simulates.

     rounds FILE TURNS AHEAD_S

   Every line of FILE is "case rank round peer sent received": in that round of that case the rank
   sends so many bytes to the peer and receives so many from it (0: none). Lines stand in the order
   of cases, and of rounds within a rank; every rank has some of every case. A rank enters a round
   when its own messages of the last one are done. Rank 0 prints, for every turn of a case, its name
   and the seconds from the moment that all ranks agreed on, AHEAD_S before it, until the last was
   done, and until rank 0 was. */

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAME = 64, MOST = 4096 };

struct line {
    char of[NAME];
    int round, peer, sent, received;
};

static int read_lines(const char *file, int rank, struct line *lines, int most) {
    FILE *from = fopen(file, "r");
    int count = 0, whose;
    if (!from) {
        perror(file);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    struct line one;
    while (fscanf(from, "%63s %d %d %d %d %d", one.of, &whose, &one.round, &one.peer, &one.sent,
                  &one.received) == 6)
        if (whose == rank && count < most) lines[count++] = one;
    fclose(from);
    return count;
}

/* The messages of one case, ``lines`` of them. */
static void run(const struct line *lines, int count, char *out, char *in) {
    MPI_Request requests[2 * MOST];
    for (int first = 0, next; first < count; first = next) {
        int posted = 0;
        char *to = in;
        for (next = first; next < count && lines[next].round == lines[first].round; next++)
            if (lines[next].received) {
                MPI_Irecv(to, lines[next].received, MPI_BYTE, lines[next].peer, 0, MPI_COMM_WORLD,
                          &requests[posted++]);
                to += lines[next].received;
            }
        for (next = first; next < count && lines[next].round == lines[first].round; next++)
            if (lines[next].sent)
                MPI_Isend(out, lines[next].sent, MPI_BYTE, lines[next].peer, 0, MPI_COMM_WORLD,
                          &requests[posted++]);
        MPI_Waitall(posted, requests, MPI_STATUSES_IGNORE);
    }
}

/* Sleep until all ranks begin; returns when that is. */
static double together(double ahead) {
    double begin = MPI_Wtime() + ahead, left;
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Bcast(&begin, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    while ((left = begin - MPI_Wtime()) > 0) usleep((useconds_t)(1e6 * left) + 1);
    return begin;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    struct line *lines = malloc(MOST * sizeof *lines);
    int count = read_lines(argv[1], rank, lines, MOST);
    size_t most = 0;
    for (int i = 0; i < count; i++) {
        size_t received = 0;
        for (int j = i; j < count && lines[j].round == lines[i].round; j++) received += lines[j].received;
        if (received > most) most = received;
        if ((size_t)lines[i].sent > most) most = lines[i].sent;
    }
    char *out = calloc(most + 1, 1), *in = calloc(most + 1, 1);
    for (int first = 0, next; first < count; first = next) {
        for (next = first; next < count && !strcmp(lines[next].of, lines[first].of); next++) {}
        for (int turn = 0; turn < atoi(argv[2]); turn++) {
            double begin = together(atof(argv[3]));
            run(lines + first, next - first, out, in);
            double end = MPI_Wtime(), last;
            MPI_Reduce(&end, &last, 1, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
            if (!rank) {
                printf("%s %.9f %.9f\n", lines[first].of, last - begin, end - begin);
                fflush(stdout);
            }
        }
    }
    free(lines);
    free(out);
    free(in);
    MPI_Finalize();
    return 0;
}
