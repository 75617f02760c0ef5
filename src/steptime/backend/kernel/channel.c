/* The two ends of a channel.

   An offer is a random number in a word of shared memory. The reader copies the payload, then looks
   whether the number is still there: only then the payload had not been withdrawn before it was copied.
   Who copies out of the writer's address space reads that word through it too, and so finds the number
   only if this is the process that made the offer. */

#define _GNU_SOURCE
#include "channel.h"

#include <string.h>
#include <sys/random.h>
#include <sys/uio.h>

#define PIECE_BYTES (RING_BYTES / 4) /* so that both sides work at once on what is larger */
#define MOST_BYTES ((size_t)1 << 30) /* of one system call */

/* Words of shared memory: those of the writer, then those of the reader. */
enum { WRITTEN = 0, READER_ASLEEP = 1, OFFER = 2 };
enum { READ = LINE, WRITER_ASLEEP = LINE + 1, REFUSED = LINE + 2 };

/* Words of a head after those that Python writes too: an offer, or 0; where the payload and the offer
   are in the writer's address space, and where the payload is in its arena. */
enum { OFFERED = HEAD_WORDS, PLACE, OFFER_PLACE, WHERE };

static size_t aligned(size_t bytes) { return (bytes + HEAD_BYTES - 1) / HEAD_BYTES * HEAD_BYTES; }

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* What only this side writes. */
static uint64_t own(struct channel *channel, int index) {
    return atomic_load_explicit(&channel->words[index], memory_order_relaxed);
}

static void publish(struct channel *channel, int index, uint64_t count) {
    int asleep = index == WRITTEN ? READER_ASLEEP : WRITER_ASLEEP;
    advance(&channel->words[index], count, &channel->words[asleep], 1);
}

static int await_count(struct channel *channel, int index, uint64_t count) {
    int asleep = index == WRITTEN ? READER_ASLEEP : WRITER_ASLEEP;
    word *counter = &channel->words[index];
    channel->awaited = counter;
    channel->count = count;
    return reached(counter, count) ||
           wait_for(counter, count, &channel->words[asleep], channel->looks);
}

/* Whether the reader has read so many bytes. Its word lies in another processor's cache, so it is asked
   anew only where what it had read before is too little. */
static int has_read(struct channel *channel, uint64_t count) {
    if (channel->read < count)
        channel->read = atomic_load_explicit(&channel->words[READ], memory_order_acquire);
    return channel->read >= count;
}

/* Whether there is room for so many bytes more. */
static int has_room(struct channel *channel, size_t bytes) {
    uint64_t end = own(channel, WRITTEN) + bytes;
    return end <= RING_BYTES || has_read(channel, end - RING_BYTES);
}

/* Whether there is, now or within some 50 ms. */
static int await_room(struct channel *channel, size_t bytes) {
    if (has_room(channel, bytes)) return 1;
    return await_count(channel, READ, own(channel, WRITTEN) + bytes - RING_BYTES);
}

/* The next piece of a message at ``at`` bytes: where in the ring, and how many bytes. */
static size_t piece(const struct channel *channel, uint64_t at, uint8_t **place) {
    size_t start = (at + channel->ahead) % RING_BYTES;
    *place = channel->ring + start;
    return least(least(channel->bytes - channel->done, PIECE_BYTES), RING_BYTES - start);
}

static void write_head(struct channel *channel, uint64_t at, uint64_t offer) {
    uint64_t *head = (uint64_t *)(channel->ring + at % RING_BYTES);
    memcpy(head, channel->head, sizeof channel->head);
    head[OFFERED] = offer;
    head[PLACE] = (uintptr_t)channel->payload;
    head[OFFER_PLACE] = (uintptr_t)&channel->words[OFFER];
    head[WHERE] = channel->where;
}

static enum step write_pieces(struct channel *channel) {
    while (channel->ahead || channel->done < channel->bytes) {
        uint64_t written = own(channel, WRITTEN);
        uint8_t *place;
        size_t size = piece(channel, written, &place), more = channel->ahead + aligned(size);
        if (!await_room(channel, more)) return WAITING;
        if (channel->ahead) write_head(channel, written, 0);
        memcpy(place, channel->payload + channel->done, size);
        channel->done += size;
        channel->ahead = 0;
        publish(channel, WRITTEN, written + more);
    }
    return FINISHED;
}

static uint64_t random_number(void) {
    uint64_t number = 0;
    return getrandom(&number, sizeof number, 0) == sizeof number ? number : 0;
}

static void set_offer(struct channel *channel, uint64_t offer) {
    channel->offer = offer;
    atomic_store_explicit(&channel->words[OFFER], offer, memory_order_relaxed);
    atomic_thread_fence(memory_order_seq_cst); /* before the payload changes again */
}

/* Write the head of an offer; there is room for it. */
static void publish_offer(struct channel *channel) {
    uint64_t written = own(channel, WRITTEN);
    write_head(channel, written, channel->offer);
    channel->ahead = 0;
    publish(channel, WRITTEN, written + HEAD_BYTES);
}

/* Offer the message, then wait until the reader has it, or refuses it. */
static enum step offer(struct channel *channel) {
    if (channel->ahead) {
        if (!await_room(channel, HEAD_BYTES)) return WAITING;
        publish_offer(channel);
    }
    if (!await_count(channel, READ, own(channel, WRITTEN))) return WAITING;
    int refused = atomic_load_explicit(&channel->words[REFUSED], memory_order_relaxed) == channel->offer;
    channel->refused |= refused;
    set_offer(channel, 0);
    return refused ? write_pieces(channel) : FINISHED;
}

/* Whether it is no use to offer what lies there: the reader may not read this process' memory. */
static int is_hopeless(const struct channel *channel, uint64_t where) {
    return channel->refused && where == CLOSED;
}

static void begin(struct channel *channel, const void *call, int64_t tag, uint8_t *payload,
                  size_t bytes, uint64_t where) {
    memcpy(channel->head, call, CALL_WORDS * sizeof(word));
    channel->head[CALL_WORDS] = (uint64_t)tag;
    channel->payload = payload;
    channel->bytes = bytes;
    channel->where = where;
    channel->done = 0;
    channel->ahead = HEAD_BYTES;
    if (bytes > EAGER_BYTES && !is_hopeless(channel, where)) set_offer(channel, random_number());
    channel->writing = 1;
}

enum step channel_put(struct channel *channel, const void *call, int64_t tag, uint8_t *payload,
                      size_t bytes, uint64_t where) {
    begin(channel, call, tag, payload, bytes, where);
    return channel_go_on(channel);
}

int channel_is_free(struct channel *channel) {
    if (!channel->writing) return 1;
    return channel->offer && has_read(channel, own(channel, WRITTEN)) && channel_go_on(channel) == FINISHED;
}

int channel_try_put(struct channel *channel, const void *call, int64_t tag, const uint8_t *payload,
                    size_t bytes) {
    if (bytes > EAGER_BYTES || !channel_is_free(channel) ||
        !has_room(channel, HEAD_BYTES + aligned(bytes)))
        return 0;
    return channel_put(channel, call, tag, (uint8_t *)payload, bytes, CLOSED) == FINISHED;
}

int channel_offer(struct channel *channel, const void *call, int64_t tag, uint8_t *payload,
                  size_t bytes, uint64_t where) {
    if (bytes <= EAGER_BYTES || !channel_is_free(channel) || is_hopeless(channel, where) ||
        !has_room(channel, HEAD_BYTES))
        return 0;
    begin(channel, call, tag, payload, bytes, where);
    if (channel->offer) publish_offer(channel);
    else channel->writing = 0; /* no number was to be had */
    return channel->writing;
}

static enum step read_pieces(struct channel *channel) {
    while (channel->ahead || channel->done < channel->bytes) {
        uint64_t read = own(channel, READ);
        uint8_t *place;
        size_t size = piece(channel, read, &place);
        uint64_t end = read + channel->ahead + aligned(size);
        if (!await_count(channel, WRITTEN, end)) return WAITING;
        memcpy(channel->payload + channel->done, place, size);
        channel->done += size;
        channel->ahead = 0;
        publish(channel, READ, end);
    }
    return FINISHED;
}

/* Copy from the other process; whether all bytes came. */
static int copy_from(pid_t process, uint64_t place, void *target, size_t bytes) {
    for (size_t done = 0; done < bytes;) {
        size_t size = least(bytes - done, MOST_BYTES);
        struct iovec here = {(uint8_t *)target + done, size};
        struct iovec there = {(void *)(uintptr_t)(place + done), size};
        ssize_t copied = process_vm_readv(process, &here, 1, &there, 1, 0);
        if (copied <= 0) return 0;
        done += (size_t)copied;
    }
    return 1;
}

/* Where the payload of an offer is mapped here; NULL where it is not. */
static const uint8_t *mapped(const struct channel *channel, const uint64_t *head) {
    const struct mapping *arena = &channel->arena;
    int within = head[WHERE] != CLOSED && arena->start <= head[WHERE] && head[WHERE] < arena->end;
    return within ? arena->address + (head[WHERE] - arena->start) : NULL;
}

/* Take an offer, or refuse it. */
static enum step accept(struct channel *channel, const uint64_t *head) {
    uint64_t found = 0, offered = head[OFFERED], read = own(channel, READ);
    const uint8_t *there = mapped(channel, head);
    int came = 1;
    if (there) memcpy(channel->payload, there, channel->bytes);
    else came = copy_from(channel->writer, head[PLACE], channel->payload, channel->bytes);
    atomic_thread_fence(memory_order_seq_cst); /* the payload is read before the offer */
    if (there) found = atomic_load_explicit(&channel->words[OFFER], memory_order_relaxed);
    else came = came && copy_from(channel->writer, head[OFFER_PLACE], &found, sizeof found);
    channel->ahead = 0;
    channel->done = came && found == offered ? channel->bytes : 0;
    if (!channel->done)
        atomic_store_explicit(&channel->words[REFUSED], offered, memory_order_relaxed);
    publish(channel, READ, read + HEAD_BYTES);
    return read_pieces(channel);
}

enum step channel_get(struct channel *channel, uint8_t *payload, size_t bytes) {
    const uint64_t *head = channel_next(channel);
    channel->payload = payload;
    channel->bytes = bytes;
    channel->done = 0;
    channel->ahead = HEAD_BYTES;
    channel->reading = 1;
    enum step step = head && head[OFFERED] ? accept(channel, head) : read_pieces(channel);
    if (step == FINISHED) channel->reading = 0;
    return step;
}

enum step channel_go_on(struct channel *channel) {
    enum step step = channel->reading ? read_pieces(channel)
                     : channel->offer ? offer(channel)
                                      : write_pieces(channel);
    if (step == FINISHED) channel->reading = channel->writing = 0;
    return step;
}

const uint64_t *channel_next(struct channel *channel) {
    uint64_t read = own(channel, READ);
    if (!reached(&channel->words[WRITTEN], read + 1)) return NULL;
    return (const uint64_t *)(channel->ring + read % RING_BYTES);
}

int channel_expect(struct channel *channel, enum patience patience) {
    return comes(&channel->words[WRITTEN], own(channel, READ) + 1, channel->looks, patience);
}

uint64_t channel_unmapped(struct channel *channel) {
    const uint64_t *head = channel_next(channel);
    return head && head[OFFERED] && !mapped(channel, head) ? head[WHERE] : CLOSED;
}

int channel_is_whole(struct channel *channel, size_t bytes) {
    const uint64_t *head = channel_next(channel);
    uint64_t end = own(channel, READ) + HEAD_BYTES + aligned(bytes);
    return head && (head[OFFERED] || reached(&channel->words[WRITTEN], end));
}

int channel_holds(struct channel *channel, const void *call, int64_t tag, size_t bytes) {
    const uint64_t *head = channel_next(channel), *wanted = call;
    if (!head || head[CALL_WORDS] != (uint64_t)tag || head[1] != wanted[1]) return 0;
    return ((const char *)head)[1] == ((const char *)call)[1] && channel_is_whole(channel, bytes);
}

void channel_withdraw(struct channel *channel) {
    if (channel->offer) set_offer(channel, 0);
}

int channel_await(struct channel *channel, uint64_t written) {
    word *words = channel->words;
    return wait_for(&words[WRITTEN], written + 1, &words[READER_ASLEEP], channel->looks);
}

int channel_waits(const struct channel *channel) {
    return channel->awaited && !reached(channel->awaited, channel->count);
}

uint64_t channel_written(struct channel *channel) {
    return atomic_load_explicit(&channel->words[WRITTEN], memory_order_acquire);
}
