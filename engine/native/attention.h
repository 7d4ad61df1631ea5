/* Attention as other kernels call it: from inside a parallel region, by all of its threads. */
#ifndef SAPWOOD_ATTENTION_H
#define SAPWOOD_ATTENTION_H

#include <stdint.h>

typedef struct {
    int64_t rows, row_count;      /* where in `rows`, and how many tokens */
    int64_t runs, run_count;      /* where in `runs`: pairs (first slot, length) */
    int64_t begin, end;           /* logical range of KV in those runs */
    int64_t causal;               /* token i of the item sees causal + i + 1 of its KV; -1: all of it */
    int64_t first_row;            /* number of the task's first token in the item */
    int64_t partial;              /* first partial row, or -1: the result is final */
} Task;

typedef struct {
    int64_t tokens, heads, kv_heads, head_dim, pool_slots, bits; /* bits: 16 for bfloat16, 32 for float32 */
    int64_t task_count, merge_count, threads;
    const Task *tasks;
    const int64_t *slots, *rows, *runs;
    const int64_t *merge_tokens, *merge_bounds, *merge_partials; /* token i of the merge: partials [bounds i, i + 1) */
    float *sums, *maxima, *weights;                              /* [partial][heads]([head_dim]) */
    void (*parallel)(void (*)(void *), void *, unsigned, unsigned);
    void (*barrier)(void);
} Plan;

typedef struct {
    const void *q, *k, *v;
    int64_t q_stride, k_stride, v_stride; /* elements from token to token */
    void *keys, *values;                  /* [kv_heads][pool_slots][head_dim] */
    void *out;                            /* [tokens][heads][head_dim] */
} Layer;

/* What the threads share while they compute the attention of one layer. */
typedef struct {
    const Plan *plan;
    const Layer *layer;
    float factor; /* of the scores, base 2 */
    int64_t next_write, next_task, next_merge;
} AttentionWork;

/* What is left is taken by whichever thread asks first. */
#define EACH(counter, limit, step) \
    for (int64_t i = __atomic_fetch_add(&(counter), (step), __ATOMIC_RELAXED); i < (limit); \
         i = __atomic_fetch_add(&(counter), (step), __ATOMIC_RELAXED))

AttentionWork attention_work(const Plan *plan, const Layer *layer, float scale);

/* Every thread of the region calls it. Keys and values of the step's tokens are in the pool already. */
void attend_from_pool(AttentionWork *work);

#endif
