/* One layer's attention for one engine step, over KV that lies in runs of slots.
 *
 * A task is a tile of query rows (tokens x the heads of one group, folded) over a range of KV; tasks of one token that
 * see disjoint KV leave partial results (unnormalised sum, maximum, weight), which are merged by log-sum-exp at the end.
 * Within a task: blocks of KV, online softmax (Milakov and Gimelshein 2018; Dao et al. 2022). Scores are kept transposed,
 * [slot][query], so that sixteen queries are the lanes of one vector and the softmax never reduces across lanes.
 */
#include "attention.h"
#include "vector.h"
#include <stdlib.h>

#define BLOCK 128        /* slots at a time: scores of 32 queries stay in the first-level cache */
#define TILE_LANES 384   /* queries of a task: they share each staged block; `engine.attention.native` knows it too */
#define TOO_MUCH 1e12f   /* a block's weight over an old maximum: float32 holds far more, so the maximum need not be exact */
#define HIDDEN (-1e30f)  /* below every score, and finite */

typedef struct {
    float *sum;      /* [lane group][head_dim][LANES] */
    float *max, *weight;
    int32_t *limit;  /* how much KV each lane sees */
    void *q;         /* packed for the scores */
    void *k, *v;     /* the staged block */
    float *scores;   /* [2][BLOCK][LANES] */
    void *probs;     /* the same after the softmax, packed for the values */
} Scratch;

/* A place in a list of runs. */
typedef struct {
    const int64_t *run;
    int64_t offset; /* within the run */
} Cursor;

static Cursor seek(const int64_t *runs, int64_t position) {
    while (position >= runs[1]) position -= runs[1], runs += 2;
    return (Cursor){runs, position};
}

/* Rows of `count` slots from the cursor on: where they lie if `in_place` allows and they lie together, else copied. */
static const void *gather(const char *pool, Cursor at, int64_t count, int64_t row_bytes, char *copy, int in_place) {
    if (in_place && at.run[1] - at.offset >= count) return pool + (at.run[0] + at.offset) * row_bytes;
    for (int64_t done = 0; done < count;) {
        int64_t length = at.run[1] - at.offset;
        if (length > count - done) length = count - done;
        memcpy(copy + done * row_bytes, pool + (at.run[0] + at.offset) * row_bytes, length * row_bytes);
        done += length;
        at.run += 2, at.offset = 0;
    }
    return copy;
}

#include "attention_fma.h"
#if defined(__AMX_BF16__) && defined(WIDE)
#include "attention_amx.h"
#define HAVE_TILES 1
#else
#define HAVE_TILES 0
static const int tiles_allowed = 0;
#endif

static int64_t padded(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

/* Mask, and the new maximum; what was summed so far is scaled down to it. */
static vec raise_maximum(float *scores, int64_t count, int64_t full, ivec visible, float factor, float *max, float *weight,
                         float *sum, int64_t head_dim) {
    vec top = splat(HIDDEN);
    if (full) { /* four maxima at once: one alone would wait for itself */
        vec tops[4] = {top, top, top, top};
        int64_t s = 0;
        for (; s + 4 <= count; s += 4)
            for (int i = 0; i < 4; i++) tops[i] = max_vec(tops[i], load(scores + (s + i) * LANES));
        for (; s < count; s++) top = max_vec(top, load(scores + s * LANES));
        top = max_vec(max_vec(top, tops[0]), max_vec(max_vec(tops[1], tops[2]), tops[3]));
    } else
        for (int64_t s = 0; s < count; s++) {
            vec x = select_vec(visible > isplat((int32_t)s), load(scores + s * LANES), splat(HIDDEN));
            store(scores + s * LANES, x);
            top = max_vec(top, x);
        }
    vec before = load(max), now = max_vec(before, top * splat(factor));
    if (any_greater(now, before)) {
        vec alpha = exp2_fine(before - now);
        for (int64_t d = 0; d < head_dim; d++) store(sum + d * LANES, load(sum + d * LANES) * alpha);
        store(weight, load(weight) * alpha);
        store(max, now);
    }
    return now;
}

static vec exponentials(Scratch *scratch, int w, int64_t count, int full, ivec visible, float factor, vec top, int tiles) {
#if HAVE_TILES
    if (tiles) return exponentials_tiles(scratch, w, count, full, visible, factor, top);
#endif
    (void)tiles;
    return exponentials_fma(scratch, w, count, full, visible, factor, top);
}

static void attend_block(const Plan *plan, Scratch *scratch, int64_t lanes, int64_t position, int64_t count, float factor,
                         int tiles, int first) {
    int64_t groups = padded(lanes, LANES) / LANES, dim = plan->head_dim;
    for (int64_t group = 0; group < groups; group += 2) {
        int width = group + 1 < groups ? 2 : 1;
        int32_t lowest = INT32_MAX, highest = 0;
        for (int64_t i = group * LANES; i < (group + width) * LANES; i++) {
            if (scratch->limit[i] < lowest) lowest = scratch->limit[i];
            if (scratch->limit[i] > highest) highest = scratch->limit[i];
        }
        if (highest <= position) continue;
        int full = lowest >= position + count;
#if HAVE_TILES
        if (tiles) scores_tiles(scratch, group, width, count, dim);
        else
#endif
            scores_fma(scratch, group, width, count, dim);
        for (int w = 0; w < width; w++) {
            int64_t lane = (group + w) * LANES;
            ivec visible;
            memcpy(&visible, scratch->limit + lane, sizeof visible);
            visible -= isplat((int32_t)position);
            if (full && !first) { /* the last maximum mostly serves */
                vec more = exponentials(scratch, w, count, full, visible, factor, load(scratch->max + lane), tiles);
                if (!any_greater(more, splat(TOO_MUCH))) {
                    store(scratch->weight + lane, load(scratch->weight + lane) + more);
                    continue;
                }
            }
            vec top = raise_maximum(scratch->scores + w * BLOCK * LANES, count, full, visible, factor, scratch->max + lane,
                                    scratch->weight + lane, scratch->sum + lane * dim, dim);
            vec more = exponentials(scratch, w, count, full, visible, factor, top, tiles);
            store(scratch->weight + lane, load(scratch->weight + lane) + more);
        }
#if HAVE_TILES
        if (tiles) weigh_tiles(scratch, group, width, count, dim);
        else
#endif
            weigh_fma(scratch, group, width, count, dim);
    }
}

static void leave(const Plan *plan, const Layer *layer, const Task *task, int64_t kv_head, const Scratch *scratch) {
    int64_t group = plan->heads / plan->kv_heads, dim = plan->head_dim;
    for (int64_t lane = 0; lane < task->row_count * group; lane++) {
        int64_t head = kv_head * group + lane % group;
        const float *sum = scratch->sum + lane / LANES * LANES * dim + lane % LANES;
        if (task->partial >= 0) {
            int64_t place = (task->partial + lane / group) * plan->heads + head;
            for (int64_t d = 0; d < dim; d++) plan->sums[place * dim + d] = sum[d * LANES];
            plan->maxima[place] = scratch->max[lane];
            plan->weights[place] = scratch->weight[lane];
            continue;
        }
        int64_t place = (plan->rows[task->rows + lane / group] * plan->heads + head) * dim;
        float share = 1.f / scratch->weight[lane];
        if (plan->bits == 16)
            for (int64_t d = 0; d < dim; d++) ((bf16 *)layer->out)[place + d] = narrow(sum[d * LANES] * share);
        else
            for (int64_t d = 0; d < dim; d++) ((float *)layer->out)[place + d] = sum[d * LANES] * share;
    }
}

static void run_task(const AttentionWork *work, const Task *task, int64_t kv_head, Scratch *scratch) {
    const Plan *plan = work->plan;
    const Layer *layer = work->layer;
    int64_t group = plan->heads / plan->kv_heads, dim = plan->head_dim, lanes = task->row_count * group;
    int64_t row_bytes = dim * plan->bits / 8, rounded = padded(lanes, LANES);
    int tiles = tiles_allowed && plan->bits == 16 && dim % 32 == 0;
    for (int64_t lane = 0; lane < rounded; lane++) {
        int64_t row = task->first_row + (lane < lanes ? lane : lanes - 1) / group;
        scratch->limit[lane] = (int32_t)(task->causal < 0 ? INT32_MAX : task->causal + row + 1);
        scratch->max[lane] = HIDDEN;
        scratch->weight[lane] = 0.f;
    }
    memset(scratch->sum, 0, rounded * dim * sizeof(float));
    for (int64_t lane = 0; lane < rounded; lane++) {
        int64_t used = lane < lanes ? lane : 0;
        int64_t token = plan->rows[task->rows + used / group], head = kv_head * group + used % group;
        const char *q = (const char *)layer->q + (token * layer->q_stride + head * dim) * plan->bits / 8;
#if HAVE_TILES
        if (tiles) pack_query_tiles(scratch, lane, (const uint32_t *)q, dim);
        else
#endif
            pack_query_fma(scratch, lane, q, plan->bits, dim);
    }
    const char *keys = (const char *)layer->keys + kv_head * plan->pool_slots * row_bytes;
    const char *values = (const char *)layer->values + kv_head * plan->pool_slots * row_bytes;
    Cursor at = seek(plan->runs + 2 * task->runs, task->begin);
    for (int64_t position = task->begin; position < task->end; position += BLOCK) {
        int64_t count = task->end - position < BLOCK ? task->end - position : BLOCK;
        Scratch staged = *scratch;
#if HAVE_TILES
        if (tiles) stage_tiles(&staged, keys, values, at, count, dim);
        else
#endif
            stage_fma(&staged, keys, values, at, count, plan->bits, dim);
        attend_block(plan, &staged, lanes, position, count, work->factor, tiles, position == task->begin);
        if (position + count < task->end) {
            at.offset += count;
            while (at.offset >= at.run[1]) at.offset -= at.run[1], at.run += 2;
        }
    }
    leave(plan, layer, task, kv_head, scratch);
}

static void write_token(const Plan *plan, const Layer *layer, int64_t token) {
    int64_t row = plan->head_dim * plan->bits / 8, slot = plan->slots[token];
    for (int64_t head = 0; head < plan->kv_heads; head++) {
        int64_t place = (head * plan->pool_slots + slot) * row;
        memcpy((char *)layer->keys + place, (const char *)layer->k + token * layer->k_stride * plan->bits / 8 + head * row, row);
        memcpy((char *)layer->values + place, (const char *)layer->v + token * layer->v_stride * plan->bits / 8 + head * row, row);
    }
}

static void merge_head(const Plan *plan, const Layer *layer, int64_t index, int64_t head) {
    int64_t dim = plan->head_dim, first = plan->merge_bounds[index], last = plan->merge_bounds[index + 1];
    float top = HIDDEN, total = 0.f;
    for (int64_t i = first; i < last; i++) {
        float max = plan->maxima[plan->merge_partials[i] * plan->heads + head];
        if (max > top) top = max;
    }
    float sum[dim];
    memset(sum, 0, sizeof sum);
    for (int64_t i = first; i < last; i++) {
        int64_t place = plan->merge_partials[i] * plan->heads + head;
        float share = exp2_fine(splat(plan->maxima[place] - top))[0];
        total += share * plan->weights[place];
        for (int64_t d = 0; d < dim; d++) sum[d] += share * plan->sums[place * dim + d];
    }
    int64_t place = (plan->merge_tokens[index] * plan->heads + head) * dim;
    for (int64_t d = 0; d < dim; d++)
        if (plan->bits == 16) ((bf16 *)layer->out)[place + d] = narrow(sum[d] / total);
        else ((float *)layer->out)[place + d] = sum[d] / total;
}

static char *take(char **from, int64_t bytes) {
    char *taken = *from;
    *from += padded(bytes, 64);
    return taken;
}

/* One for each thread, kept until the process ends. */
static Scratch *scratch_of_thread(int64_t dim) {
    static __thread char *memory;
    static __thread int64_t sized;
    static __thread Scratch scratch;
    if (sized < dim) {
        int64_t lanes = TILE_LANES + 2 * LANES;
        free(memory);
        memory = aligned_alloc(64, padded(lanes * (dim * 8 + 16) + BLOCK * dim * 8 + 4 * BLOCK * LANES * 4 + 4096, 64));
        if (memory == NULL) return NULL;
        char *at = memory;
        scratch.sum = (float *)take(&at, lanes * dim * 4);
        scratch.q = take(&at, lanes * dim * 4);
        scratch.max = (float *)take(&at, lanes * 4);
        scratch.weight = (float *)take(&at, lanes * 4);
        scratch.limit = (int32_t *)take(&at, lanes * 4);
        scratch.k = take(&at, BLOCK * dim * 4);
        scratch.v = take(&at, BLOCK * dim * 4);
        scratch.scores = (float *)take(&at, 2 * BLOCK * LANES * 4);
        scratch.probs = take(&at, 2 * BLOCK * LANES * 4);
        sized = dim;
    }
    return &scratch;
}

AttentionWork attention_work(const Plan *plan, const Layer *layer, float scale) {
    return (AttentionWork){plan, layer, scale * 1.44269504f, 0, 0, 0};
}

void attend_from_pool(AttentionWork *work) {
    const Plan *plan = work->plan;
    Scratch *scratch = scratch_of_thread(plan->head_dim);
    if (scratch == NULL) abort();
#if HAVE_TILES
    TileConfig before = {0};
    if (tiles_allowed) before = configure_tiles();
#endif
    EACH(work->next_task, plan->task_count * plan->kv_heads, 1)
        run_task(work, plan->tasks + i / plan->kv_heads, i % plan->kv_heads, scratch);
#if HAVE_TILES
    if (tiles_allowed) restore_tiles(before);
#endif
    if (plan->merge_count == 0) return;
    if (plan->threads > 1) plan->barrier();
    EACH(work->next_merge, plan->merge_count * plan->heads, 1)
        merge_head(plan, work->layer, i / plan->heads, i % plan->heads);
}

static void write_and_attend(void *argument) {
    AttentionWork *work = argument;
    const Plan *plan = work->plan;
    EACH(work->next_write, plan->tokens, 8)
        for (int64_t token = i; token < i + 8 && token < plan->tokens; token++) write_token(plan, work->layer, token);
    if (plan->threads > 1) plan->barrier();
    attend_from_pool(work);
}

/* Write k and v of the step's tokens to their slots, then out = the attention of each query. */
EXPORT void sapwood_attend(const Plan *plan, const Layer *layer, float scale) {
    AttentionWork work = attention_work(plan, layer, scale);
    if (plan->threads > 1) plan->parallel(write_and_attend, &work, (unsigned)plan->threads, 0);
    else write_and_attend(&work);
}
