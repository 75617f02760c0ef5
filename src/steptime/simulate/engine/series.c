/* Link series: bytes on each link over time, in bins whose width doubles as the run gets longer. */

#include "network.h"

#include <string.h>

/* Give all links of some paths a row in the series, in the order in which they come. */
void give_rows(struct network *net, const int32_t *paths, int64_t size) {
    for (int64_t place = 0; place < size; place++) {
        if (paths[place] == NONE) continue;
        int32_t *row = &net->links.at[paths[place]].row;
        if (*row == NONE) *row = (int32_t)net->counts.at->rows++;
    }
}

/* Advance the time. */
void move_to(struct network *net, double time) {
    net->counts.at->now = time;
    widen(net, time);
}

/* Double the width of the bins until they reach up to a time. */
void widen(struct network *net, double time) {
    struct counts *counts = net->counts.at;
    int64_t factor = 1;
    while (time > BINS * counts->width) {
        counts->width *= 2;
        counts->bins /= 2;
        factor = 2 * factor < BINS ? 2 * factor : BINS;
    }
    if (factor == 1) return;
    int64_t links = net->series.width;
    for (int64_t bin = 0; bin < BINS; bin++) {
        double *sum = net->series.at + bin * links;
        if (bin) memset(sum, 0, (size_t)links * sizeof *sum); /* of bin 0 it has the first already */
        for (int64_t old = bin ? bin * factor : 1; old < (bin + 1) * factor && old < BINS; old++)
            for (int64_t link = 0; link < links; link++)
                sum[link] += net->series.at[old * links + link];
    }
}

static int64_t bin_of(const struct counts *counts, double time) {
    int64_t bin = (int64_t)(time * counts->bins); /* a division takes longer than all else */
    return bin < BINS - 1 ? bin : BINS - 1;
}

/* Add the bytes that a message carried evenly over its path between two times. */
void record(struct network *net, const int32_t *path, int64_t hops, double nbytes, double since,
            double until) {
    const struct counts *counts = net->counts.at;
    int64_t first = bin_of(counts, since), last = bin_of(counts, until), links = net->series.width;
    double width = counts->width, rate = first == last ? 0 : nbytes / (until - since);
    for (int64_t hop = 0; hop < hops; hop++) {
        double *bin = net->series.at + first * links + net->links.at[path[hop]].row;
        if (first == last) {
            *bin += nbytes;
            continue;
        }
        *bin += rate * ((double)(first + 1) * width - since);
        for (int64_t between = first + 1; between < last; between++)
            *(bin += links) += rate * width;
        *(bin + links) += rate * (until - (double)last * width);
    }
}
