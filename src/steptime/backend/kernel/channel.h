/* A channel: messages from one process to another, one after the other, by a ring of bytes.

   The memory is laid out by channel.py of backend/host, whose Python works on the same words. What is
   too large for the ring the reader copies from where it lies: out of the writer's arena, which it has
   mapped, or else of the writer's own memory, where the system lets it. The writer *offers* a message,
   and the reader takes it or refuses; what was refused comes by the ring.

   No function waits longer than some 50 ms: what is not done by then ``channel_go_on`` goes on with, so
   that a caller may look at what else has happened. One thread at a time may write, and one may read. */

#ifndef STEPTIME_CHANNEL_H
#define STEPTIME_CHANNEL_H

#include <sys/types.h>

#include "group.h"

#define RING_BYTES (256 << 10)
#define HEAD_BYTES 128 /* in front of every message */
#define EAGER_BYTES (RING_BYTES - HEAD_BYTES) /* a larger message waits for its reader anyway */
#define HEAD_WORDS (CALL_WORDS + 1) /* the call, and the tag */

enum step { WAITING, FINISHED };

struct channel {
    word *words;   /* those of channel.py; then an offer, beside what its process writes: */
    uint8_t *ring; /* (RING_BYTES) */
    int looks;     /* at a counter before another process may run */
    pid_t writer;  /* as the reader calls it */
    uint64_t read; /* what the reader had read when it was last asked */
    /* The message that is being written, or read: */
    uint64_t head[HEAD_WORDS]; /* to be written */
    uint8_t *payload;
    size_t bytes, done, ahead; /* ``ahead``: HEAD_BYTES until the head is done */
    uint64_t where;            /* its payload in the writer's arena, or CLOSED */
    uint64_t offer;            /* how the present one is named, or 0 */
    word *awaited;             /* the counter that it waits for, until ``count`` */
    uint64_t count;
    int reading, writing, refused;
    struct mapping arena; /* the part of the writer's that is mapped here */
};

/* Write a message whose ``payload`` stays as it is until FINISHED, or ``channel_withdraw``. ``where``
   is its offset in this process' arena, or CLOSED. */
enum step channel_put(struct channel *channel, const void *call, int64_t tag, uint8_t *payload,
                      size_t bytes, uint64_t where);

/* Write a message now if there is room for it; whether there was. */
int channel_try_put(struct channel *channel, const void *call, int64_t tag, const uint8_t *payload,
                    size_t bytes);

/* Offer a message without waiting; whether that was possible. It is being written then, and nothing else
   can be until ``channel_go_on`` has finished it. */
int channel_offer(struct channel *channel, const void *call, int64_t tag, uint8_t *payload,
                  size_t bytes, uint64_t where);

/* Whether no message is half written, at least now that the reader has been looked for. */
int channel_is_free(struct channel *channel);

/* The head of the next message, some of which has arrived; NULL where none has. */
const uint64_t *channel_next(struct channel *channel);

/* Look for the next message so long; whether some of it has arrived. */
int channel_expect(struct channel *channel, enum patience patience);

/* The offset in the writer's arena of the next message, if it is there and ``arena`` does not hold it;
   else CLOSED. */
uint64_t channel_unmapped(struct channel *channel);

/* Read the next message, some of which has arrived, into ``payload``. */
enum step channel_get(struct channel *channel, uint8_t *payload, size_t bytes);

/* Whether the next message is to be had without waiting: all of it is here, or is offered. */
int channel_is_whole(struct channel *channel, size_t bytes);

/* Whether the next message is that of a call, by its tag and its type and number of elements, and is to
   be had without waiting. */
int channel_holds(struct channel *channel, const void *call, int64_t tag, size_t bytes);

/* Go on with the message that is being written, or read. */
enum step channel_go_on(struct channel *channel);

/* The writer leaves its message as it is: from here on its payload may change. */
void channel_withdraw(struct channel *channel);

/* Whether what ``channel_go_on`` would wait for has not come yet. */
int channel_waits(const struct channel *channel);

/* Wait for some 50 ms at most until more than ``written`` bytes have been written; whether so. */
int channel_await(struct channel *channel, uint64_t written);

uint64_t channel_written(struct channel *channel);

#endif
