/* A ring buffer of bytes: the oldest is overwritten when it is full. */
#ifndef RING_H
#define RING_H

#include <stddef.h>

#define RING_SIZE 4

struct ring {
    unsigned char bytes[RING_SIZE];
    size_t start, used;
};

void ring_clear(struct ring *ring);
void ring_push(struct ring *ring, unsigned char byte);
/* The oldest byte, or -1 where there is none. */
int ring_pop(struct ring *ring);

#endif
