/* SPDX-License-Identifier: Apache-2.0 */
/* fake_ar.c - a fake libsymtuner_ar.so for GPUs made of host memory (fake_gpu.h). */
#include "cli/gpu/cuda.h"
#include "kernels/choose/rules.h"
#include "nccl/names.h"
#include "test/cli/fake_gpu.h"

/* This fake calls kernels/choose/select.c and kernels/choose/rules.c of the real library to choose
 * kernels and to read rules. It invents only the times. */
struct symtuner_ar {
    struct comm *comm;
    struct ar_force force;
    symtuner_rules *rules;
    int ctas;
};

EXPORT int symtuner_ar_reserve(symtuner_ar **h, int n, size_t bytes)
{
    (void)h, (void)n, (void)bytes;
    return fault("ar-reserve") ? 1 : 0;
}

EXPORT int symtuner_ar_create(symtuner_ar **h, void *const *comms, int n,
                              const struct symtuner_ar_config *config)
{
    struct symtuner_ar *handle;
    char note[AR_RULES_NOTE];

    (void)n, (void)config;
    if (fault("ar-create"))
        return 1;
    handle = calloc(1, sizeof *handle);
    handle->comm = comms[0];
    handle->force.family = -1;
    handle->rules = ar_rules_read(number("FAKE_NCCL", 22809), handle->comm->group->ranks, note);
    *h = handle;
    return 0;
}
EXPORT int symtuner_ar_destroy(symtuner_ar **h, int n) { (void)n; free(*h); return 0; }

/* Choose a kernel for a call. ${n} is the number of elements of one rank's part or, for an
 * all-reduce, of the whole message. If ${why} is not NULL, the reason goes there. */
static int choose(const struct symtuner_ar *h, int coll, size_t n, int type,
                  struct ar_choice *choice, char why[160])
{
    const char *beside = getenv("SYMTUNER_AR_BESIDE");
    size_t bytes = n * size_of(type) * (size_t)ar_coll_parts(coll, h->comm->group->ranks);
    struct ar_ask ask = {.coll = coll,
                         .bytes = bytes,
                         .ranks = h->comm->group->ranks,
                         .links = AR_LINKS_NVLINK,
                         .dtype = type,
                         .dst_mapped = 1,
                         .src_mapped = 1,
                         .registered = 1,
                         .has_nccl = 1,
                         .has_copy = 1,
                         .beside =
                             beside ? st_word_find(&st_beside_words, beside, strlen(beside)) : 0,
                         .max_ctas = 132,
                         .half = {1 << 19, 16 << 20, 32 << 20, 256 << 20, 64 << 20}};

    int answer = ar_rules_select(h->rules, &ask, &h->force, choice);

    if (why)
        ar_rules_why(h->rules, &ask, choice, why, 160);
    return answer;
}

/* Return the CTA count that the plugin would give NCCL, or 7, the fake NCCL's own, if it gives
 * none. */
static int plugin_ctas(void)
{
    const struct symtuner_machine machine = {"NVIDIA Fake", 90, 1, 0, 0};
    const char *plugin = getenv("NCCL_TUNER_PLUGIN"), *path = getenv("SYMTUNER_RULES");
    char error[SYMTUNER_ERROR_MAX];
    symtuner_rules *rules;
    const struct st_rule *process;
    int ctas = 0;

    if (!plugin || !strstr(plugin, "symtuner") || !path ||
        symtuner_rules_load(path, &rules, error, sizeof error) != SYMTUNER_OK)
        return 7;
    process = st_rules_process(rules, 22809, &machine);
    ctas = process ? process->act.sym_ctas : 0;
    symtuner_rules_free(rules);
    return ctas ? ctas : 7;
}

/* Return how many us ${choice} takes. If FAKE_BEST names a kernel, this kernel is the fastest from
 * 16 KiB on, and 32 blocks of 256 threads are the best. Otherwise all kernels take the same time.
 * Another number of blocks costs only 2 %, less than the 3 % that --verify allows: a call by a rule
 * may start fewer blocks than tune measured, because blocks without work are left out. */
static double time_of(const struct ar_choice *choice, size_t bytes)
{
    const char *best = getenv("FAKE_BEST");
    double us = 3.1 + (double)bytes / 250e3;

    if (!best || bytes < 16384)
        return us * choice->pieces;
    return us * (strcmp(best, ar_family_name(choice->family)) == 0 ? 0.8 : 1) *
           (choice->ctas == 32 ? 1 : 1.02) * (choice->threads == 256 ? 1 : 1.03);
}

EXPORT int symtuner_ar_force(symtuner_ar *h, const char *kernel, int ctas, int threads)
{
    h->force =
        (struct ar_force){kernel ? ar_family_by_name(kernel) : -1, ctas, threads, 0};
    return 0;
}
EXPORT const char *symtuner_ar_kernel_name(int i) { return ar_family_name(i); }
EXPORT int symtuner_ar_query_coll(int coll, const void *s, const void *r, size_t n, int t, int op,
                                  symtuner_ar *h, struct symtuner_ar_plan *plan)
{
    struct ar_choice choice;

    (void)s, (void)r, (void)op;
    if (choose(h, coll, n, t, &choice, plan->why) != 0)
        return 1;
    plan->kernel = ar_family_name(choice.family);
    plan->ctas = choice.ctas;
    plan->threads = choice.threads;
    plan->pieces = choice.pieces;
    return 0;
}
EXPORT int symtuner_ar_register(symtuner_ar **h, void *const *b, void *const *w, int n,
                                size_t bytes)
{
    (void)h, (void)b, (void)w, (void)n, (void)bytes;
    return fault("ar-register") ? 1 : 0;
}
/* Add the time of a call to the stream. Returns 1 if the call must compute its result, 0 if it need
 * not (see computes), and -1 if no kernel can run the call. */
static int run(symtuner_ar *h, int coll, size_t n, int t, const void *r, struct stream *stream)
{
    double bytes = (double)(n * size_of(t) * (size_t)ar_coll_parts(coll, h->comm->group->ranks));
    struct ar_choice choice;

    if (choose(h, coll, n, t, &choice, NULL) != 0)
        return -1;
    if (choice.family == AR_NCCL && h->ctas == 0)
        h->ctas = plugin_ctas();
    if (choice.family == AR_NCCL)
        charge_call(stream, 4.2 + bytes * (h->ctas + 3) / h->ctas / 330e3, h->ctas);
    else
        charge_call(stream, time_of(&choice, (size_t)bytes), choice.ctas);
    return computes(stream, r);
}
EXPORT int symtuner_ar_all_reduce(const void *s, void *r, size_t n, int t, int op, symtuner_ar *h,
                                  void *stream)
{
    int computes = run(h, AR_ALL_REDUCE, n, t, r, stream);

    (void)op;
    if (computes > 0)
        add_up(h->comm, s, r, 0, n, t);
    return computes < 0;
}
EXPORT int symtuner_ar_reduce_scatter(const void *s, void *r, size_t n, int t, int op,
                                      symtuner_ar *h, void *stream)
{
    int computes = run(h, AR_REDUCE_SCATTER, n, t, r, stream);

    (void)op;
    if (computes > 0)
        add_up(h->comm, s, r, (size_t)h->comm->rank * n, n, t);
    if (fault("ar-wrong-scatter") && n == 2048)
        put(r, 0, 100, t);
    return computes < 0;
}
EXPORT int symtuner_ar_all_gather(const void *s, void *r, size_t n, int t, symtuner_ar *h,
                                  void *stream)
{
    int computes = run(h, AR_ALL_GATHER, n, t, r, stream);

    if (computes > 0)
        gather(h->comm, s, r, n * size_of(t));
    if (fault("ar-wrong-gather") && n == 2048)
        put(r, 0, 100, t);
    return computes < 0;
}
EXPORT const char *symtuner_ar_error(const symtuner_ar *h) { (void)h; return "fake"; }
