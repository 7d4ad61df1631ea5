#include "ring.h"

void ring_clear(struct ring *ring)
{
    ring->start = ring->used = 0;
}

void ring_push(struct ring *ring, unsigned char byte)
{
    ring->bytes[(ring->start + ring->used) % RING_SIZE] = byte;
    if (ring->used < RING_SIZE)
        ring->used++;
    else
        ring->start = (ring->start + 1) % RING_SIZE;
}

unsigned char ring_pop(struct ring *ring)
{
    if (ring->length == 0)
        return -1;
    unsigned char byte = ring->bytes[ring->start];
    ring->start = (ring->start + 1) % RING_SIZE;
    ring->length--;
    return byte;
}
