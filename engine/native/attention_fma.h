/* The block products in float32 multiply-adds: every machine, every dtype. */

/* q: [lane group][head_dim][LANES] */
static void pack_query_fma(Scratch *scratch, int64_t lane, const void *q, int64_t bits, int64_t dim) {
    float *to = (float *)scratch->q + lane / LANES * LANES * dim + lane % LANES;
    for (int64_t d = 0; d < dim; d++) to[d * LANES] = bits == 16 ? wide(((const bf16 *)q)[d]) : ((const float *)q)[d];
}

static void widen(float *out, const bf16 *in, int64_t count) {
    for (int64_t i = 0; i < count; i += LANES) store(out + i, load_bf16(in + i));
}

/* k, v: float32 [slots][head_dim], and up to the next multiple of four slots anything finite. */
static void stage_fma(Scratch *scratch, const char *keys, const char *values, Cursor at, int64_t count, int64_t bits,
                      int64_t dim) {
    int64_t row = dim * bits / 8;
    int in_place = bits == 32 && count % 4 == 0;
    if (!in_place) {
        memset((float *)scratch->k + count / 4 * 4 * dim, 0, 4 * dim * sizeof(float) * (count % 4 != 0));
        memset((float *)scratch->v + count / 4 * 4 * dim, 0, 4 * dim * sizeof(float) * (count % 4 != 0));
    }
    if (bits == 32) {
        scratch->k = (void *)gather(keys, at, count, row, scratch->k, in_place);
        scratch->v = (void *)gather(values, at, count, row, scratch->v, in_place);
        return;
    }
    char copy[BLOCK * row];
    widen(scratch->k, gather(keys, at, count, row, copy, 1), count * dim);
    widen(scratch->v, gather(values, at, count, row, copy, 1), count * dim);
}

static inline __attribute__((always_inline)) void scores_fma_width(Scratch *scratch, int64_t group, int width, int64_t count,
                                                                   int64_t dim) {
    const float *q = (const float *)scratch->q + group * LANES * dim;
    for (int64_t s = 0; s < count; s += 4) {
        const float *k = (const float *)scratch->k + s * dim;
        vec sum[4][2] = {0};
        for (int64_t d = 0; d < dim; d++)
            for (int w = 0; w < width; w++) {
                vec lanes = load(q + (w * dim + d) * LANES);
                for (int i = 0; i < 4; i++) sum[i][w] += splat(k[i * dim + d]) * lanes;
            }
        for (int w = 0; w < width; w++)
            for (int i = 0; i < 4; i++) store(scratch->scores + (w * BLOCK + s + i) * LANES, sum[i][w]);
    }
}
static void scores_fma(Scratch *scratch, int64_t group, int width, int64_t count, int64_t dim) {
    if (width == 2) scores_fma_width(scratch, group, 2, count, dim);
    else scores_fma_width(scratch, group, 1, count, dim);
}

/* probs: float32 [2][BLOCK][LANES]. Returns their sum. */
static vec exponentials_fma(Scratch *scratch, int w, int64_t count, int full, ivec visible, float factor, vec top) {
    vec total = splat(0.f);
    const float *scores = scratch->scores + w * BLOCK * LANES;
    float *probs = (float *)scratch->probs + w * BLOCK * LANES;
    for (int64_t s = 0; s < count; s++) {
        vec p = exp2_fine(load(scores + s * LANES) * splat(factor) - top);
        if (!full) p = select_vec(visible > isplat((int32_t)s), p, splat(0.f));
        store(probs + s * LANES, p);
        total += p;
    }
    return total;
}

static inline __attribute__((always_inline)) void weigh_fma_width(Scratch *scratch, int64_t group, int width, int64_t count,
                                                                  int64_t dim) {
    const float *probs = scratch->probs;
    for (int64_t d = 0; d < dim; d += 4) {
        const float *v = (const float *)scratch->v + d;
        float *out = scratch->sum + (group * dim + d) * LANES;
        vec sum[4][2];
        for (int w = 0; w < width; w++)
            for (int i = 0; i < 4; i++) sum[i][w] = load(out + (w * dim + i) * LANES);
        for (int64_t s = 0; s < count; s++)
            for (int w = 0; w < width; w++) {
                vec lanes = load(probs + (w * BLOCK + s) * LANES);
                for (int i = 0; i < 4; i++) sum[i][w] += splat(v[s * dim + i]) * lanes;
            }
        for (int w = 0; w < width; w++)
            for (int i = 0; i < 4; i++) store(out + (w * dim + i) * LANES, sum[i][w]);
    }
}
static void weigh_fma(Scratch *scratch, int64_t group, int width, int64_t count, int64_t dim) {
    if (width == 2) weigh_fma_width(scratch, group, 2, count, dim);
    else weigh_fma_width(scratch, group, 1, count, dim);
}
