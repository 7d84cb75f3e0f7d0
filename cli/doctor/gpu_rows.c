/* SPDX-License-Identifier: Apache-2.0 */
/* gpu_rows.c - findings about GPUs, and the tables of what was measured on them. */
#include <stdlib.h>
#include <string.h>

#include "cli/doctor/gpu.h"
#include "cli/text.h"

/* Return how many GPUs were measured with each other: 0 if there are none, or if the measurement
 * ended early. */
static int measured(const struct st_doctor *d)
{
    return d->gpus && !d->gpus->failed ? d->gpus->gpus : 0;
}

#define EACH_PAIR(d, i, j)                                                                         \
    for (int i = 0; i < measured(d); i++)                                                          \
        for (int j = 0; j < measured(d); j++)                                                      \
            if (i != j)

static bool gpu_fails(const struct st_doctor *d, char *evidence)
{
    if (!d->gpus || !d->gpus->failed)
        return false;
    if (d->gpus->failed_text[0])
        return st_found(evidence, "%s", d->gpus->failed_text);
    return st_found(evidence, "GPU %d: no context, memory or kernel", d->gpus->failed - 1);
}

static bool gpus_differ(const struct st_doctor *d, char *evidence)
{
    for (int i = 1; d->gpus && i < d->gpus->gpus; i++)
        if (strcmp(d->gpus->name[0], d->gpus->name[i]) != 0)
            return st_found(evidence, "GPU 0 is %s, GPU %d is %s", d->gpus->name[0], i,
                            d->gpus->name[i]);
    return false;
}

static bool peer_missing(const struct st_doctor *d, char *evidence)
{
    int pairs = 0;
    size_t at = 0;

    EACH_PAIR (d, i, j)
        if (!d->gpus->pair[i][j].peer && pairs++ < 6)
            at = st_text_add(evidence, ST_EVIDENCE, at, "%s%d to %d", at ? ", " : "GPU ", i, j);
    if (pairs > 6)
        st_text_add(evidence, ST_EVIDENCE, at, " and %d more", pairs - 6);
    return pairs > 0;
}

static bool write_lost(const struct st_doctor *d, char *evidence)
{
    EACH_PAIR (d, i, j) {
        const struct st_pair *pair = &d->gpus->pair[i][j];

        if (!pair->engine_arrives || (pair->peer && !pair->arrives))
            return st_found(evidence,
                            "what GPU %d wrote by %s into GPU %d's memory is not what was read "
                            "there",
                            i, pair->engine_arrives ? "kernel" : "copy engine", j);
    }
    return false;
}

static bool staged(const struct st_doctor *d, char *evidence)
{
    EACH_PAIR (d, i, j) {
        const struct st_pair *pair = &d->gpus->pair[i][j];
        double kernel = pair->store > pair->load ? pair->store : pair->load;

        if (pair->peer && kernel > 0 && kernel * 5 < pair->engine)
            return st_found(evidence, "GPU %d to %d: kernels %.1f GB/s, copy engine %.1f GB/s", i,
                            j, kernel, pair->engine);
    }
    return false;
}

static bool collapse(const struct st_doctor *d, char *evidence)
{
    EACH_PAIR (d, i, j) {
        const struct st_pair *pair = &d->gpus->pair[i][j];
        double together = d->gpus->together[i];

        if (pair->peer && pair->store > 0 && pair->store * 3 < pair->load)
            return st_found(evidence, "GPU %d to %d: stores %.1f GB/s, loads %.1f GB/s", i, j,
                            pair->store, pair->load);
        if (j == (i + 1) % d->gpus->gpus && pair->peer && together > 0 &&
            together * 3 < pair->store)
            return st_found(evidence, "GPU %d to %d: stores %.1f GB/s alone, %.1f GB/s when all "
                            "GPUs write", i, j, pair->store, together);
    }
    return false;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

static bool slow_pair(const struct st_doctor *d, char *evidence)
{
    double all[ST_GPUS_MAX * ST_GPUS_MAX];
    int n = 0;

    if (measured(d) < 3)
        return false;
    EACH_PAIR (d, i, j)
        all[n++] = d->gpus->pair[i][j].engine;
    qsort(all, (size_t)n, sizeof *all, by_value);
    EACH_PAIR (d, i, j)
        if (d->gpus->pair[i][j].engine < 0.6 * all[n / 2])
            return st_found(evidence, "GPU %d to %d: %.1f GB/s, the median pair has %.1f", i, j,
                            d->gpus->pair[i][j].engine, all[n / 2]);
    return false;
}

static bool window_null(const struct st_doctor *d, char *evidence)
{
    return d->gpus && d->gpus->windows == ST_WINDOWS_NULL &&
           st_found(evidence, "ncclCommWindowRegister on all %d GPUs: success, and a NULL window",
                    d->gpus->gpus);
}

static bool window_failed(const struct st_doctor *d, char *evidence)
{
    return d->gpus && d->gpus->windows == ST_WINDOWS_FAILED &&
           st_found(evidence, "%s", d->gpus->windows_text);
}

static bool multicast_unused(const struct st_doctor *d, char *evidence)
{
    const struct st_setting *nvls = st_doctor_get(d, "NCCL_NVLS_ENABLE");

    return d->gpus && d->gpus->gpus > 1 && d->gpus->multicast[0] == 1 && nvls &&
           strcmp(nvls->value, "0") == 0 &&
           st_found(evidence, "the GPUs say that they support multicast (attribute only; not "
                              "tried), NCCL_NVLS_ENABLE=0");
}

const struct st_finding st_findings_gpu[] = {
    ST_ROW("gpu-fails", ST_ERROR, gpu_fails,
        "the tests on the GPUs failed, so the doctor can check nothing else about the GPUs",
        "run nvidia-smi, and look for Xid lines in the kernel log"),
    ST_ROW("gpus-differ", ST_WARNING, gpus_differ,
        "NCCL and rules assume GPUs of one kind, so ranks may decide differently",
        "use GPUs of one kind for a job (CUDA_VISIBLE_DEVICES)"),
    ST_ROW("peer-missing", ST_WARNING, peer_missing,
        "these pairs of GPUs exchange data through host memory, and NCCL runs no symmetric kernel",
        "switch IOMMU and ACS off, seat the NVLink bridges, and give all GPUs to one virtual "
        "machine"),
    ST_ROW("write-lost", ST_ERROR, write_lost,
        "writes to another GPU's memory are lost or changed on the way, so results of collectives "
        "are wrong",
        "set NCCL_P2P_DISABLE=1 until IOMMU, ACS or the hardware is repaired"),
    ST_ROW("peer-staged", ST_WARNING, staged,
        "kernels reach the memory of other GPUs through host memory, but the copy engine does "
        "not: NCCL's ring has its usual speed, and symmetric kernels are slow",
        "update driver and board firmware; until then keep buffers out of windows"),
    ST_ROW("write-collapse", ST_WARNING, collapse,
        "writes become very slow if many are on their way: kernels that write to other GPUs are "
        "slow, and kernels that read from them are not",
        "use kernels that only read (SYMTUNER_AR_KERNEL=pull_one; on PCIe libsymtuner_ar.so "
        "chooses them by itself), or move the GPUs to one switch or root complex"),
    ST_ROW("slow-pair", ST_WARNING, slow_pair,
        "these pairs are slower than the others, and a collective is as slow as its slowest pair",
        "run nvidia-smi nvlink -s and nvidia-smi topo -m: a link may be down, or a slot narrower"),
    ST_ROW("window-null", ST_ERROR, window_null,
        "NCCL returned no window: the program believes that its buffers are symmetric, but NCCL "
        "uses general kernels",
        "symtuner why names the condition that fails; check NCCL_WIN_ENABLE, NCCL_CUMEM_ENABLE and "
        "peer access"),
    ST_ROW("window-failed", ST_ERROR, window_failed, "symmetric memory does not work here",
        "run with NCCL_DEBUG=WARN and read what it says"),
    ST_ROW("multicast-unused", ST_NOTE, multicast_unused,
        "multicast kernels are switched off; on a box where multicast works they are the fastest",
        "unset NCCL_NVLS_ENABLE where multicast is known to work"),
    {.id = NULL},
};

void st_doctor_gpu_print(const struct st_doctor *d, FILE *out)
{
    static const char *const windows[] = {"not tried", "real", "NULL", "failed"};
    const struct st_gpu_report *r = d->gpus;
    static const struct {
        const char *title;
        size_t offset;
    } column[] = {{"kernel stores, GB/s", offsetof(struct st_pair, store)},
                  {"kernel loads, GB/s", offsetof(struct st_pair, load)},
                  {"copy engine, GB/s", offsetof(struct st_pair, engine)},
                  {"latency of a load, us", offsetof(struct st_pair, latency_us)}};

    if (!r || r->failed)
        return;
    fprintf(out, "%-11s%d x %s, multicast %s, windows %s\n", "GPUs", r->gpus, r->name[0],
            r->multicast[0] == 1 ? "offered" : r->multicast[0] == 0 ? "not offered" : "unknown",
            windows[r->windows]);
    for (int k = 0; r->gpus > 1 && r->gpus <= 8 && k < 4; k++) {
        fprintf(out, "%-24s", column[k].title);
        for (int j = 0; j < r->gpus; j++)
            fprintf(out, "  to %d ", j);
        fputc('\n', out);
        for (int i = 0; i < r->gpus; i++) {
            fprintf(out, "%22d  ", i);
            for (int j = 0; j < r->gpus; j++) {
                double value;

                memcpy(&value, (const char *)&r->pair[i][j] + column[k].offset, sizeof value);
                if (i == j || value <= 0)
                    fprintf(out, "%6s ", "-");
                else
                    fprintf(out, k == 3 ? "%6.2f " : "%6.0f ", value);
            }
            fputc('\n', out);
        }
    }
}
