/* What a message between two processes takes at least that share no memory but for two counters: each
   copies the other's bytes out of its address space, both at once.

   cc -O2 -o ordinary_messages ordinary_messages.c
   ordinary_messages BYTES HUGE ROUNDS

   HUGE: 1 for tensors on pages of 2 MiB, 0 for those of 4 KiB, on which torch's are. Prints the seconds
   of each round. ordinary_messages.py runs it. */

#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define HUGE_PAGE ((size_t)2 << 20)

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Both processes come here; it is the ``number``-th time. */
static void meet(atomic_int *counter, int number) {
    atomic_fetch_add(counter, 1);
    while (atomic_load(counter) < 2 * number) continue;
}

static char *tensor(size_t bytes, int huge) {
    size_t whole = (bytes + HUGE_PAGE - 1) / HUGE_PAGE * HUGE_PAGE;
    char *memory = aligned_alloc(HUGE_PAGE, whole);
    if (!memory) exit(2);
    madvise(memory, whole, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
    return memory;
}

int main(int count, char **given) {
    if (count != 4) return 2;
    size_t bytes = strtoull(given[1], NULL, 10);
    int huge = atoi(given[2]), rounds = atoi(given[3]);
    char *source = tensor(bytes, huge), *target = tensor(bytes, huge);
    atomic_int *counter = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t parent = getpid(), child = fork(), other = child ? child : parent;
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY, 0, 0, 0);
    memset(source, child ? 1 : 2, bytes);
    memset(target, 0, bytes);
    for (int round = 0; round < rounds; round++) {
        struct iovec here = {target, bytes}, there = {source, bytes}; /* at the same place in both */
        meet(counter, 2 * round + 1);
        double begin = now();
        if (process_vm_readv(other, &here, 1, &there, 1, 0) != (ssize_t)bytes) return 1;
        meet(counter, 2 * round + 2);
        if (child) printf("%.9f\n", now() - begin);
    }
    int wrong = target[0] != (child ? 2 : 1) || target[bytes - 1] != target[0];
    if (child) wait(NULL);
    return wrong;
}
