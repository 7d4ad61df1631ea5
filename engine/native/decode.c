/* A whole forward pass for a few rows: decoding, where torch would spend more time between its operators than in them.
 *
 * Weights are multiplied as they are stored, in blocks of 32 inputs with a scale and a minimum each: weight =
 * scale * code + minimum. The rows are rounded to 8 bits a block (scale = largest / 127), so a block is 32 products of
 * small integers, and sum(w x) = scale_w scale_x sum(code q) + minimum scale_x sum(q). Sixteen outputs are the lanes of a
 * vector. A row's result does not depend on the rows beside it.
 *
 * All layers run in one parallel region; a barrier stands wherever a thread needs what the others made.
 */
#include "attention.h"
#include "vector.h"

#define BLOCK 32
#define QUADS 8 /* groups of four inputs in a block */
#define ROWS 8  /* rows that share the unpacking of a block */

typedef struct {
    int64_t outputs, inputs, bits; /* bits of a code: 4 or 8 */
    const uint8_t *codes;          /* [outputs / 16][inputs / 32]: 4 or 8 vectors of [16 outputs][4 inputs] */
    const uint16_t *scales;        /* float16 [outputs / 16][inputs / 32][16] */
    const uint16_t *minima;        /* the same, or NULL: the minimum is -zero * scale */
    const float *bias;             /* [outputs] or NULL */
    float zero;
} Matrix;

typedef struct {
    Matrix qkv, output, gate_up, down;
    const float *attention_norm, *mlp_norm;
} DecoderLayer;

typedef struct {
    int64_t layers, hidden, inner;
    float eps, scale; /* of the norms, of the scores */
    const DecoderLayer *layer;
    const float *norm;
    Matrix head;
} Model;

typedef struct {
    const Plan *plan;
    float *x;                 /* [rows][hidden], the embeddings; overwritten */
    const float *cos, *sin;   /* [rows][head_dim]; the sine is negative in the first half */
    void *const *keys, *const *values; /* the pools of each layer */
    const int64_t *sampled;   /* [sampled_count] rows that want logits */
    int64_t sampled_count;
    float *logits;            /* [sampled_count][vocabulary] */
    /* room, for rows of the widest input */
    int8_t *codes;            /* [rows][inputs] */
    float *scales, *sums;     /* [rows][inputs / 32] */
    void *q, *mixed;          /* [rows][heads][head_dim] in the dtype of the pool */
    float *inner;             /* [rows][inner] */
    int64_t *counters;        /* [layers + 1][PHASES], zero */
    AttentionWork *attention; /* [layers] */
    Layer *attended;          /* [layers] */
} Step;

enum { NORM, QKV, ROUND_MIXED, OUTPUT, MLP_NORM, GATE_UP, ROUND_INNER, DOWN, PHASES };

#if defined(WIDE) && defined(__AVX512VNNI__)
#define CAN_DECODE 1

typedef int32_t quad __attribute__((may_alias)); /* four codes of a row */

static inline vec from_half(const uint16_t *p) {
    return (vec)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}

static inline void unpack(const uint8_t *codes, int64_t bits, __m512i out[QUADS]) {
    if (bits == 8) {
        for (int i = 0; i < QUADS; i++) out[i] = _mm512_loadu_si512(codes + 64 * i);
        return;
    }
    __m512i low = _mm512_set1_epi8(15);
    for (int i = 0; i < QUADS / 2; i++) {
        __m512i both = _mm512_loadu_si512(codes + 64 * i);
        out[2 * i] = _mm512_and_si512(both, low);
        out[2 * i + 1] = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
    }
}

/* 16 outputs of `count` rows from `first` on. */
static inline __attribute__((always_inline)) void multiply(const Matrix *m, const Step *step, int64_t group, int64_t first,
                                                           int count, int64_t bits, vec out[ROWS]) {
    int64_t blocks = m->inputs / BLOCK, bytes = bits * 64;
    const uint8_t *codes = m->codes + group * blocks * bytes;
    const uint16_t *scales = m->scales + group * blocks * LANES;
    const uint16_t *minima = m->minima ? m->minima + group * blocks * LANES : NULL;
    vec start = m->bias ? load(m->bias + group * LANES) : splat(0.f);
    vec sum[ROWS];
    for (int r = 0; r < count; r++) sum[r] = start;
    for (int64_t b = 0; b < blocks; b++) {
        __m512i weights[QUADS];
        unpack(codes + b * bytes, bits, weights);
        vec scale = from_half(scales + b * LANES);
        vec minimum = minima ? from_half(minima + b * LANES) : scale * splat(-m->zero);
        for (int r = 0; r < count; r++) {
            const quad *x = (const quad *)(step->codes + (first + r) * m->inputs + b * BLOCK);
            __m512i even = _mm512_setzero_si512(), odd = even;
            for (int i = 0; i < QUADS; i += 2) {
                even = _mm512_dpbusd_epi32(even, weights[i], _mm512_set1_epi32(x[i]));
                odd = _mm512_dpbusd_epi32(odd, weights[i + 1], _mm512_set1_epi32(x[i + 1]));
            }
            vec products = (vec)_mm512_cvtepi32_ps(_mm512_add_epi32(even, odd));
            int64_t place = (first + r) * blocks + b;
            sum[r] += products * (scale * splat(step->scales[place])) + minimum * splat(step->sums[place]);
        }
    }
    for (int r = 0; r < count; r++) out[r] = sum[r];
}
static void rows_of_group(const Matrix *m, const Step *step, int64_t group, int64_t first, int64_t count, vec out[ROWS]) {
#define CASE(n) \
    case n: \
        if (m->bits == 4) multiply(m, step, group, first, n, 4, out); \
        else multiply(m, step, group, first, n, 8, out); \
        return;
    switch (count) { CASE(1) CASE(2) CASE(3) CASE(4) CASE(5) CASE(6) CASE(7) CASE(8) }
}

static void round_row(const Step *step, int64_t row, const float *x, int64_t inputs) {
    int8_t *codes = step->codes + row * inputs;
    for (int64_t b = 0; b < inputs / BLOCK; b++) {
        __m512 low = _mm512_loadu_ps(x + b * BLOCK), high = _mm512_loadu_ps(x + b * BLOCK + LANES);
        float largest = _mm512_reduce_max_ps(_mm512_max_ps(_mm512_abs_ps(low), _mm512_abs_ps(high)));
        __m512 factor = _mm512_set1_ps(largest > 0.f ? 127.f / largest : 0.f);
        __m512i first = _mm512_cvtps_epi32(_mm512_mul_ps(low, factor));
        __m512i second = _mm512_cvtps_epi32(_mm512_mul_ps(high, factor));
        _mm_storeu_si128((__m128i *)(codes + b * BLOCK), _mm512_cvtepi32_epi8(first));
        _mm_storeu_si128((__m128i *)(codes + b * BLOCK + LANES), _mm512_cvtepi32_epi8(second));
        int64_t place = row * (inputs / BLOCK) + b;
        step->scales[place] = largest / 127.f;
        step->sums[place] = largest / 127.f * (float)_mm512_reduce_add_epi32(_mm512_add_epi32(first, second));
    }
}

/* Root-mean-square norm, rounded as input `to` of the next matrix. */
static void norm_row(const Model *model, const Step *step, const float *x, const float *weight, int64_t to) {
    int64_t hidden = model->hidden;
    float normed[hidden];
    vec squares = splat(0.f);
    for (int64_t i = 0; i < hidden; i += LANES) squares += load(x + i) * load(x + i);
    vec factor = splat(1.f / __builtin_sqrtf(_mm512_reduce_add_ps((__m512)squares) / (float)hidden + model->eps));
    for (int64_t i = 0; i < hidden; i += LANES) store(normed + i, load(x + i) * factor * load(weight + i));
    round_row(step, to, normed, hidden);
}

static void put(void *to, int64_t place, const float *from, int64_t count, int64_t bits) {
    for (int64_t i = 0; i < count; i += LANES)
        if (bits == 16) store_bf16((bf16 *)to + place + i, load(from + i));
        else store((float *)to + place + i, load(from + i));
}

/* One head of q, k or v for all rows: queries turned and kept, keys turned and values as they are to their slots. */
static void project_head(const Model *model, const Step *step, const Layer *layer, const DecoderLayer *weights, int64_t head) {
    const Plan *plan = step->plan;
    (void)model;
    int64_t dim = plan->head_dim, groups = dim / LANES, key = head - plan->heads, value = key - plan->kv_heads;
    for (int64_t first = 0; first < plan->tokens; first += ROWS) {
        int64_t count = plan->tokens - first < ROWS ? plan->tokens - first : ROWS;
        float whole[ROWS][dim], turned[dim];
        for (int64_t g = 0; g < groups; g++) {
            vec out[ROWS];
            rows_of_group(&weights->qkv, step, head * groups + g, first, count, out);
            for (int64_t r = 0; r < count; r++) store(&whole[r][g * LANES], out[r]);
        }
        for (int64_t r = 0; r < count; r++) {
            int64_t row = first + r, slot = plan->slots[row];
            if (value >= 0) {
                put(layer->values, (value * plan->pool_slots + slot) * dim, whole[r], dim, plan->bits);
                continue;
            }
            const float *cos = step->cos + row * dim, *sin = step->sin + row * dim;
            for (int64_t d = 0; d < dim; d++)
                turned[d] = whole[r][d] * cos[d] + whole[r][d < dim / 2 ? d + dim / 2 : d - dim / 2] * sin[d];
            if (key >= 0) put(layer->keys, (key * plan->pool_slots + slot) * dim, turned, dim, plan->bits);
            else put(step->q, (row * plan->heads + head) * dim, turned, dim, plan->bits);
        }
    }
}

static void add_to(const Matrix *m, const Step *step, float *x, int64_t group) {
    for (int64_t first = 0; first < step->plan->tokens; first += ROWS) {
        int64_t count = step->plan->tokens - first < ROWS ? step->plan->tokens - first : ROWS;
        vec out[ROWS];
        rows_of_group(m, step, group, first, count, out);
        for (int64_t r = 0; r < count; r++) {
            float *to = x + (first + r) * m->outputs + group * LANES;
            store(to, load(to) + out[r]);
        }
    }
}

static void gate_group(const Model *model, const Step *step, const Matrix *m, int64_t group) {
    for (int64_t first = 0; first < step->plan->tokens; first += ROWS) {
        int64_t count = step->plan->tokens - first < ROWS ? step->plan->tokens - first : ROWS;
        vec gate[ROWS], up[ROWS];
        rows_of_group(m, step, group, first, count, gate);
        rows_of_group(m, step, group + model->inner / LANES, first, count, up);
        for (int64_t r = 0; r < count; r++) {
            vec share = splat(1.f) / (splat(1.f) + exp2_fine(gate[r] * splat(-1.44269504f)));
            store(step->inner + (first + r) * model->inner + group * LANES, gate[r] * share * up[r]);
        }
    }
}

static void round_mixed(const Step *step, int64_t row) {
    int64_t width = step->plan->heads * step->plan->head_dim;
    float x[width];
    if (step->plan->bits == 16)
        for (int64_t i = 0; i < width; i += LANES) store(x + i, load_bf16((const bf16 *)step->mixed + row * width + i));
    else memcpy(x, (const float *)step->mixed + row * width, sizeof x);
    round_row(step, row, x, width);
}

typedef struct {
    const Model *model;
    const Step *step;
} Pass;

static void forward(void *argument) {
    const Model *model = ((Pass *)argument)->model;
    const Step *step = ((Pass *)argument)->step;
    const Plan *plan = step->plan;
#define SYNC if (plan->threads > 1) plan->barrier()
    for (int64_t l = 0; l < model->layers; l++) {
        const DecoderLayer *layer = model->layer + l;
        int64_t *next = step->counters + l * PHASES;
        EACH(next[NORM], plan->tokens, 1) norm_row(model, step, step->x + i * model->hidden, layer->attention_norm, i);
        SYNC;
        EACH(next[QKV], plan->heads + 2 * plan->kv_heads, 1) project_head(model, step, step->attended + l, layer, i);
        SYNC;
        attend_from_pool(step->attention + l);
        SYNC;
        EACH(next[ROUND_MIXED], plan->tokens, 1) round_mixed(step, i);
        SYNC;
        EACH(next[OUTPUT], layer->output.outputs / LANES, 1) add_to(&layer->output, step, step->x, i);
        SYNC;
        EACH(next[MLP_NORM], plan->tokens, 1) norm_row(model, step, step->x + i * model->hidden, layer->mlp_norm, i);
        SYNC;
        EACH(next[GATE_UP], model->inner / LANES, 1) gate_group(model, step, &layer->gate_up, i);
        SYNC;
        EACH(next[ROUND_INNER], plan->tokens, 1) round_row(step, i, step->inner + i * model->inner, model->inner);
        SYNC;
        EACH(next[DOWN], layer->down.outputs / LANES, 1) add_to(&layer->down, step, step->x, i);
        SYNC;
    }
    int64_t *next = step->counters + model->layers * PHASES;
    EACH(next[NORM], step->sampled_count, 1)
        norm_row(model, step, step->x + step->sampled[i] * model->hidden, model->norm, i);
    SYNC;
    EACH(next[OUTPUT], model->head.outputs / LANES, 16)
        for (int64_t group = i; group < i + 16 && group < model->head.outputs / LANES; group++)
            for (int64_t first = 0; first < step->sampled_count; first += ROWS) {
                int64_t count = step->sampled_count - first < ROWS ? step->sampled_count - first : ROWS;
                vec out[ROWS];
                rows_of_group(&model->head, step, group, first, count, out);
                for (int64_t r = 0; r < count; r++)
                    store(step->logits + (first + r) * model->head.outputs + group * LANES, out[r]);
            }
}

EXPORT int sapwood_can_decode(void) { return 1; }

EXPORT void sapwood_decode(const Model *model, const Step *step) {
    for (int64_t l = 0; l < model->layers; l++) {
        step->attended[l] = (Layer){step->q, 0, 0, step->plan->heads * step->plan->head_dim, 0, 0, step->keys[l],
                                    step->values[l], step->mixed};
        step->attention[l] = attention_work(step->plan, step->attended + l, model->scale);
    }
    Pass pass = {model, step};
    if (step->plan->threads > 1) step->plan->parallel(forward, &pass, (unsigned)step->plan->threads, 0);
    else forward(&pass);
}

#else

EXPORT int sapwood_can_decode(void) { return 0; }
EXPORT void sapwood_decode(const Model *model, const Step *step) { (void)model, (void)step; }

#endif
