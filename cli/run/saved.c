/* SPDX-License-Identifier: Apache-2.0 */
/*
 * saved.c - estimates how much time our kernels saved, from the times of cli/run/times.h.
 *
 * Only all-reduces are estimated. The times are of all-reduces that ran alone. NCCL's times are
 * those of its general kernel, which it runs if the buffers are not registered. Calls are counted
 * by range of sizes, not by type. Each counts as a call of the smallest size of its range, and of
 * the type for which our kernels save less.
 */
#include "cli/run/saved.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cli/run/times.h"
#include "symtuner.h"

static const char measured[] = "NVIDIA H200";

static const struct {
    int ranks, size;
    double nccl, ours;
} times[] = {
#define X(ranks, size, nccl, ours) {ranks, size, nccl, ours},
    ST_RUN_TIMES_MAP(X)
#undef X
};

/* Return how many us our kernels save for a call of 2^${size} bytes. For sizes that were not
 * measured, return what they save for the nearest measured size. */
static double saves(int ranks, int size)
{
    double us = 0;
    int nearest = 1000;

    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i].ranks == ranks && abs(times[i].size - size) < nearest) {
            nearest = abs(times[i].size - size);
            us = times[i].nccl - times[i].ours;
        }
    return us;
}

static bool is_measured(int ranks)
{
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        if (times[i].ranks == ranks)
            return true;
    return false;
}

/* Can the GPUs be of the kind that was measured? Reads only files of the kernel driver, because
 * asking the CUDA driver may take seconds on boxes with many GPUs. */
static bool may_be_here(void)
{
    static const char folder[] = "/proc/driver/nvidia/gpus";
    DIR *gpus = opendir(folder);
    char path[400], text[1024];
    bool found = getenv("SYMTUNER_MACHINE") != NULL;

    for (struct dirent *entry; gpus && !found && (entry = readdir(gpus));) {
        FILE *file;

        snprintf(path, sizeof path, "%s/%.255s/information", folder, entry->d_name);
        if (entry->d_name[0] == '.' || !(file = fopen(path, "re")))
            continue;
        text[fread(text, 1, sizeof text - 1, file)] = '\0';
        found = strstr(text, measured) != NULL;
        fclose(file);
    }
    if (gpus)
        closedir(gpus);
    return found;
}

static bool is_here(int ranks)
{
    struct symtuner_machine box;

    return may_be_here() && symtuner_machine_find(&box) && strcmp(box.gpu, measured) == 0 &&
           box.gpus == ranks && box.nvlink == 1 && box.multicast == 0;
}

/* Write ${us} into ${text} with two digits: "4.6 us", "310 us", "12 ms". Returns ${text}. */
static const char *duration(double us, char text[24])
{
    static const char *const unit[] = {"us", "ms", "s"};
    int u = 0;

    for (us = fabs(us); us >= 999.5 && u < 2; u++)
        us /= 1000;
    if (us >= 100)
        us = 10 * floor(us / 10 + 0.5);
    snprintf(text, 24, "%.*f %s", us < 9.95 ? 1 : 0, us, unit[u]);
    return text;
}

void st_run_saved(const struct st_tally *tally, FILE *out)
{
    uint64_t calls[2] = {0}, ours = 0, verified = 0, tma_ipc = 0;
    double us[2] = {0}; /* us saved; [1]: by calls in CUDA graphs, if each graph ran once */
    int used = st_tally_used(tally), ranks = used ? (int)tally->slot[0].ranks : 0;
    char text[24];

    for (int i = 0; i < used; i++) {
        const struct st_tally_slot *slot = &tally->slot[i];

        if (slot->ranks != ranks)
            return;
        verified += slot->verified;
        tma_ipc += slot->tma_ipc;
        for (int c = 0; c < ST_TALLY_COLLS; c++)
            ours += slot->call[c][ST_WHY_OURS].calls;
        for (int captured = 0; captured < 2; captured++)
            for (int size = 0; size < ST_TALLY_SIZES; size++) {
                calls[captured] += slot->timed[captured][size];
                us[captured] += (double)slot->timed[captured][size] * saves(ranks, size);
            }
    }
    if (calls[0] + calls[1] == 0 || verified || !is_measured(ranks) || !is_here(ranks))
        return;
    fprintf(out, "  estimated from all-reduces alone on %d %ss (docs/run.md):\n", ranks,
            measured + strlen("NVIDIA "));
    /* ${us} is the sum over all ranks. A GPU runs the calls of one rank of each communicator, so
     * divide by the number of ranks. */
    if (calls[0])
        fprintf(out, "    %" PRIu64 " call%s took about %s %s on each GPU\n", calls[0],
                calls[0] == 1 ? "" : "s", duration(us[0] / ranks, text),
                us[0] < 0 ? "more" : "less");
    if (calls[1])
        fprintf(out,
                "    %" PRIu64
                " call%s in CUDA graphs take%s about %s %s each, each time they run\n",
                calls[1], calls[1] == 1 ? "" : "s", calls[1] == 1 ? "s" : "",
                duration(us[1] / (double)calls[1], text), us[1] < 0 ? "more" : "less");
    ours -= calls[0] + calls[1] < ours ? calls[0] + calls[1] : ours;
    if (ours)
        fprintf(out, "    %" PRIu64 " call%s by our kernels %s not estimated", ours,
                ours == 1 ? "" : "s", ours == 1 ? "is" : "are");
    if (ours && tma_ipc)
        fprintf(out, "; kernel tma_ipc ran %" PRIu64 " of them", tma_ipc);
    if (ours)
        fputc('\n', out);
}
