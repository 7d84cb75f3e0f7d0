/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/next/tuner.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "nccl_abi/tuner_old.h"
#include "plugin/log.h"
#include "plugin/next/open.h"

struct st_next_tuner {
    const void *table;
    int version;
    void *ctx;
    /* A copy of NCCL's cost constants, in the layout of interface version ${version}. It is used if
     * the running NCCL has another layout. The tuner may keep a pointer to the copy. */
    union {
        struct nccl_abi_constants_v5 v5;
        struct nccl_abi_constants_v7 v7;
    } constants;
};

_Static_assert(offsetof(struct nccl_abi_constants_v5, ll_max_bw) ==
                   offsetof(struct nccl_abi_constants_v7, ll_max_bw),
               "both layouts are the same up to here");

bool st_next_tuner_there(const char *chosen)
{
    return st_next_find(ST_NEXT_TUNER, chosen, 7, false)->table != NULL;
}

/* Copy cost constants from the layout of one version to the layout of another. The five bandwidth
 * arrays come last. Each has four rows of 3 numbers. From v7 on there is a fifth row; it is not
 * copied. */
static void copy_constants(double *to, int to_rows, const double *from, int from_rows)
{
    size_t head = offsetof(struct nccl_abi_constants_v5, ll_max_bw) / sizeof *to;

    memcpy(to, from, head * sizeof *to);
    for (int array = 0; array < 5; array++)
        memcpy(to + head + array * to_rows * 3, from + head + array * from_rows * 3,
               4 * 3 * sizeof *to);
}

/* Return the cost constants in the layout that the tuner behind ours knows. If NCCL has the same
 * layout, return NCCL's own constants, so that NCCL sees what that tuner writes there. */
static void *lend_constants(struct st_next_tuner *next, const struct st_tuner_init *init)
{
    bool ours_7 = init->abi >= 7, theirs_7 = next->version >= 7;

    if (!init->constants || ours_7 == theirs_7)
        return init->constants;
    for (size_t i = 0; i < sizeof next->constants.v7 / sizeof(double); i++)
        ((double *)&next->constants)[i] = -1.0; /* NCCL's value for what does not apply */
    copy_constants((double *)&next->constants, theirs_7 ? 5 : 4, init->constants, ours_7 ? 5 : 4);
    return &next->constants;
}

static nccl_abi_result start(struct st_next_tuner *next, const struct st_tuner_init *init)
{
    void *constants;
    nccl_abi_result result;

    if (next->version < 5) /* v2 and v3 have the same init as v4 */
        return ((const struct nccl_abi_tuner_v4 *)next->table)
            ->init(init->ranks, init->nodes, init->logger, &next->ctx);
    constants = lend_constants(next, init);
    if (next->version == 7)
        result = ((const struct nccl_abi_tuner_v7 *)next->table)
                     ->init(&next->ctx, init->comm_id, init->ranks, init->nodes, init->logger,
                            init->domains, constants);
    else /* v6 has the same init as v5 */
        result = ((const struct nccl_abi_tuner_v5 *)next->table)
                     ->init(&next->ctx, init->comm_id, init->ranks, init->nodes, init->logger,
                            init->domains, constants);
    if (constants != init->constants) /* copy back what the tuner may have changed */
        copy_constants(init->constants, init->abi >= 7 ? 5 : 4, constants,
                       next->version >= 7 ? 5 : 4);
    return result;
}

struct st_next_tuner *st_next_tuner_open(const struct st_tuner_init *init, const char *chosen,
                                         bool quiet)
{
    static atomic_bool failed;
    const struct st_next_library *library = st_next_find(ST_NEXT_TUNER, chosen, init->abi, true);
    struct st_next_tuner *next;
    nccl_abi_result result;

    if (!quiet)
        st_next_say(ST_NEXT_TUNER, library);
    if (!library->table || !(next = calloc(1, sizeof *next)))
        return NULL;
    next->table = library->table;
    next->version = library->version;
    result = start(next, init);
    if (result != NCCL_ABI_SUCCESS) {
        if (!quiet && !atomic_exchange(&failed, true))
            st_warn("the tuner \"%s\" of %s failed its init with error %d: this communicator goes "
                    "on without it; if ranks differ in this, set SYMTUNER_NEXT_TUNER=none",
                    st_next_name(library), library->path, result);
        free(next);
        return NULL;
    }
    return next;
}

/* Ask a v2 tuner. A v2 tuner does not see the cost table; it learns only whether CollNet and NVLS
 * are available. It names one entry. As NCCL does, we then set the price of that entry to 0. But a
 * negative price means that the entry is not available, so we do not change it. */
static nccl_abi_result ask_v2(const struct st_next_tuner *next, int func, size_t bytes,
                              int pipe_ops, float *table, int n_algo, int n_proto, int *n_channels)
{
    enum { COLLNET_CHAIN = 3, NVLS = 4, NVLS_TREE = 5, SIMPLE = 2 };
    bool whole = n_algo > NVLS_TREE && n_proto > SIMPLE;
    int coll_net = whole && table[COLLNET_CHAIN * n_proto + SIMPLE] != -1.0f;
    int nvls = whole && (table[NVLS * n_proto + SIMPLE] != -1.0f ||
                         table[NVLS_TREE * n_proto + SIMPLE] != -1.0f);
    int algo = -1, proto = -1;
    nccl_abi_result result = ((const struct nccl_abi_tuner_v2 *)next->table)
                                 ->get_coll_info(next->ctx, func, bytes, coll_net, nvls, pipe_ops,
                                                 &algo, &proto, n_channels);

    if (result == NCCL_ABI_SUCCESS && algo >= 0 && algo < n_algo && proto >= 0 && proto < n_proto &&
        table[algo * n_proto + proto] >= 0.0f)
        table[algo * n_proto + proto] = 0.0f;
    return result;
}

nccl_abi_result st_next_tuner_ask(const struct st_next_tuner *next, int func, size_t bytes,
                                  int pipe_ops, float **table, int n_algo, int n_proto,
                                  int reg_buff, int *n_channels)
{
    if (next->version == 2)
        return ask_v2(next, func, bytes, pipe_ops, (float *)table, n_algo, n_proto, n_channels);
    if (next->version == 3)
        return ((const struct nccl_abi_tuner_v3 *)next->table)
            ->get_coll_info(next->ctx, func, bytes, pipe_ops, table, n_algo, n_proto, n_channels);
    /* From v4 on get_coll_info has the same signature, and the same offset in the table. */
    return ((const struct nccl_abi_tuner_v4 *)next->table)
        ->get_coll_info(next->ctx, func, bytes, pipe_ops, table, n_algo, n_proto, reg_buff,
                        n_channels);
}

nccl_abi_result st_next_tuner_chunk(const struct st_next_tuner *next, int func, size_t bytes,
                                    int algo, int proto, int n_channels, size_t *chunk_size)
{
    const struct nccl_abi_tuner_v6 *table = next->table;

    if (next->version < 6 || !table->get_chunk_size)
        return NCCL_ABI_SUCCESS;
    return table->get_chunk_size(next->ctx, func, bytes, algo, proto, n_channels, chunk_size);
}

void st_next_tuner_close(struct st_next_tuner *next)
{
    const struct nccl_abi_tuner_v4 *table = next ? next->table : NULL;

    /* The function destroy, which later versions call finalize, is at the same offset in every
     * version. If it returns an error, we do not pass the error on, because NCCL would then leak
     * the communicator. */
    if (table && table->destroy)
        table->destroy(next->ctx);
    free(next);
}
