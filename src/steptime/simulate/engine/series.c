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

/* Add to each bin what messages that last carry in it, and forget how that changes. */
static void level(struct network *net) {
    struct counts *counts = net->counts.at;
    int64_t links = net->series.width, used = counts->rows;
    if (!counts->lasting) return;
    counts->lasting = false;
    for (int64_t bin = 1; bin < BINS; bin++) { /* none lasts from before the first */
        double *sum = net->series.at + bin * links, *step = net->steps.at + bin * links;
        for (int64_t link = 0; link < used; link++) {
            step[link] += step[link - links];
            sum[link] += step[link];
        }
        memset(step - links, 0, (size_t)used * sizeof *step);
    }
    memset(net->steps.at + (BINS - 1) * links, 0, (size_t)used * sizeof(double));
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
    level(net);
    int64_t links = net->series.width, used = counts->rows;
    for (int64_t bin = 0; bin < BINS; bin++) {
        double *sum = net->series.at + bin * links;
        if (bin) memset(sum, 0, (size_t)used * sizeof *sum); /* of bin 0 it has the first already */
        for (int64_t old = bin ? bin * factor : 1; old < (bin + 1) * factor && old < BINS; old++)
            for (int64_t link = 0; link < used; link++)
                sum[link] += net->series.at[old * links + link];
    }
}

static int64_t bin_of(const struct counts *counts, double time) {
    int64_t bin = (int64_t)(time * counts->bins); /* a division takes longer than all else */
    return bin < BINS - 1 ? bin : BINS - 1;
}

/* Add the bytes that a message carried evenly over its path between two times.
 *
 * It takes the same time however many bins lie in between: what these have of it begins in one of
 * them and ends in another, and only those two steps are kept, until level adds them up.
 */
void record(struct network *net, const int32_t *path, int64_t hops, double nbytes, double since,
            double until) {
    struct counts *counts = net->counts.at;
    int64_t first = bin_of(counts, since), last = bin_of(counts, until), links = net->series.width;
    double width = counts->width, rate = first == last ? 0 : nbytes / (until - since);
    if (last > first + 1) counts->lasting = true;
    for (int64_t hop = 0; hop < hops; hop++) {
        int64_t row = net->links.at[path[hop]].row;
        double *bins = net->series.at + row;
        if (first == last) {
            bins[first * links] += nbytes;
            continue;
        }
        bins[first * links] += rate * ((double)(first + 1) * width - since);
        bins[last * links] += rate * (until - (double)last * width);
        if (last == first + 1) continue;
        net->steps.at[(first + 1) * links + row] += rate * width;
        net->steps.at[last * links + row] -= rate * width;
    }
}
