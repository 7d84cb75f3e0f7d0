/* SPDX-License-Identifier: Apache-2.0 */
/*
 * run_program.c - plays a program under `symtuner run`: it counts NCCL calls as the drop-in does,
 * and ends as its arguments say. A slot is the part of the job's file in which a process counts.
 * The arguments are steps:
 *
 *   count N    claim a slot; count N all-reduces of 1 MiB by our kernels and one by NCCL, one
 *              all-gather by our kernels, and one broadcast by NCCL
 *   more N     count N more all-reduces, which NCCL runs because they are in a group
 *   nccl N     claim a slot, with NCCL release N
 *   timed N    claim a slot as rank 0 of 2; count N all-reduces of 64 KiB by our kernels, whose
 *              times are known, and 3 of 8 KiB in a graph
 *   tma_ipc N  count N all-reduces of 8 MiB by kernel tma_ipc
 *   sent N     claim a slot; count a send of N bytes by our kernels
 *   whys N     claim a slot; count N reduces that NCCL runs for one reason, N + 1 for the next, and
 *              so on to N + 5
 *   jax N      claim a slot without NCCL, open a group of the JAX route, and count N of its calls,
 *              of 1 KiB each, by our kernels
 *   left N     count N calls of the JAX route that NCCL runs, and one recorded call
 *   ranks N    say that the communicator has N ranks
 *   verified N count a verified call
 *   comm       count a communicator that stays with NCCL, and keep a note
 *   fork       start a child that only ends, as a data loader might
 *   wait FILE  wait until there is such a file, 20 s at most
 *   made FILE  make the file
 *   exit N, _exit N, kill N    end
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "dropin/tally.h"

static struct st_tally_slot *slot;

static void claim(void)
{
    const char *path = getenv(ST_TALLY_VARIABLE);
    char error[600];
    struct st_tally *tally = path ? st_tally_open(path, error, sizeof error) : NULL;

    if (tally && !slot && (slot = st_tally_claim(tally, "run_program"))) {
        slot->nccl = 22809;
        slot->comms[ST_WHY_OURS]++;
    }
}

static void count(int n)
{
    claim();
    for (int i = 0; i < n; i++)
        st_tally_count(slot, ST_TALLY_ALL_REDUCE, ST_WHY_OURS, 1 << 20);
    st_tally_count(slot, ST_TALLY_ALL_REDUCE, ST_WHY_GROUP, 1 << 20);
    st_tally_count(slot, ST_TALLY_ALL_GATHER, ST_WHY_OURS, 1500);
    st_tally_count(slot, ST_TALLY_BROADCAST, ST_WHY_COLLECTIVE, 7);
}

static void whys(uint32_t n)
{
    static const int why[] = {ST_WHY_ONLY,       ST_WHY_OPERATOR, ST_WHY_SLOWER,
                              ST_WHY_COLLECTIVE, ST_WHY_GROUP,    ST_WHY_ARGUMENTS};

    claim();
    for (uint32_t w = 0; w < sizeof why / sizeof *why; w++)
        for (uint32_t i = 0; i < n + w; i++)
            st_tally_count(slot, ST_TALLY_REDUCE, why[w], 1);
}

static void timed(int n)
{
    claim();
    slot->ranks = 2;
    for (int i = 0; i < n + 3; i++) {
        uint64_t bytes = i < n ? 1 << 16 : 1 << 13;

        st_tally_count(slot, ST_TALLY_ALL_REDUCE, ST_WHY_OURS, bytes);
        st_tally_time(slot, i >= n, bytes);
    }
}

static void wait_for(const char *file)
{
    for (int i = 0; i < 2000 && access(file, F_OK) != 0; i++)
        usleep(10000);
}

int main(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *step = argv[i], *value = i + 1 < argc ? argv[i + 1] : "";
        bool takes = strcmp(step, "comm") != 0 && strcmp(step, "fork") != 0;

        if (strcmp(step, "count") == 0)
            count(atoi(value));
        if (strcmp(step, "timed") == 0)
            timed(atoi(value));
        if (strcmp(step, "verified") == 0)
            slot->verified++;
        if (strcmp(step, "ranks") == 0)
            slot->ranks = atoi(value);
        if (strcmp(step, "nccl") == 0) {
            claim();
            slot->nccl = atoi(value);
        }
        if (strcmp(step, "sent") == 0) {
            claim();
            st_tally_count(slot, ST_TALLY_SEND, ST_WHY_OURS, strtoull(value, NULL, 10));
        }
        if (strcmp(step, "jax") == 0) {
            claim();
            slot->nccl = 0;
            st_tally_add(slot, &slot->jax_groups);
            for (int n = atoi(value); n > 0; n--)
                st_tally_put(&slot->jax, 1 << 10);
        }
        for (int n = strcmp(step, "left") == 0 ? atoi(value) : 0; n > 0; n--)
            st_tally_put(&slot->jax_nccl, 1 << 10);
        if (strcmp(step, "left") == 0)
            st_tally_add(slot, &slot->jax_captured);
        for (int n = strcmp(step, "tma_ipc") == 0 ? atoi(value) : 0; n > 0; n--) {
            st_tally_count(slot, ST_TALLY_ALL_REDUCE, ST_WHY_OURS, 1 << 23);
            st_tally_add(slot, &slot->tma_ipc);
        }
        if (strcmp(step, "whys") == 0)
            whys((uint32_t)atoi(value));
        for (int n = strcmp(step, "more") == 0 ? atoi(value) : 0; n > 0; n--)
            st_tally_count(slot, ST_TALLY_ALL_REDUCE, ST_WHY_GROUP, 1 << 20);
        if (strcmp(step, "comm") == 0) {
            claim();
            st_tally_add(slot, &slot->comms[ST_WHY_MISSING]);
            st_tally_note(slot, "rank 1 has no drop-in");
        }
        if (strcmp(step, "fork") == 0) {
            if (fork() == 0)
                exit(0);
            wait(NULL);
        }
        if (strcmp(step, "wait") == 0)
            wait_for(value);
        if (strcmp(step, "made") == 0)
            fclose(fopen(value, "w"));
        if (strcmp(step, "exit") == 0)
            exit(atoi(value));
        if (strcmp(step, "_exit") == 0)
            _exit(atoi(value));
        if (strcmp(step, "kill") == 0)
            raise(atoi(value));
        i += takes;
    }
    return 0;
}
