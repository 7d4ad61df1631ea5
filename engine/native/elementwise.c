/* What stands between the matrix products of a prompt, each in one pass over its rows: torch takes one pass for every
 * operator. Tensors are bfloat16 or float32 (`bits`); all arithmetic is float32.
 */
#include "attention.h" /* EACH */
#include "vector.h"

typedef struct {
    int64_t rows, width, bits, threads; /* width of one row of the result */
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    void *x;           /* changed in place, or read */
    const void *other; /* what is added to x, or NULL */
    void *out;
    const float *a, *b; /* weights of the norm; or cosines and sines, [rows][head_dim] */
    int64_t stride;     /* elements from row to row of x */
    int64_t parts;      /* heads to turn */
    float eps;
    int64_t next;
} Elementwise;

#define ROWS_AT_ONCE 8

static inline vec get(const void *from, int64_t place, int64_t bits) {
    return bits == 16 ? load_bf16((const bf16 *)from + place) : load((const float *)from + place);
}
static inline void set(void *to, int64_t place, vec x, int64_t bits) {
    if (bits == 16) store_bf16((bf16 *)to + place, x);
    else store((float *)to + place, x);
}
static inline float sum_lanes(vec x) {
    float total = 0.f;
    for (int i = 0; i < LANES; i++) total += x[i];
    return total;
}

static inline __attribute__((always_inline)) void norm_row(const Elementwise *e, int64_t row, int64_t bits) {
    int64_t place = row * e->width;
    vec squares = splat(0.f);
    for (int64_t i = 0; i < e->width; i += LANES) {
        vec x = get(e->x, place + i, bits);
        if (e->other) {
            set(e->x, place + i, x + get(e->other, place + i, bits), bits);
            x = get(e->x, place + i, bits); /* as it was rounded */
        }
        squares += x * x;
    }
    vec factor = splat(1.f / __builtin_sqrtf(sum_lanes(squares) / (float)e->width + e->eps));
    for (int64_t i = 0; i < e->width; i += LANES) set(e->out, place + i, get(e->x, place + i, bits) * factor * load(e->a + i), bits);
}

static inline __attribute__((always_inline)) void gate_row(const Elementwise *e, int64_t row, int64_t bits) {
    for (int64_t i = 0; i < e->width; i += LANES) {
        vec gate = get(e->x, row * e->stride + i, bits), up = get(e->x, row * e->stride + e->width + i, bits);
        vec share = splat(1.f) / (splat(1.f) + exp2_fine(gate * splat(-1.44269504f)));
        set(e->out, row * e->width + i, gate * share * up, bits);
    }
}

static inline __attribute__((always_inline)) void turn_row(const Elementwise *e, int64_t row, int64_t bits) {
    int64_t half = e->width / 2;
    const float *cos = e->a + row * e->width, *sin = e->b + row * e->width;
    for (int64_t part = 0; part < e->parts; part++) {
        int64_t place = row * e->stride + part * e->width;
        for (int64_t i = 0; i < half; i += LANES) {
            vec low = get(e->x, place + i, bits), high = get(e->x, place + half + i, bits);
            set(e->x, place + i, low * load(cos + i) + high * load(sin + i), bits);
            set(e->x, place + half + i, high * load(cos + half + i) + low * load(sin + half + i), bits);
        }
    }
}

#define WORKER(name, row_function) \
    static void name##_worker(void *argument) { \
        Elementwise *e = argument; \
        EACH(e->next, e->rows, ROWS_AT_ONCE) \
            for (int64_t row = i; row < i + ROWS_AT_ONCE && row < e->rows; row++) \
                if (e->bits == 16) row_function(e, row, 16); \
                else row_function(e, row, 32); \
    } \
    EXPORT void sapwood_##name(Elementwise *e) { \
        if (e->threads > 1 && e->rows > ROWS_AT_ONCE) e->parallel(name##_worker, e, (unsigned)e->threads, 0); \
        else name##_worker(e); \
    }

/* x += other (where there is one), out = x / rms(x) * a */
WORKER(norm, norm_row)
/* x: [rows][gate, up]; out = silu(gate) * up */
WORKER(gate, gate_row)
/* The first `parts` heads of each row of x, turned in place; b is negative in the first half. */
WORKER(turn, turn_row)
