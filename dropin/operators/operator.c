/* SPDX-License-Identifier: Apache-2.0 */
#include "dropin/operators/operator.h"

#include "dropin/life.h"

bool st_op_known(const struct st_comm *c)
{
    return c->kernels->op_create_premul_sum_ && c->kernels->op_destroy_;
}

static nccl_abi_result destroy_now(struct st_op op)
{
    struct st_comm *c = st_comm_find(op.comm);
    struct symtuner_ar *handle = c ? st_life_hold(c) : NULL;
    nccl_abi_result result = NCCL_ABI_INVALID_USAGE;

    if (!c)
        return NCCL_ABI_SUCCESS; /* the communicator is gone, and its operators with it */
    if (handle && st_op_known(c)) {
        st_inside++;
        result = c->kernels->op_destroy_(op.op, handle);
        st_inside--;
    }
    if (handle)
        st_life_release(c);
    return result == NCCL_ABI_SUCCESS ? result : c->real->call.RedOpDestroy(op.op, op.comm);
}

nccl_abi_result st_op_create(struct st_comm *c, int *op, void *scalar, int dtype, int residence)
{
    struct symtuner_ar *handle = st_life_hold(c);
    nccl_abi_result result;

    if (handle && st_op_known(c)) {
        st_inside++;
        result = c->kernels->op_create_premul_sum_(op, scalar, dtype, residence, handle);
        st_inside--;
    } else {
        result = c->real->call.RedOpCreatePreMulSum(op, scalar, dtype, residence, c->comm);
    }
    if (handle)
        st_life_release(c);
    return result;
}

nccl_abi_result st_op_destroy(struct st_comm *c, int op)
{
    const struct st_op gone = {atomic_load(&c->comm), op};
    struct st_group *g = st_group_of(c->real);
    struct st_op *later;

    if (g->depth == 0 || g->calls == 0)
        return destroy_now(gone);
    later = st_group_more((void **)&g->op, g->ops, &g->ops_room, sizeof *g->op);
    if (!later)
        return NCCL_ABI_INTERNAL_ERROR;
    *later = gone;
    g->ops++;
    return NCCL_ABI_SUCCESS;
}

void st_ops_destroy(struct st_group *g)
{
    for (int i = 0; i < g->ops; i++)
        destroy_now(g->op[i]);
    g->ops = 0;
}
