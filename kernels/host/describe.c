/* SPDX-License-Identifier: Apache-2.0 */
/* describe.c - report the state of a handle, and force a kernel. */
#include <stdio.h>
#include <string.h>

#include "base/until_exit.h"
#include "kernels/group/error.h"
#include "kernels/ipc/ipc.h"
#include "kernels/nodes/nodes.h"
#include "kernels/order/follower.h"
#include "kernels/scratch/grow.h"
#include "nccl/names.h"

static const char *const verdicts[] = {
    [AR_ALIVE] = "no error",
    [AR_TIMEOUT] = "a kernel waited for a peer past the time limit",
    [AR_ABORTED] = "the handle was aborted",
    [AR_OVERLAP] = "two calls of this handle ran at the same time",
    [AR_DESTROYED] = "the handle was destroyed",
    [AR_PEERS_GONE] = "the handle was aborted",
};

ncclResult_t ar_status(symtuner_ar *h)
{
    uint32_t verdict = __atomic_load_n(&h->mailbox->error, __ATOMIC_RELAXED);

    if (verdict == AR_ALIVE && __atomic_load_n(&h->mailbox->abort, __ATOMIC_RELAXED) != 0)
        return ar_fail(h, ncclInvalidUsage, "%s; destroy it", verdicts[AR_ABORTED]);
    if (verdict == AR_ALIVE && h->endpoint.timed_out[0] != 0)
        return ar_fail(h, ncclRemoteError, "%s", h->endpoint.timed_out);
    if (verdict == AR_ALIVE)
        return h->nodes != NULL ? ar_nodes_status(h) : ncclSuccess;
    return ar_fail(h, verdict == AR_TIMEOUT ? ncclRemoteError : ncclInvalidUsage,
                   "%s; destroy the handles of all ranks and create them again",
                   verdict < sizeof verdicts / sizeof verdicts[0] ? verdicts[verdict]
                                                                  : "unknown error");
}

/* A watchdog thread may call the next two functions while the process exits. */

ncclResult_t symtuner_ar_status(symtuner_ar *h)
{
    ncclResult_t result;

    if (h == NULL)
        return ar_fail_null();
    if (!st_until_exit_enter())
        return ncclSuccess;
    result = ar_status(h);
    st_until_exit_leave();
    return result;
}

uint32_t symtuner_ar_waits(const symtuner_ar *h)
{
    uint32_t waits;

    if (h == NULL || !st_until_exit_enter())
        return 0;
    waits = __atomic_load_n(&h->mailbox->waits, __ATOMIC_RELAXED);
    st_until_exit_leave();
    return waits + (h->nodes != NULL ? symtuner_ar_waits(h->nodes->box) : 0);
}

ncclResult_t symtuner_ar_force(symtuner_ar *h, const char *kernel, int ctas, int threads)
{
    int family = -1;

    if (h == NULL)
        return ar_fail_null();
    if (kernel != NULL) {
        family = ar_family_by_name(kernel);
        if (family < 0)
            return ar_fail(h, ncclInvalidArgument,
                           "kernel \"%s\" is unknown; symtuner_ar_kernel_name() lists the names",
                           kernel);
    }
    if (ctas < 0 || ctas > AR_MAX_CTAS || threads < 0 || threads > 1024)
        return ar_fail(h, ncclInvalidArgument,
                       "%d blocks of %d threads; write 0 to %d blocks and 0 to 1024 threads", ctas,
                       threads, AR_MAX_CTAS);
    h->force.family = family;
    h->force.ctas = ctas;
    h->force.threads = threads;
    return ncclSuccess;
}

const char *symtuner_ar_kernel_name(int i)
{
    return ar_family_name(i);
}

/* Write a line about ${arena} (a part of the scratch), and return the length of the line. If this
 * handle never gets the arena, write nothing and return 0. */
static int describe_arena(const symtuner_ar *h, int arena, char *text, size_t size)
{
    static const char *const regions[AR_REGIONS] = {"ll8",  "ll128",  "lamport",
                                                    "bulk", "gather", "ipc"};
    const struct ar_layout *l = &h->arena[arena].layout;
    enum ar_phase phase = ar_grow_phase(h, arena);
    int n;

    if (l->bytes == 0)
        return 0;
    n = snprintf(text, size, "scratch: %s%llu KiB of %s memory:",
                 phase == AR_HERE  ? ""
                 : phase > AR_HERE ? "refused for good: "
                                   : "once a call needs it: ",
                 (unsigned long long)(l->bytes >> 10),
                 h->links == AR_LINKS_HOST ? "pinned host" : "GPU");
    for (int r = 0; r < AR_REGIONS; r++)
        if (l->half[r] != 0)
            n += snprintf(text + n, size - (size_t)n, " %s %llu KiB%s,", regions[r],
                          (unsigned long long)(l->half[r] >> 10), r >= AR_REGION_BULK ? "" : " x2");
    text[n - 1] = '\n'; /* replaces the last comma */
    return n;
}

size_t symtuner_ar_describe(symtuner_ar *h, char *text, size_t length)
{
    static const char *const links[AR_LINKS] = {"NVLink peer memory", "PCIe peer memory",
                                                "pinned host memory"};
    static const char *const overlaps[AR_STARTS] = {"0, no kernel starts early",
                                                    "1, ours may start early",
                                                    "2, ours and the next ones may start early"};
    struct ar_ask ask = {0};
    char head[2048];
    int n;
    size_t rest;

    if (length != 0)
        *text = 0;
    if (h == NULL)
        return 0;
    n = snprintf(
        head, sizeof head,
        "rank %d of %d on GPU %d, %d multiprocessors, of which calls take at most %d for %d "
        "rank%s\n",
        h->me, h->ranks, h->device, h->sms, h->budget, h->on_device, h->on_device == 1 ? "" : "s");
    if (h->nodes != NULL)
        n += snprintf(head + n, sizeof head - (size_t)n,
                      "%d boxes of %d ranks; this is box %d, and rank %d in it\n",
                      h->nodes->boxes.count, h->nodes->boxes.ranks, h->nodes->boxes.box,
                      h->nodes->boxes.at);
    else if (h->gate != NULL)
        n += snprintf(head + n, sizeof head - (size_t)n, "every call goes to NCCL: %s\n", h->gate);
    else
        n += snprintf(head + n, sizeof head - (size_t)n, "transport: %s%s%s\n", links[h->links],
                      h->no_peer[0] != 0 ? "; no peer memory: " : "", h->no_peer);
    if (h->gate == NULL && h->links == AR_LINKS_HOST)
        n += snprintf(head + n, sizeof head - (size_t)n,
                      "registered buffers are treated as any others\n");
    if (h->probe_from[0] != 0)
        n += snprintf(head + n, sizeof head - (size_t)n,
                      "start-up probe: each rank to all others at once, MB/s: push %u, pull %u, "
                      "copy %u (%s)\n",
                      h->probe.push, h->probe.pull, h->probe.copy, h->probe_from);
    if (h->nccl != NULL)
        n +=
            snprintf(head + n, sizeof head - (size_t)n, "NCCL %d.%d.%d\n", h->nccl->version / 10000,
                     h->nccl->version / 100 % 100, h->nccl->version % 100);
    n += snprintf(head + n, sizeof head - (size_t)n, "time limit %llu ms\n",
                  (unsigned long long)(h->timeout_ns / 1000000));
    n += snprintf(head + n, sizeof head - (size_t)n, "beside: %s%s\n",
                  st_beside_words.word[h->beside],
                  h->beside_differs ? ", because the ranks were told different things" : "");
    for (int a = 0; a < AR_ARENAS && h->gate == NULL; a++)
        n += describe_arena(h, a, head + n, sizeof head - (size_t)n);
    n += ar_ipc_describe(h, head + n, sizeof head - (size_t)n);
    if (h->no_auto != NULL)
        n += snprintf(head + n, sizeof head - (size_t)n, "SYMTUNER_AR_IPC=auto has no effect: %s\n",
                      h->no_auto);
    else if (h->ipc_mode == AR_IPC_AUTO && h->ipc != NULL)
        n += snprintf(head + n, sizeof head - (size_t)n,
                      "SYMTUNER_AR_IPC=auto: NCCL runs long all-reduces until both ranks have "
                      "mapped their buffers\n");
    n += snprintf(head + n, sizeof head - (size_t)n, "overlapped launches: %s\n",
                  overlaps[ar_start_of(h)]);
    if (length != 0)
        snprintf(text, length, "%s", head);
    rest = (size_t)n;
    if (h->nodes != NULL)
        return rest + ar_nodes_describe(h, rest < length ? text + rest : text,
                                        rest < length ? length - rest : 0);
    if (h->gate != NULL || h->ranks == 1)
        return rest;
    rest += ar_rules_print(h->rules, h->rules_note, rest < length ? text + rest : text,
                           rest < length ? length - rest : 0);
    ar_grow_ask(h, &ask);
    return rest + ar_select_print(&ask, rest < length ? text + rest : text,
                                  rest < length ? length - rest : 0);
}
