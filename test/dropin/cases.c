/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cases.c - a program that uses NCCL, and checks whether NCCL or the kernels ran its calls.
 *
 * usage: cases CASE linked|PATH. With "linked" the program calls the NCCL that it is linked with.
 * With PATH it opens that NCCL by dlopen, and finds the functions by dlsym.
 *
 * It runs with LD_PRELOAD=libsymtuner_nccl.so on the fake NCCL and the fake kernels (folder fake),
 * which record their calls. One thread drives both ranks of a communicator. Exit 1: stderr says
 * which line failed.
 */
#include <string.h>
#include <unistd.h>

#include "test/dropin/play/play.h"

static struct nccl n;
static float a[64], b[64];

/* The calls that the fake kernels make to NCCL while they create handles for two ranks. */
#define MADE "AllGather:1 WindowRegister:4096 AllGather:1 WindowRegister:4096 "

static void make(void **comm)
{
    MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
    MUST(kernels() != NULL);
    SAID(n.record, MADE);
    SAID(kernels(), "create:2 ");
}

static void reduce(void *comm, size_t count)
{
    MUST(n.f.AllReduce(a, b, count, F32, SUM, comm, NULL) == 0);
}

static void end(void **comm)
{
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommDestroy(comm[i]) == 0);
    SAID(kernels(), "destroy:1 destroy:1 ");
    SAID(n.record, "Destroy Destroy ");
    MUST(kernels()->handles == kernels()->aborted);
}

static void calls(void)
{
    void *comm[2];

    make(comm);
    for (int i = 0; i < 2; i++)
        reduce(comm[i], 16);
    SAID(kernels(), "query all_reduce:16 query all_reduce:16 ");
    reduce(comm[0], 16); /* the drop-in remembers the answer to its query */
    MUST(n.f.ReduceScatter(a, b, 4, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllGather(a, b, 4, F32, comm[0], NULL) == 0);
    SAID(kernels(), "all_reduce:16 query reduce_scatter:4 query all_gather:4 ");
    SAID(n.record, "");
    /* the kernels fail: the program gets the error, and NCCL does not run the call */
    kernels()->fail = 6;
    MUST(n.f.AllReduce(a, b, 16, F32, SUM, comm[0], NULL) == 6);
    SAID(kernels(), "all_reduce:16 ");
    SAID(n.record, "");
    reduce(comm[0], 1 << 20);
    reduce(comm[0], 1 << 20);
    SAID(kernels(), "query ");
    SAID(n.record, "AllReduce:1048576 AllReduce:1048576 ");
    /* NCCL gets calls with an operator of the program, no elements, no buffer, or an unknown
     * type */
    MUST(n.f.AllReduce(a, b, 1, F32, 5, comm[0], NULL) == 0);
    MUST(n.f.AllReduce(a, b, 0, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllReduce(NULL, b, 2, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllReduce(a, b, 3, 99, SUM, comm[0], NULL) == 0);
    n.record->fail = 4;
    MUST(n.f.AllReduce(a, b, 4, -1, SUM, comm[0], NULL) == 4);
    MUST(n.f.AllReduceConfig(a, b, 5, F32, SUM, comm[0], NULL, "config") == 0);
    MUST(n.f.Bcast(a, 6, F32, 0, comm[0], NULL) == 0);
    SAID(n.record, "AllReduce:1 AllReduce:0 AllReduce:2 AllReduce:3 AllReduce:4 "
                   "AllReduceConfig:5 Broadcast:6 ");
    SAID(kernels(), "query ");
    MUST(n.future(7) == 0);
    SAID(n.record, "FromTheFuture:7 ");
    end(comm);
}

/* Check operators that the program creates. Both NCCL and the kernels' library create them. */
static void operators(void)
{
    void *comm[2], *one;
    float scalar = 2;
    int op = 0, other = 0;

    make(comm);
    MUST(n.f.RedOpCreatePreMulSum(&op, &scalar, F32, 1, comm[0]) == 0 && op == 77);
    SAID(n.record, "RedOpCreate:1 ");
    MUST(n.f.AllReduce(a, b, 16, F32, op, comm[0], NULL) == 0);
    MUST(n.f.AllReduce(a, b, 16, F32, op, comm[0], NULL) == 0);
    SAID(kernels(), "op_create query all_reduce:16 all_reduce:16 ");
    /* an operator may be destroyed before the group ends; the group's calls still use it */
    n.f.GroupStart();
    MUST(n.f.AllReduce(a, b, 16, F32, op, comm[0], NULL) == 0);
    MUST(n.f.RedOpDestroy(op, comm[0]) == 0);
    SAID(kernels(), "");
    n.f.GroupEnd();
    SAID(kernels(), "all_reduce:16 op_destroy ");
    SAID(n.record, "GroupStart GroupEnd RedOpDestroy:77 ");
    /* NCCL refuses this group and runs none of its calls, but destroys the operator. */
    n.f.GroupStart();
    MUST(n.f.RedOpCreatePreMulSum(&op, &scalar, F32, 0, comm[0]) == 0);
    MUST(n.f.AllReduce(a, b, 16, F32, op, comm[0], NULL) == 0);
    MUST(n.f.RedOpDestroy(op, comm[0]) == 0);
    n.record->end = 3;
    MUST(n.f.GroupEnd() == 3);
    SAID(kernels(), "op_create op_destroy ");
    SAID(n.record, "GroupStart RedOpCreate:0 GroupEnd RedOpDestroy:77 ");
    /* the kernels do not know this operator */
    MUST(n.f.AllReduce(a, b, 17, F32, 5, comm[0], NULL) == 0);
    MUST(n.f.RedOpDestroy(5, comm[0]) == 4);
    SAID(kernels(), "query op_destroy ");
    SAID(n.record, "AllReduce:17 RedOpDestroy:5 ");
    end(comm);
    MUST(n.f.RedOpCreatePreMulSum(&other, &scalar, F32, 1, comm[0]) ==
         0); /* the communicator has ended */
    SAID(n.record, "RedOpCreate:1 ");
    MUST(n.f.CommInitAll(&one, 1, NULL) == 0); /* one rank: NCCL runs all its calls */
    op = 0;
    MUST(n.f.RedOpCreatePreMulSum(&op, &scalar, F32, 1, one) == 0 && op == 77);
    MUST(n.f.RedOpDestroy(op, one) == 0);
    MUST(n.f.CommDestroy(one) == 0);
    SAID(n.record, "RedOpCreate:1 RedOpDestroy:77 Destroy ");
    SAID(kernels(), "");
}

/* Calls with NULL, or with a communicator that the drop-in does not know, go to NCCL. */
static void strangers(void)
{
    void *comm[2], *stranger = &comm;
    int error = 0;

    for (int i = 0; i < 2; i++) {
        MUST(n.f.AllReduce(a, b, 8, F32, SUM, NULL, NULL) == 0);
        MUST(n.f.Broadcast(a, b, 8, F32, 0, NULL, NULL) == 0);
        MUST(n.f.CommGetAsyncError(NULL, &error) == 0);
        n.f.GroupStart();
        MUST(n.f.AllReduce(a, b, 9, F32, SUM, stranger, NULL) == 0);
        MUST(n.f.Send(a, 9, F32, 0, stranger, NULL) == 0);
        n.f.GroupEnd();
        SAID(n.record, "AllReduce:8 Broadcast:8 GroupStart AllReduce:9 Send:9 GroupEnd ");
        make(comm);
        end(comm);
    }
}

/* The ranks decide who runs a call of DECIDED elements. They must decide before NCCL ends a group:
 * in calls after the group, a thread that drives both ranks would wait for itself. */
static void either(void)
{
    void *comm[2];

    make(comm);
    reduce(comm[0], DECIDED);
    SAID(kernels(), "query decide:12 all_reduce:12 ");
    SAID(n.record, "");
    kernels()->gives = true;
    reduce(comm[0], DECIDED);
    SAID(kernels(), "decide:12 ");
    SAID(n.record, "AllReduce:12 ");
    n.f.GroupStart();
    reduce(comm[0], DECIDED);
    reduce(comm[0], 16);
    n.f.GroupEnd();
    SAID(n.record, "GroupStart AllReduce:12 GroupEnd ");
    SAID(kernels(), "query decide:12 all_reduce:16 ");
    /* because of the broadcast NCCL gets the whole group, so the ranks decide nothing */
    n.f.GroupStart();
    reduce(comm[0], DECIDED);
    n.f.Broadcast(a, a, 5, F32, 0, comm[0], NULL);
    n.f.GroupEnd();
    SAID(n.record, "GroupStart Broadcast:5 AllReduce:12 GroupEnd ");
    SAID(kernels(), "");
    kernels()->gives = false;
    end(comm);
}

static void groups(void)
{
    void *comm[2], *other[2];

    make(comm);
    make(other);
    reduce(comm[0], 16);
    reduce(comm[1], 16);
    reduce(other[0], 16);
    said(kernels());
    /* if our kernels run all calls of a group, NCCL gets an empty group */
    n.f.GroupStart();
    n.f.GroupStart();
    reduce(comm[0], 16);
    n.f.GroupEnd();
    reduce(comm[1], 16);
    SAID(kernels(), "");
    MUST(n.f.GroupEnd() == 0);
    SAID(kernels(), "all_reduce:16 all_reduce:16 ");
    SAID(n.record, "GroupStart GroupStart GroupEnd GroupEnd ");
    /* sends, and calls on another communicator, do not change who runs the all-reduce */
    n.f.GroupStart();
    reduce(comm[0], 16);
    n.f.Send(a, 3, F32, 1, comm[0], NULL);
    n.f.Broadcast(a, a, 5, F32, 0, other[0], NULL);
    n.f.GroupEnd();
    SAID(kernels(), "all_reduce:16 ");
    SAID(n.record, "GroupStart Send:3 Broadcast:5 GroupEnd ");
    /* if NCCL gets one of a communicator's collectives, it gets all of them in this group */
    n.f.GroupStart();
    reduce(comm[0], 16);
    reduce(other[0], 16);
    n.f.Broadcast(a, a, 5, F32, 0, comm[0], NULL);
    reduce(comm[0], 1 << 20);
    n.f.GroupEnd();
    SAID(n.record, "GroupStart Broadcast:5 AllReduce:1048576 AllReduce:16 GroupEnd ");
    SAID(kernels(), "query all_reduce:16 ");
    /* if a communicator has five collectives in a group, they go to NCCL, which runs them in one
     * kernel */
    n.f.GroupStart();
    for (int i = 0; i < 5; i++)
        reduce(comm[0], 16);
    for (int i = 0; i < 4; i++)
        reduce(comm[1], 16);
    n.f.GroupEnd();
    SAID(n.record, "GroupStart AllReduce:16 AllReduce:16 AllReduce:16 AllReduce:16 AllReduce:16 "
                   "GroupEnd ");
    SAID(kernels(), "all_reduce:16 all_reduce:16 all_reduce:16 all_reduce:16 ");
    /* if a call of a group fails, NCCL runs no call of that group */
    n.f.GroupStart();
    reduce(comm[0], 16);
    n.record->fail = 4;
    MUST(n.f.Send(a, 3, F32, 1, comm[0], NULL) == 4);
    MUST(n.f.GroupEnd() == 4);
    SAID(kernels(), "");
    SAID(n.record, "GroupStart Send:3 GroupEnd ");
    /* ncclGroupSimulateEnd does not run the calls of its group */
    n.f.GroupStart();
    reduce(comm[0], 16);
    n.f.GroupSimulateEnd(NULL);
    SAID(kernels(), "");
    SAID(n.record, "GroupStart AllReduce:16 GroupSimulateEnd ");
    /* call an unknown function in a group; then end a group that was not begun */
    n.f.GroupStart();
    reduce(comm[0], 16);
    n.future(1);
    n.f.GroupEnd();
    SAID(kernels(), "all_reduce:16 ");
    SAID(n.record, "GroupStart FromTheFuture:1 GroupEnd ");
    MUST(n.f.GroupEnd() == 5);
    SAID(n.record, "GroupEnd ");
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommDestroy(other[i]) == 0);
    said(kernels());
    said(n.record);
    end(comm);
}

static void life(void)
{
    struct nccl_abi_config blocking = {.size = sizeof blocking, .blocking = NCCL_ABI_UNSET},
                           fast = {.size = sizeof fast, .blocking = 0};
    struct nccl_abi_id id;
    void *comm[2], *child[2] = {NULL}, *one;
    int error = 0;

    n.id(&id);
    n.f.GroupStart();
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommInitRankConfig(&comm[i], 2, id, i, &blocking) == 0);
    MUST(n.f.GroupEnd() == 0);
    SAID(kernels(), "create:2 ");
    SAID(n.record, "GroupStart GroupEnd " MADE);
    n.f.GroupStart(); /* NCCL makes the communicators at the end of the group */
    MUST(n.f.CommInitAll(child, 2, NULL) == 0);
    MUST(n.f.GroupEnd() == 0);
    SAID(kernels(), "create:2 ");
    SAID(n.record, "GroupStart GroupEnd " MADE);
    MUST(n.f.CommDestroy(child[0]) == 0 && n.f.CommDestroy(child[1]) == 0);
    said(kernels());
    n.f.GroupStart();
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommSplit(comm[i], i ? -1 : 0, 0, &child[i], NULL) == 0);
    said(n.record);
    n.id(&id);
    MUST(n.f.CommInitRankScalable(&one, 1, 0, 1, &id, NULL) == 0);
    MUST(n.f.GroupEnd() == 0);
    SAID(kernels(), ""); /* there are no handles, because the other rank of the child never comes */
    MUST(child[0] && !child[1] && one);
    reduce(child[0], 8);
    reduce(one, 9);
    SAID(n.record, "GroupEnd AllReduce:8 AllReduce:9 ");
    MUST(n.f.CommDestroy(child[0]) == 0 && n.f.CommDestroy(one) == 0);
    /* First make a communicator with more ranks than any box has GPUs. Then let a group fail. */
    n.f.GroupStart();
    MUST(n.f.CommInitRankScalable(&one, 17, 0, 1, &id, NULL) == 0);
    MUST(n.f.GroupEnd() == 0);
    n.f.GroupStart();
    MUST(n.f.CommInitRankScalable(&child[0], 2, 0, 1, &id, NULL) == 0);
    MUST(n.f.CommInitRankScalable(&child[1], 2, 1, 1, &id, NULL) == 0);
    n.record->end = 3;
    MUST(n.f.GroupEnd() == 3);
    said(n.record);
    reduce(one, 9);
    reduce(child[0], 9);
    SAID(kernels(), "");
    SAID(n.record, "AllReduce:9 AllReduce:9 ");
    MUST(n.f.CommDestroy(one) == 0);
    n.f.GroupStart();
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommSplit(comm[i], 3, 0, &child[i], NULL) == 0);
    said(n.record);
    MUST(n.f.GroupEnd() == 0);
    SAID(kernels(), "create:2 ");
    SAID(n.record, "GroupEnd " MADE);
    /* the program gets an error of our kernels as an error of NCCL; NCCL itself, when it asks
     * during an abort, does not get it */
    MUST(n.f.CommGetAsyncError(child[0], &error) == 0 && error == 0);
    kernels()->status = 6;
    MUST(n.f.CommGetAsyncError(child[0], &error) == 0 && error == 6);
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommAbort(child[i]) == 0);
    SAID(kernels(), "abort discard:1 abort discard:1 ");
    SAID(n.record, "Abort:0 Abort:0 ");
    n.record->async = 2;
    MUST(n.f.CommGetAsyncError(comm[0], &error) == 0 && error == 2);
    n.record->async = kernels()->status = 0;
    /* after finalize, destroy does not free the handle again; calls on a revoked communicator go to
     * NCCL */
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommFinalize(comm[i]) == 0);
    SAID(kernels(), "destroy:1 destroy:1 ");
    for (int i = 0; i < 2; i++)
        MUST(n.f.CommDestroy(comm[i]) == 0);
    SAID(kernels(), "");
    SAID(n.record, "Finalize Finalize Destroy Destroy ");
    make(comm);
    MUST(n.f.CommRevoke(comm[0], 0) == 0 && n.f.CommRevoke(comm[1], 0) == 0);
    SAID(kernels(), "abort abort ");
    reduce(comm[0], 8);
    reduce(comm[1], 8);
    SAID(n.record, "Revoke Revoke AllReduce:8 AllReduce:8 ");
    MUST(n.f.CommShrink(comm[0], NULL, 1, &one, NULL, 0) == 0);
    reduce(one, 8);
    MUST(n.f.CommGrow(comm[0], 2, NULL, 0, &child[0], NULL) == 0);
    reduce(child[0], 8);
    SAID(n.record, "Shrink:0 AllReduce:8 AllReduce:8 ");
    /* ncclGroupEnd may return ncclInProgress, because of a non-blocking communicator; our kernels
     * run their calls of the group all the same */
    make(comm);
    n.f.GroupStart();
    reduce(comm[0], 8);
    n.record->end = NCCL_ABI_IN_PROGRESS;
    MUST(n.f.GroupEnd() == NCCL_ABI_IN_PROGRESS);
    SAID(kernels(), "query all_reduce:8 ");
    said(n.record);
    end(comm);
    MUST(n.f.CommInitRankConfig(&child[1], 2, id, 0, &fast) == NCCL_ABI_IN_PROGRESS);
    reduce(child[1], 8);
    SAID(n.record, "AllReduce:8 ");
    SAID(kernels(), "");
}

/* Without settings only all-reduces that the kernels' table takes run on the kernels. */
static void defaults(void)
{
    void *comm[2];

    make(comm);
    reduce(comm[0], 16);
    SAID(kernels(), "query all_reduce:16 ");
    said(n.record);
    reduce(comm[0], (1 << 20) + 1);
    MUST(n.f.ReduceScatter(a, b, 16, F32, SUM, comm[0], NULL) == 0);
    MUST(n.f.AllGather(a, b, 16, F32, comm[0], NULL) == 0);
    SAID(kernels(), "query ");
    SAID(n.record, "AllReduce:1048577 ReduceScatter:16 AllGather:16 ");
    end(comm);
}

/* Calls on communicators of a second NCCL go to that NCCL. It does not matter which copy's function
 * the program calls: a call goes to the copy that made its communicator. */
static void two(void)
{
    struct nccl first = n, second;
    void *comm[2], *foreign[2];

    make(comm);
    nccl_opened(&second, dlopen(getenv("SECOND"), RTLD_NOW | RTLD_LOCAL));
    MUST(second.record != first.record);
    MUST(second.f.CommInitAll(foreign, 2, NULL) == 0);
    SAID(kernels(), "");
    reduce(foreign[0], 8);
    SAID(n.record, "");
    SAID(second.record, "AllReduce:8 ");
    MUST(second.f.AllReduce(a, b, 16, F32, SUM, comm[0], NULL) == 0);
    SAID(kernels(), "query all_reduce:16 ");
    MUST(second.f.AllReduce(a, b, 1 << 20, F32, SUM, comm[0], NULL) == 0);
    MUST(second.f.Broadcast(a, b, 4, F32, 0, comm[0], NULL) == 0);
    SAID(second.record, "");
    SAID(n.record, "AllReduce:1048576 Broadcast:4 ");
    second.f.GroupStart();
    SAID(kernels(), "query ");
    reduce(comm[0], 16); /* this group belongs to the other copy */
    SAID(kernels(), "all_reduce:16 ");
    second.f.GroupEnd();
    SAID(second.record, "GroupStart GroupEnd ");
    MUST(second.future(3) == 0);
    SAID(second.record, "FromTheFuture:3 ");
    MUST(second.f.CommDestroy(foreign[0]) == 0);
    SAID(second.record, "Destroy ");
    end(comm);
}

/* Make and destroy 500 communicators, nine at a time. The limit is 8, so the last one of nine gets
 * no handles. */
static void many(void)
{
    void *comm[9][2];

    for (int round = 0; round < 56; round++) {
        for (int i = 0; i < 9; i++)
            MUST(n.f.CommInitAll(comm[i], 2, NULL) == 0);
        MUST(kernels()->handles == 16);
        said(n.record);
        reduce(comm[8][0], 5);
        reduce(comm[7][0], 5);
        SAID(n.record, "AllReduce:5 ");
        for (int i = 0; i < 9; i++)
            MUST(n.f.CommDestroy(comm[i][0]) == 0 && n.f.CommDestroy(comm[i][1]) == 0);
        MUST(kernels()->handles == kernels()->aborted);
        said(kernels());
    }
}

/* With SYMTUNER_MODE=off NCCL must get the same calls as without the drop-in. run.sh compares both
 * records. */
static void trace(void)
{
    void *comm[2], *child[2], *window;

    MUST(n.f.CommInitAll(comm, 2, NULL) == 0);
    n.f.GroupStart();
    reduce(comm[0], 16);
    n.f.Send(a, 3, F32, 1, comm[0], NULL);
    reduce(comm[1], 16);
    n.f.GroupEnd();
    n.f.CommSplit(comm[0], 1, 0, &child[0], NULL);
    n.f.CommSplit(comm[1], -1, 0, &child[1], NULL);
    n.f.CommWindowRegister(comm[0], a, sizeof a, &window, 1);
    n.f.AllGather(a, b, 4, F32, child[0], NULL);
    n.f.CommWindowDeregister(comm[0], window);
    n.future(2);
    n.f.CommRevoke(comm[1], 0);
    n.f.CommFinalize(comm[0]);
    n.f.CommDestroy(comm[0]);
    n.f.CommAbort(comm[1]);
    printf("%s\n", said(n.record));
    printf("kernels: %s\n", kernels() ? "opened" : "not opened");
}

/* The drop-in must warn that this NCCL lacks the function, although it has not read its settings
 * yet. */
static void lacking(void)
{
    MUST(n.f.GatherConfig(a, b, 1, F32, 0, NULL, NULL, NULL) == 5);
}

/* For all names but NCCL's, dlsym does what it does without the drop-in. It also takes this program
 * for its caller. */
static void symbols(void)
{
    MUST(dlsym(RTLD_DEFAULT, "getpid") == (void *)getpid);
    MUST(dlsym(RTLD_NEXT, "main") == NULL && dlerror() != NULL);
    MUST(dlsym(RTLD_DEFAULT, "ncclNoSuchFunction") == NULL && dlerror() != NULL);
    MUST(dlsym(dlopen("libc.so.6", RTLD_NOW), "ncclAllReduce") == NULL);
    MUST(dlerror() != NULL && dlerror() == NULL);
    MUST(dlsym(RTLD_DEFAULT, "ncclCommInitAll") != NULL);
    /* the drop-in has these functions, but this NCCL does not have them */
    MUST(dlsym(RTLD_DEFAULT, "ncclGatherConfig") == NULL && dlerror() != NULL);
    MUST(dlsym(dlopen(NULL, RTLD_NOW), "ncclScatter") == NULL && dlerror() != NULL);
}

int main(int argc, char **argv)
{
    static const struct play_case cases[] = {
        {"calls", calls}, {"strangers", strangers}, {"groups", groups},   {"either", either},
        {"life", life},   {"defaults", defaults},   {"two", two},         {"many", many},
        {"trace", trace}, {"symbols", symbols},     {"lacking", lacking}, {"operators", operators}};

    MUST(argc == 3);
    if (strcmp(argv[2], "linked") == 0)
        nccl_linked(&n);
    else
        nccl_opened(&n, dlopen(argv[2], RTLD_NOW | RTLD_LOCAL));
    return play_case(cases, sizeof cases / sizeof *cases, argv[1]);
}
