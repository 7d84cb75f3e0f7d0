/* SPDX-License-Identifier: Apache-2.0 */
/*
 * families.c - a program that aborts communicators which share resources with others, and checks
 * which communicators our kernels give up on. One thread drives all ranks of a communicator.
 *
 * usage: families CASE    under the drop-in, on the fake NCCL and the fake kernels. Exit 1: stderr
 *                         says which line failed.
 */
#include "test/dropin/play/play.h"

static struct nccl n;

/* Make a communicator with a config that has the members up to ${size}. */
static void make_sharing(void **comm, int ranks, size_t size, unsigned version, int share)
{
    struct nccl_abi_config_27 config = {.size = size,
                                        .version = version,
                                        .blocking = 1,
                                        .split_share = share,
                                        .shrink_share = share};
    struct nccl_abi_id id;

    n.id(&id);
    n.f.GroupStart();
    for (int i = 0; i < ranks; i++)
        MUST(n.f.CommInitRankConfig(&comm[i], ranks, id, i, &config) == 0);
    MUST(n.f.GroupEnd() == 0);
}

static void split(void **comm, void **child, struct nccl_abi_config_27 *config)
{
    n.f.GroupStart();
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommSplit(comm[i], 0, i, &child[i], config) == 0);
    MUST(n.f.GroupEnd() == 0);
    said(kernels());
}

/* Abort rank 0 of a communicator. ${want} is what our kernels must hear then. */
static void abort_0(void **comm, const char *want)
{
    said(n.record);
    said(kernels());
    MUST(n.f.CommAbort(comm[0]) == 0);
    SAID(n.record, "Abort:0 ");
    SAID(kernels(), want);
}

static void abort_all(void **comm, int first, int ranks)
{
    for (int i = first; i < ranks; i++)
        MUST(n.f.CommAbort(comm[i]) == 0);
}

/* Make a communicator, split it, and abort it. Return whether that aborts the child, too. */
static bool is_shared(size_t size, unsigned version, int share)
{
    void *comm[2], *child[2];
    bool shared;

    make_sharing(comm, 2, size, version, share);
    split(comm, child, NULL);
    said(kernels());
    MUST(n.f.CommAbort(comm[0]) == 0);
    shared = strcmp(said(kernels()), "abort abort discard:1 ") == 0;
    abort_all(comm, 1, 2);
    abort_all(child, 0, 2);
    return shared;
}

/* As is_shared, for shrink. */
static bool is_shared_by_shrink(size_t size, unsigned version, int share, int flags)
{
    void *comm[3], *child[2];
    bool shared;
    int last = 2;

    make_sharing(comm, 3, size, version, share);
    n.f.GroupStart();
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommShrink(comm[i], &last, 1, &child[i], NULL, flags) == 0);
    MUST(n.f.GroupEnd() == 0);
    said(kernels());
    MUST(n.f.CommAbort(child[0]) == 0);
    shared = strcmp(said(kernels()), "abort abort discard:1 ") == 0;
    abort_all(comm, 0, 3);
    abort_all(child, 1, 2);
    return shared;
}

enum { WHOLE = sizeof(struct nccl_abi_config_27), OLD = 40, VERSION_27 = 22700 };

/* If communicators share resources, NCCL aborts them together, and waits for the work of all. So
 * our kernels must give up on all of them, but not on others. */
static void families(void)
{
    static float a[16], b[16];
    struct nccl_abi_config_27 alone = {.size = WHOLE, .version = VERSION_27, .blocking = 1};
    void *comm[4], *child[2], *grandchild[2];
    int last[2] = {2, 3};

    /* all three are of one family; rank 1, in the same process, is of another */
    make_sharing(comm, 2, WHOLE, VERSION_27, 1);
    split(comm, child, NULL);
    split(child, grandchild, NULL);
    abort_0(child, "abort abort abort discard:1 ");
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, grandchild[0], NULL) == 0);
    SAID(n.record, "AllReduce:16 AllReduce:16 ");
    SAID(kernels(), "");
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, grandchild[1], NULL) == 0);
    SAID(kernels(), "query all_reduce:16 ");
    MUST(n.f.CommDestroy(grandchild[0]) == 0);
    SAID(kernels(), "destroy:1 ");
    abort_0(comm, "abort discard:1 ");
    abort_all(comm, 1, 2);
    abort_all(child, 1, 2);
    abort_all(grandchild, 1, 2);
    /* the parent's config says whether the child shares; the child's own config is for its children
     */
    make_sharing(comm, 2, WHOLE, VERSION_27, 1);
    split(comm, child, &alone);
    split(child, grandchild, NULL);
    abort_0(grandchild, "abort discard:1 ");
    abort_0(comm, "abort abort discard:1 ");
    abort_0(child, "abort discard:1 ");
    abort_all(comm, 1, 2);
    abort_all(child, 1, 2);
    abort_all(grandchild, 1, 2);
    MUST(kernels()->handles == 0);
    /* a revocation ends the work of the family, but not if NCCL refuses it; children of a revoked
     * communicator share nothing */
    make_sharing(comm, 2, WHOLE, VERSION_27, 1);
    split(comm, child, NULL);
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommFinalize(child[i]) == 0);
    SAID(kernels(), "destroy:1 destroy:1 ");
    n.f.CommRevoke(child[0], 0);
    SAID(kernels(), "");
    abort_all(child, 0, 2);
    split(comm, child, NULL);
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommRevoke(comm[i], 0) == 0);
    SAID(kernels(), "abort abort abort abort ");
    split(comm, grandchild, NULL);
    n.f.CommRevoke(comm[0], 0);
    SAID(kernels(), "");
    abort_0(grandchild, "abort discard:1 ");
    abort_0(comm, "abort abort discard:1 ");
    abort_all(comm, 1, 2);
    abort_all(child, 0, 2);
    abort_all(grandchild, 1, 2);
    /* so does ncclCommShrink with NCCL_SHRINK_ABORT */
    make_sharing(comm, 4, WHOLE, VERSION_27, 1);
    split(comm, child, NULL);
    said(kernels());
    n.f.GroupStart();
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommShrink(comm[i], last, 2, &grandchild[i], NULL, NCCL_ABI_SHRINK_ABORT) == 0);
    SAID(kernels(), "abort abort abort abort ");
    MUST(n.f.GroupEnd() == 0);
    abort_all(comm, 0, 4);
    abort_all(child, 0, 2);
    abort_all(grandchild, 0, 2);
    MUST(kernels()->handles == 0);
    MUST(is_shared_by_shrink(WHOLE, VERSION_27, 1, 0));
    MUST(!is_shared_by_shrink(WHOLE, VERSION_27, 1, NCCL_ABI_SHRINK_ABORT));
    MUST(!is_shared_by_shrink(WHOLE, VERSION_27, 0, 0));
    MUST(!is_shared_by_shrink(WHOLE, VERSION_27 - 1, 1, 0));
    MUST(!is_shared_by_shrink(64, VERSION_27, 1, 0));
    MUST(is_shared(WHOLE, VERSION_27, 1) && is_shared(48, 21800, 1));
    MUST(!is_shared(WHOLE, VERSION_27, 0) && !is_shared(WHOLE, VERSION_27, NCCL_ABI_UNSET));
    MUST(!is_shared(OLD, VERSION_27, 1));
}

/* Run with NCCL_COMM_SPLIT_SHARE_RESOURCES=1 and NCCL_COMM_SHRINK_SHARE_RESOURCES=0, which override
 * the config, or with the values the other way round. */
static void variables(bool splits)
{
    MUST(is_shared(WHOLE, VERSION_27, 0) == splits && is_shared(WHOLE, VERSION_27, 1) == splits);
    MUST(is_shared_by_shrink(WHOLE, VERSION_27, 0, 0) == !splits);
    MUST(is_shared_by_shrink(WHOLE, VERSION_27, 1, 0) == !splits);
}

static void split_shares(void)
{
    variables(true);
}

static void shrink_shares(void)
{
    variables(false);
}

int main(int argc, char **argv)
{
    static const struct play_case cases[] = {
        {"families", families}, {"split_shares", split_shares}, {"shrink_shares", shrink_shares}};

    MUST(argc == 2);
    nccl_linked(&n);
    return play_case(cases, sizeof cases / sizeof *cases, argv[1]);
}
