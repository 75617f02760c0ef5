/* Agenda: future events in a binary heap of instants, each with a list of its events. */

#include "network.h"

#include <math.h>
#include <string.h>

/* Put an instant at a place in the heap. */
static void stand(struct network *net, int64_t place, int32_t instant, double key) {
    net->heap.at[place] = instant;
    net->keys.at[place] = key;
    net->instants.at[instant].place = (int32_t)place;
}

/* Move an instant towards the top of the heap until the one above it is no later. */
static void rise(struct network *net, int64_t place) {
    int32_t instant = net->heap.at[place];
    double key = net->keys.at[place];
    while (place) {
        int64_t above = (place - 1) >> 1;
        if (net->keys.at[above] <= key) break;
        stand(net, place, net->heap.at[above], net->keys.at[above]);
        place = above;
    }
    stand(net, place, instant, key);
}

/* The child of a place with the smallest key, if that is less than key, else NONE. */
int64_t smaller_below(const double *keys, int64_t place, int64_t size, double key) {
    int64_t below = 2 * place + 1;
    if (below + 1 < size && keys[below + 1] < keys[below]) below++;
    return below < size && keys[below] < key ? below : NONE;
}

/* Move an instant down the heap until none below it is earlier. */
static void sink(struct network *net, int64_t place) {
    const double *keys = net->keys.at;
    int64_t size = net->counts.at->heap, below;
    int32_t instant = net->heap.at[place];
    double key = keys[place];
    while ((below = smaller_below(keys, place, size, key)) != NONE) {
        stand(net, place, net->heap.at[below], keys[below]);
        place = below;
    }
    stand(net, place, instant, key);
}

/* Take an instant out of the heap. */
void forget(struct network *net, int64_t number) {
    struct counts *counts = net->counts.at;
    struct instant *instant = net->instants.at + number;
    int64_t place = instant->place, last = --counts->heap;
    if (place != last) {
        stand(net, place, net->heap.at[last], net->keys.at[last]);
        sink(net, place);
        rise(net, place);
    }
    instant->time = -1;
    net->spare_instants.at[counts->spare_instants++] = (int32_t)number;
}

/* The place in recent of instants at about a time: alike for times that are about SAME. */
static int64_t memo_of(double time) {
    int64_t bits;
    memcpy(&bits, &time, sizeof bits);
    bits >>= 12;
    return (bits ^ bits >> 17) & (INSTANTS - 1);
}

/* Put an event into the agenda. */
void put(struct network *net, int64_t event, double time) {
    struct counts *counts = net->counts.at;
    int32_t *recent = net->recent.at + memo_of(time), number = *recent;
    if (number == NONE || fabs(net->instants.at[number].time - time) > SAME * time) {
        *recent = number = net->spare_instants.at[--counts->spare_instants];
        net->instants.at[number].time = time;
        net->instants.at[number].first = NONE;
        stand(net, counts->heap, number, time);
        rise(net, counts->heap++);
    }
    int32_t first = net->instants.at[number].first;
    net->events.at[event] = (struct event){.following = first, .before = NONE, .instant = number};
    if (first != NONE) net->events.at[first].before = (int32_t)event;
    net->instants.at[number].first = (int32_t)event;
}

/* Take an event out of the agenda, if it is there. */
void drop(struct network *net, int64_t event) {
    struct event *here = net->events.at + event;
    int32_t number = here->instant;
    if (number == NONE) return;
    if (here->following != NONE) net->events.at[here->following].before = here->before;
    if (here->before != NONE) {
        net->events.at[here->before].following = here->following;
    } else {
        net->instants.at[number].first = here->following;
        if (here->following == NONE) forget(net, number);
    }
    here->instant = NONE;
}
