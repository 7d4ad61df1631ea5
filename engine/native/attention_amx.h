/* The block products in AMX tiles: bfloat16 in, float32 out; a tile is 16 rows of 64 bytes.
 *
 *     scores [slot][query] = K [slot][dim] x Q^T [dim pair][query]      K straight from the pool
 *     sum    [dim][query] += V^T [dim][slot] x P [slot pair][query]     V transposed once a block
 */
#include <sys/syscall.h>
#include <unistd.h>

#define ARCH_REQ_XCOMP_PERM 0x1023
#define XFEATURE_XTILEDATA 18

#define TILE 16
#define TILE_BYTES 1024
#define STEP 32 /* elements of the summed dimension in one tile product */

/* Linux gives tiles to a process that asks for them. */
static int tiles_allowed;
static __attribute__((constructor)) void ask_for_tiles(void) {
    tiles_allowed = syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA) == 0;
}

/* Tile loads do not tell the compiler that they read memory. */
#define FENCE __asm__ volatile("" : : : "memory")

typedef struct {
    uint8_t palette, start_row, reserved[14];
    uint16_t bytes[16];
    uint8_t rows[16];
} __attribute__((aligned(64))) TileConfig;

/* Sets the tiles up and returns what was configured before: other libraries keep theirs between calls. */
static TileConfig configure_tiles(void) {
    TileConfig before, wanted = {.palette = 1};
    __asm__ volatile("sttilecfg %0" : "=m"(before)); /* the intrinsics declare the first 8 bytes only */
    for (int i = 0; i < 8; i++) wanted.bytes[i] = 64, wanted.rows[i] = TILE;
    __asm__ volatile("ldtilecfg %0" : : "m"(wanted));
    return before;
}
static void restore_tiles(TileConfig before) {
    if (before.palette) __asm__ volatile("ldtilecfg %0" : : "m"(before));
    else _tile_release();
}

/* q: [lane group][dim step][16 dim pairs][LANES], 32 bits each */
static void pack_query_tiles(Scratch *scratch, int64_t lane, const uint32_t *q, int64_t dim) {
    uint32_t *to = (uint32_t *)scratch->q + lane / LANES * LANES * dim / 2 + lane % LANES;
    for (int64_t pair = 0; pair < dim / 2; pair++) to[pair * LANES] = q[pair];
}

static inline void transpose16(__m512i r[16]) {
    __m512i t[16];
    for (int i = 0; i < 16; i += 2) {
        t[i] = _mm512_unpacklo_epi32(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_epi32(r[i], r[i + 1]);
    }
    for (int i = 0; i < 16; i += 4) {
        r[i] = _mm512_unpacklo_epi64(t[i], t[i + 2]);
        r[i + 1] = _mm512_unpackhi_epi64(t[i], t[i + 2]);
        r[i + 2] = _mm512_unpacklo_epi64(t[i + 1], t[i + 3]);
        r[i + 3] = _mm512_unpackhi_epi64(t[i + 1], t[i + 3]);
    }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_i32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_i32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_i32x4(t[i], t[i + 8], 0xdd);
    }
}

/* v: [slot step][dim tile][16 dims][32 slots] bfloat16; slots from `count` on become 0. */
static void stage_tiles(Scratch *scratch, const char *keys, const char *values, Cursor at, int64_t count, int64_t dim) {
    int64_t row = dim * 2, rest = count % STEP;
    if (rest) memset((char *)scratch->k + count * row, 0, (STEP - rest) * row);
    scratch->k = (void *)gather(keys, at, count, row, scratch->k, rest == 0);
    char copy[BLOCK * row] __attribute__((aligned(64)));
    if (rest) memset(copy + count * row, 0, (STEP - rest) * row);
    const bf16 *v = gather(values, at, count, row, copy, rest == 0);
    bf16 *to = scratch->v;
    for (int64_t s = 0; s < count; s += STEP)
        for (int64_t d = 0; d < dim; d += TILE, to += TILE * STEP) {
            __m512i pairs[16];
            for (int i = 0; i < 16; i++) {
                __m256i even = _mm256_loadu_si256((const __m256i *)(v + (s + 2 * i) * dim + d));
                __m256i odd = _mm256_loadu_si256((const __m256i *)(v + (s + 2 * i + 1) * dim + d));
                pairs[i] = _mm512_or_si512(_mm512_cvtepu16_epi32(even), _mm512_slli_epi32(_mm512_cvtepu16_epi32(odd), 16));
            }
            transpose16(pairs);
            for (int i = 0; i < 16; i++) _mm512_store_si512(to + i * STEP, pairs[i]);
        }
}

static inline __attribute__((always_inline)) void scores_tiles_width(Scratch *scratch, int64_t group, int width,
                                                                     int64_t count, int64_t dim) {
    FENCE;
    const char *k = scratch->k, *q = (const char *)scratch->q + group * LANES * dim * 2;
    for (int64_t s = 0; s < count; s += 2 * TILE) {
        _tile_zero(0);
        _tile_zero(1);
        if (width == 2) {
            _tile_zero(2);
            _tile_zero(3);
        }
        for (int64_t step = 0; step < dim / STEP; step++) {
            _tile_loadd(4, k + (s * dim + step * STEP) * 2, dim * 2);
            _tile_loadd(5, k + ((s + TILE) * dim + step * STEP) * 2, dim * 2);
            _tile_loadd(6, q + step * TILE_BYTES, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 5, 6);
            if (width == 2) {
                _tile_loadd(7, q + LANES * dim * 2 + step * TILE_BYTES, 64);
                _tile_dpbf16ps(2, 4, 7);
                _tile_dpbf16ps(3, 5, 7);
            }
        }
        float *to = scratch->scores + s * LANES;
        _tile_stored(0, to, 64);
        _tile_stored(1, to + TILE * LANES, 64);
        if (width == 2) {
            _tile_stored(2, to + BLOCK * LANES, 64);
            _tile_stored(3, to + (BLOCK + TILE) * LANES, 64);
        }
    }
}
static void scores_tiles(Scratch *scratch, int64_t group, int width, int64_t count, int64_t dim) {
    if (width == 2) scores_tiles_width(scratch, group, 2, count, dim);
    else scores_tiles_width(scratch, group, 1, count, dim);
}

static inline vec exponential(const float *scores, int64_t s, int full, ivec visible, float factor, vec top) {
    vec p = exp2_coarse(load(scores + s * LANES) * splat(factor) - top);
    return full ? p : select_vec(visible > isplat((int32_t)s), p, splat(0.f));
}

/* probs: [2][BLOCK / 2 slot pairs][LANES] pairs of bfloat16. Returns their sum before rounding. */
static inline __attribute__((always_inline)) vec exponentials_tiles_full(Scratch *scratch, int w, int64_t count, int full,
                                                                         ivec visible, float factor, vec top) {
    const float *scores = scratch->scores + w * BLOCK * LANES;
    uint32_t *to = (uint32_t *)scratch->probs + w * BLOCK / 2 * LANES;
    vec total = splat(0.f), total_odd = splat(0.f);
    int64_t s = 0;
    __m512i half = _mm512_set1_epi32(0x8000), high = _mm512_set1_epi32((int)0xffff0000);
    for (; s + 1 < count; s += 2) {
        vec even = exponential(scores, s, full, visible, factor, top);
        vec odd = exponential(scores, s + 1, full, visible, factor, top);
        total += even;
        total_odd += odd;
        __m512i low = _mm512_srli_epi32(_mm512_add_epi32((__m512i)even, half), 16);
        __m512i both = _mm512_ternarylogic_epi32(low, _mm512_add_epi32((__m512i)odd, half), high, 0xf8); /* a | b & c */
        _mm512_store_si512(to + s / 2 * LANES, both);
    }
    if (s < count) {
        vec even = exponential(scores, s, full, visible, factor, top);
        total += even;
        _mm512_store_si512(to + s / 2 * LANES, _mm512_srli_epi32(_mm512_add_epi32((__m512i)even, half), 16));
        s += 2;
    }
    for (; s % STEP; s += 2) _mm512_store_si512(to + s / 2 * LANES, _mm512_setzero_si512());
    return total + total_odd;
}
static vec exponentials_tiles(Scratch *scratch, int w, int64_t count, int full, ivec visible, float factor, vec top) {
    return full ? exponentials_tiles_full(scratch, w, count, 1, visible, factor, top)
                : exponentials_tiles_full(scratch, w, count, 0, visible, factor, top);
}

static inline __attribute__((always_inline)) void weigh_tiles_width(Scratch *scratch, int64_t group, int width, int64_t count,
                                                                    int64_t dim) {
    FENCE;
    const char *v = scratch->v, *p = scratch->probs;
    int64_t steps = (count + STEP - 1) / STEP;
    for (int64_t d = 0; d < dim / TILE; d += 2) {
        float *out = scratch->sum + (group * dim + d * TILE) * LANES;
        _tile_loadd(0, out, 64);
        _tile_loadd(1, out + TILE * LANES, 64);
        if (width == 2) {
            _tile_loadd(2, out + dim * LANES, 64);
            _tile_loadd(3, out + (dim + TILE) * LANES, 64);
        }
        for (int64_t step = 0; step < steps; step++) {
            _tile_loadd(4, v + (step * dim / TILE + d) * TILE_BYTES, 64);
            _tile_loadd(5, v + (step * dim / TILE + d + 1) * TILE_BYTES, 64);
            _tile_loadd(6, p + step * TILE_BYTES, 64);
            _tile_dpbf16ps(0, 4, 6);
            _tile_dpbf16ps(1, 5, 6);
            if (width == 2) {
                _tile_loadd(7, p + BLOCK / 2 * LANES * 4 + step * TILE_BYTES, 64);
                _tile_dpbf16ps(2, 4, 7);
                _tile_dpbf16ps(3, 5, 7);
            }
        }
        _tile_stored(0, out, 64);
        _tile_stored(1, out + TILE * LANES, 64);
        if (width == 2) {
            _tile_stored(2, out + dim * LANES, 64);
            _tile_stored(3, out + (dim + TILE) * LANES, 64);
        }
    }
}
static void weigh_tiles(Scratch *scratch, int64_t group, int width, int64_t count, int64_t dim) {
    if (width == 2) weigh_tiles_width(scratch, group, 2, count, dim);
    else weigh_tiles_width(scratch, group, 1, count, dim);
}
