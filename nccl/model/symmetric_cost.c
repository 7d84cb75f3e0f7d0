/* SPDX-License-Identifier: Apache-2.0 */
/*
 * symmetric_cost.c - the prices of symmetric kernels, and the choice among the kernels.
 *
 * The results must equal NCCL's to the last bit, so the order of operations below matters. The time
 * of one kernel is computed in double; all later steps use float. Byte counts are truncated to
 * integers where NCCL truncates them. The compiler must not contract operations into fused
 * multiply-adds: prices that are equal in NCCL would then differ here. gcc -std=c11 does not
 * contract, and the pragma below stops clang. Some compilers contract by default, for example on
 * AArch64. If NCCL was built by such a compiler, exact ties can go the other way.
 */
#include "nccl/model/symmetric_cost.h"

#include <math.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

#include "nccl/names.h"

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

static const struct {
    const char *name;
    enum symtuner_coll coll;
    unsigned flags;
} kernels[] = {
#define X(id, name, coll, flags) {name, SYMTUNER_##coll, flags},
    ST_KERNEL_MAP(X)
#undef X
};

const char *st_kernel_name(enum st_kernel kernel)
{
    return kernels[kernel].name;
}

enum symtuner_coll st_kernel_coll(enum st_kernel kernel)
{
    return kernels[kernel].coll;
}

unsigned st_kernel_flags(enum st_kernel kernel)
{
    return kernels[kernel].flags;
}

static uint32_t mask_of(enum symtuner_coll coll, unsigned any_flag)
{
    uint32_t mask = 0;

    for (int k = 0; k < ST_KERNELS; k++)
        if (kernels[k].coll == coll && (any_flag == ~0u || (kernels[k].flags & any_flag)))
            mask |= 1u << k;
    return mask;
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ST_CELL_SIZE - 1) / ST_CELL_SIZE * ST_CELL_SIZE;
}

uint32_t st_sym_mask(const struct st_sym_query *query)
{
    const uint64_t gib = 1ull << 30;
    const struct st_era *era = st_era_of(query->version);
    uint64_t bytes = era->launch_by_cells ? round_up(query->bytes) : query->bytes;
    uint64_t all = query->coll == SYMTUNER_ALLREDUCE ? bytes : bytes * (uint64_t)query->ranks;
    uint32_t mask = mask_of(query->coll, ~0u) & query->allowed;

    if (!query->store_mc)
        mask &= ~mask_of(query->coll, ST_KERNEL_STORE_MC);
    if (!query->load_mc)
        mask &= ~mask_of(query->coll, ST_KERNEL_LOAD_MC);
    if (!query->tma)
        mask &= ~mask_of(query->coll, ST_KERNEL_TMA);
    if (all >= 2 * gib) /* LL kernels count elements in 32 bits */
        mask &= ~mask_of(query->coll, ST_KERNEL_LL);
    return all >= 64 * gib ? 0 : mask;
}

uint32_t st_sym_mask_call(const struct st_sym_query *query)
{
    const struct st_era *era = st_era_of(query->version);
    uint32_t mask = st_sym_mask(query);
    uint32_t ll = mask_of(query->coll, ST_KERNEL_LL);
    bool copies_in = query->coll == SYMTUNER_ALLGATHER ? query->recv_window
                     : query->coll == SYMTUNER_REDUCESCATTER
                         ? query->send_window
                         : query->send_window && query->recv_window;

    if (query->works > 1)
        mask &= era->symmetric_groups ? ~ll : 0;
    if (!era->symmetric_one_sided && !(query->send_window && query->recv_window))
        return 0;
    return copies_in ? mask : mask & ll; /* LL kernels need no window: they use NCCL's buffers */
}

/* A smooth approximation of min(x, ceiling). */
static double soft_min(double x, double ceiling, double softness)
{
    return ceiling - softness * log1p((exp(ceiling / softness) - 1) * exp(-x / softness));
}

/* A smooth approximation of max(0, x). */
static double soft_plus(double x)
{
    return 100.0 <= x ? x : log1p(exp(x));
}

/* The parameters of a kernel's time as a function of its CTAs (curve_time). */
struct curve {
    uint64_t bus_bytes; /* bytes that a GPU sends or receives, whichever is more  */
    double multiplier;  /* factor by which multicast raises ${cta_bw}; 1 without  */
    double latency_us;
    double cta_bw, peak_bw; /* bandwidth of one CTA and of all; bytes per microsecond */
};

static double curve_time(const struct curve *curve, int ctas)
{
    double bw = soft_min(ctas * curve->cta_bw * curve->multiplier, curve->peak_bw, curve->cta_bw);

    return curve->latency_us + soft_plus((double)curve->bus_bytes / bw - 1);
}

static void curve_bus(struct curve *curve, enum st_kernel kernel, uint64_t bytes, uint64_t ranks,
                      bool second_model)
{
    curve->multiplier = 1;
    switch (kernel) {
    case ST_KERNEL_AR_LL:
    case ST_KERNEL_AG_LL:
    case ST_KERNEL_RS_LL:
        curve->bus_bytes = (uint64_t)((double)(ranks * bytes) * 9.0);
        break;
    case ST_KERNEL_AR_LLMC:
    case ST_KERNEL_AG_LLMC:
        curve->bus_bytes = (uint64_t)((double)(ranks * bytes) * 9.0);
        curve->multiplier = 1.1;
        break;
    case ST_KERNEL_AR_LD:
    case ST_KERNEL_AR_TMA:
        curve->bus_bytes = 2 * bytes * (ranks - 1) / ranks;
        break;
    case ST_KERNEL_AR_LDMC:
        curve->bus_bytes = bytes / ranks + bytes;
        curve->multiplier = (double)ranks;
        break;
    case ST_KERNEL_AG_ST:
    case ST_KERNEL_AG_TMA:
    case ST_KERNEL_RS_LD:
    case ST_KERNEL_RS_TMA:
        curve->bus_bytes = (ranks - 1) * bytes;
        break;
    default: /* the kernels AG_STMC, AG_TMAMC and RS_LDMC */
        curve->bus_bytes = (ranks - 1) * bytes;
        if (second_model && kernel == ST_KERNEL_AG_TMAMC)
            curve->multiplier = 0.99;
        curve->multiplier *= 0.55 * (double)ranks;
    }
}

static void curve_speed(struct curve *curve, enum st_kernel kernel, int arch, bool second_model)
{
    const double gbps = (1 << 30) / 1.e6;
    enum symtuner_coll coll = kernels[kernel].coll;
    bool ll = kernels[kernel].flags & ST_KERNEL_LL;
    bool ar = coll == SYMTUNER_ALLREDUCE, rs = coll == SYMTUNER_REDUCESCATTER;

    if (arch < 100) {
        curve->latency_us = ll ? 4.5 : 7.8;
        curve->cta_bw = ar ? 65 * gbps : 44 * gbps;
        curve->peak_bw = kernel == ST_KERNEL_AR_LDMC ? 480 * gbps : 320 * gbps;
        return;
    }
    curve->latency_us = !ll                         ? (ar ? 19.5 : 13.0)
                        : coll == SYMTUNER_ALLGATHER ? 8.5
                        : rs && second_model         ? 10.5
                                                     : 11.0;
    curve->cta_bw = 55 * gbps;
    curve->peak_bw = kernel == ST_KERNEL_AR_LDMC ? 1000 * gbps : 600 * gbps;
    if (!second_model)
        return;
    if (rs)
        curve->peak_bw = 650 * gbps;
    if (kernels[kernel].flags & ST_KERNEL_TMA) {
        curve->latency_us += 4.0;
        if (kernel == ST_KERNEL_AG_TMA) {
            curve->peak_bw = 700 * gbps;
            curve->latency_us += 19.0;
        }
        if (kernel != ST_KERNEL_AG_TMAMC)
            curve->peak_bw *= 1.07;
    }
}

/* Has every CTA of a TMA kernel enough work to run its unrolled loop once? NCCL 2.31 requires
 * this. */
static bool tma_fits(const struct st_sym_query *query, enum st_kernel kernel, int ctas)
{
    uint64_t need;

    switch (kernel) {
    case ST_KERNEL_AG_TMAMC:
        need = 4096;
        break;
    case ST_KERNEL_AG_TMA:
        need = 8192ull * (uint64_t)ctas;
        break;
    default:
        need = 16384ull * (uint64_t)query->ranks * (uint64_t)ctas;
    }
    return query->bytes >= need;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

bool st_sym_price(const struct st_sym_query *query, enum st_kernel kernel,
                  struct st_sym_price *price_out)
{
    const struct st_era *era = st_era_of(query->version);
    unsigned flags = kernels[kernel].flags;
    bool mc_data = (flags & ST_KERNEL_STORE_MC || flags & ST_KERNEL_LOAD_MC) &&
                   !(flags & ST_KERNEL_LL);
    uint64_t one = era->launch_by_cells ? round_up(query->bytes) : query->bytes;
    int lo = query->min_ctas, hi = ST_CTAS_MAX;
    struct curve curve;
    float time;
    int ctas;

    if (mc_data)
        hi = ((query->arch < 100 ? 16 : 32) + query->ranks - 1) / query->ranks;
    hi = least(hi, query->max_ctas);
    if (query->sym_ctas > 0)
        lo = hi = least(query->sym_ctas, ST_CTAS_MAX);
    if (era->ctas_even) {
        lo = least(lo, hi);
        if (lo != hi) {
            lo += lo != 1 && lo % 2;
            hi -= hi != 1 && hi % 2;
        }
        if (flags & ST_KERNEL_TMA && tma_fits(query, kernel, lo))
            while (hi > lo && !tma_fits(query, kernel, hi))
                hi -= hi == 2 ? 1 : 2;
        else if (flags & ST_KERNEL_TMA && !query->forced)
            return false;
    }
    curve_bus(&curve, kernel, one * (uint64_t)query->works, (uint64_t)query->ranks,
              era->model >= 2);
    curve_speed(&curve, kernel, query->arch, era->model >= 2);

    ctas = hi;
    time = (float)curve_time(&curve, hi);
    for (int n = lo; n < hi; n += era->ctas_even && n > 1 ? 2 : 1) {
        double fewer = curve_time(&curve, n);

        if (fewer <= 1.025 * (double)time) {
            ctas = n;
            time = (float)fewer;
            break;
        }
    }
    price_out->ctas = ctas;
    price_out->time_us = time;
    price_out->cost = time * (1.0f + 0.025f * (float)ctas);
    return true;
}

/* Return how many of ${ctas} CTAs NCCL launches. NCCL cuts the data into cells of ST_CELL_SIZE
 * bytes. It gives each CTA the same number of cells, rounded up, and launches only the CTAs that
 * get cells. */
static int launched(const struct st_sym_query *query, int ctas)
{
    uint64_t cells = round_up(query->bytes) / ST_CELL_SIZE * (uint64_t)query->works;
    uint64_t n = (uint64_t)ctas, run = (cells + n - 1) / n;

    if (!st_era_of(query->version)->launch_by_cells || cells == 0)
        return ctas;
    return (int)((cells + run - 1) / run);
}

bool st_sym_pick(const struct st_sym_query *query, uint32_t mask, struct st_sym_pick *pick_out)
{
    bool last = st_era_of(query->version)->tie_takes_last, found = false;

    for (int k = 0; k < ST_KERNELS; k++) {
        struct st_sym_price price;

        if (!(mask >> k & 1) || !st_sym_price(query, (enum st_kernel)k, &price))
            continue;
        if (!found || price.cost < pick_out->price.cost ||
            (last && price.cost == pick_out->price.cost)) {
            pick_out->kernel = (enum st_kernel)k;
            pick_out->price = price;
            found = true;
        }
    }
    if (found)
        pick_out->launched = launched(query, pick_out->price.ctas);
    return found;
}

/* Read the prefix of "func:name", which NCCL_SYM_KERNEL may have from 2.31 on, and move ${*text}
 * past the colon. Returns the collective, -1 if there is no prefix, or -2 if the prefix names no
 * collective. */
static int read_prefix(const char **text, size_t *len)
{
    const char *colon = memchr(*text, ':', *len);
    size_t n = colon ? (size_t)(colon - *text) : 0;
    int coll;

    if (!colon)
        return -1;
    coll = st_word_find(&st_colls, *text, n);
    *text += n + 1;
    *len -= n + 1;
    return coll < 0 ? -2 : coll;
}

static int find_kernel(const char *name, size_t len, bool any_case)
{
    for (int k = 0; k < ST_KERNELS; k++)
        if (strlen(kernels[k].name) == len &&
            (any_case ? strncasecmp : strncmp)(kernels[k].name, name, len) == 0)
            return k;
    return -1;
}

/* Read one part of NCCL_SYM_KERNEL; parts are separated by ";". If the part is for ${coll}, add its
 * kernels to ${*allowed} and set ${*touched}. Returns false if a word names no kernel, or if the
 * prefix names no collective. */
static bool read_part(const char *text, size_t len, enum symtuner_coll coll, bool *touched,
                      uint32_t *allowed)
{
    int prefix = read_prefix(&text, &len);
    bool invert = len && *text == '^';
    uint32_t named = 0;

    if (prefix == -2)
        return false;
    text += invert;
    len -= invert;
    while (len) {
        const char *comma = memchr(text, ',', len);
        size_t n = comma ? (size_t)(comma - text) : len;
        int kernel = find_kernel(text, n, true);

        if (kernel < 0)
            return false;
        named |= 1u << kernel;
        text += n + (comma != NULL);
        len -= n + (comma != NULL);
    }
    if (prefix < 0 || prefix == (int)coll) {
        *allowed |= invert ? ~named : named;
        *touched = true;
    }
    return true;
}

enum st_sym_kernel_env st_sym_kernel_env(const struct st_era *era, const char *text,
                                         enum symtuner_coll coll, uint32_t *allowed_out)
{
    uint32_t allowed = 0;
    bool touched = false;

    *allowed_out = ~0u;
    if (!text || strcmp(text, "^") == 0)
        return ST_ENV_UNSET;
    if (era->sym_kernel == ST_SYM_KERNEL_MASK) {
        int kernel = find_kernel(text, strlen(text), false);

        *allowed_out = kernel < 0 ? 0 : 1u << kernel;
        return ST_ENV_LIMITS;
    }
    while (*text) {
        size_t n = strcspn(text, ";");

        if (!read_part(text, n, coll, &touched, &allowed))
            return ST_ENV_FATAL;
        text += n + (text[n] == ';');
    }
    if (!touched)
        return ST_ENV_UNSET;
    *allowed_out = allowed;
    return ST_ENV_LIMITS;
}
