/* Sixteen floats as one value. GCC and clang lower it to what the machine has: AVX-512, two AVX2 or four NEON registers. */
#ifndef SAPWOOD_VECTOR_H
#define SAPWOOD_VECTOR_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__AVX512F__) && defined(__AVX512DQ__)
#include <immintrin.h>
#define WIDE 1
#endif

#define LANES 16
#define EXPORT __attribute__((visibility("default")))

typedef float vec __attribute__((vector_size(64)));
typedef float vec_unaligned __attribute__((vector_size(64), aligned(4)));
typedef int32_t ivec __attribute__((vector_size(64)));
typedef uint16_t bf16;

static inline vec splat(float x) { return (vec){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
static inline ivec isplat(int32_t x) { return (ivec){x, x, x, x, x, x, x, x, x, x, x, x, x, x, x, x}; }
static inline vec load(const float *p) { return *(const vec_unaligned *)p; }
static inline void store(float *p, vec x) { *(vec_unaligned *)p = x; }

static inline vec select_vec(ivec mask, vec yes, vec no) {
    return (vec)(((ivec)yes & mask) | ((ivec)no & ~mask));
}
static inline vec max_vec(vec a, vec b) {
#ifdef WIDE
    return (vec)_mm512_max_ps((__m512)a, (__m512)b);
#else
    return select_vec(a > b, a, b);
#endif
}
static inline int any_greater(vec a, vec b) {
#ifdef WIDE
    return _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ) != 0;
#else
    ivec greater = a > b;
    int any = 0;
    for (int i = 0; i < LANES; i++) any |= greater[i];
    return any;
#endif
}
static inline float wide(bf16 x) {
    uint32_t bits = (uint32_t)x << 16;
    float out;
    memcpy(&out, &bits, 4);
    return out;
}
static inline bf16 narrow(float x) { /* to nearest, ties to even; no NaN comes here */
    uint32_t bits;
    memcpy(&bits, &x, 4);
    return (bf16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
static inline vec load_bf16(const bf16 *p) {
#ifdef WIDE
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p)), 16);
#else
    vec out;
    for (int i = 0; i < LANES; i++) out[i] = wide(p[i]);
    return out;
#endif
}
static inline void store_bf16(bf16 *p, vec x) {
#ifdef WIDE
    __m512i bits = (__m512i)x;
    __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    bits = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff)));
    _mm256_storeu_si256((__m256i *)p, _mm512_cvtepi32_epi16(_mm512_srli_epi32(bits, 16)));
#else
    for (int i = 0; i < LANES; i++) p[i] = narrow(x[i]);
#endif
}

/* 2^floor(t) * p, where p approximates 2^(t - floor(t)); 0 for very negative t, infinite for large ones. */
static inline vec scale_by_power(vec p, vec t) {
#ifdef WIDE
    return (vec)_mm512_scalef_ps((__m512)p, (__m512)t);
#else
    ivec whole = __builtin_convertvector(select_vec(t < splat(128.f), t, splat(128.f)), ivec);
    whole += (ivec)(__builtin_convertvector(whole, vec) > t); /* a comparison yields -1 */
    return select_vec(t > splat(-126.f), p * (vec)((whole + isplat(127)) << 23), splat(0.f));
#endif
}
static inline vec fraction(vec t) {
#ifdef WIDE
    return (vec)_mm512_reduce_ps((__m512)t, 1); /* t - floor(t) */
#else
    ivec whole = __builtin_convertvector(t, ivec);
    whole += (ivec)(__builtin_convertvector(whole, vec) > t);
    return t - __builtin_convertvector(whole, vec);
#endif
}
/* Minimax fits of 2^f on [0, 1): relative error 1e-4 and 2e-7. */
static inline vec exp2_coarse(vec t) {
    vec f = fraction(t);
    vec p = splat(0.0780245215f);
    p = p * f + splat(0.226067171f);
    p = p * f + splat(0.695833504f);
    p = p * f + splat(0.999925196f);
    return scale_by_power(p, t);
}
static inline vec exp2_fine(vec t) {
    t = max_vec(t, splat(-1e9f)); /* converts to an integer */
    vec f = fraction(t);
    vec p = splat(0.00187757669f);
    p = p * f + splat(0.00898934063f);
    p = p * f + splat(0.0558263175f);
    p = p * f + splat(0.240153611f);
    p = p * f + splat(0.693153083f);
    p = p * f + splat(0.99999994f);
    return scale_by_power(p, t);
}

#endif
