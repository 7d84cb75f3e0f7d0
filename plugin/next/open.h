/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open.h - find and load the tuner or profiler that NCCL would have loaded without us.
 *
 * NCCL takes one tuner and one profiler. Where we are that one, another may have been meant to be
 * there: it is put behind ours. Who comes first (docs/chaining.md has the same list):
 *
 *   1  SYMTUNER_NEXT_TUNER, when set: said to us and to nobody else; "none" chains nothing
 *   2  NCCL_TUNER_PLUGIN, as it is in the environment, when it names somebody else; "none" is none
 *   3  libnccl-tuner.so
 *   4  the NET library that NCCL has loaded (NCCL_NET_PLUGIN or libnccl-net.so)
 *
 * and likewise for the profiler. As in NCCL a library that loads and has no table ends the search;
 * one that cannot be loaded does not, unless 1 named it. We ourselves, by any name, are skipped.
 *
 * Ownership  the library stays loaded until the process ends. Threads: any; one search runs at a
 *            time. Hazard: loads libraries, so never call it with a lock of NCCL's held.
 */
#ifndef ST_NEXT_OPEN_H_
#define ST_NEXT_OPEN_H_

#include <stdbool.h>

enum st_next_kind { ST_NEXT_TUNER, ST_NEXT_PROFILER, ST_NEXT_KINDS };

struct st_next_library {
    const void *table; /* NULL: nothing to chain                              */
    int version;       /* of the interface that the table is of               */
    char path[256];    /* of the library, for messages                        */
    char note[512];    /* why something that was there is not used, or empty  */
    bool wrong;        /* the note is the user's business (SYMTUNER_NEXT_*)   */
};

/*
 * What is to be chained. ${chosen} is the value of SYMTUNER_NEXT_*, ${spoken} the version in which
 * NCCL speaks to us, ${net} whether to look into NCCL's NET library, which is only there once
 * a communicator is being made. The result is the same for the rest of the process, but that a
 * search without ${net} that found nothing is completed by one with it. Never NULL.
 */
const struct st_next_library *st_next_find(enum st_next_kind kind, const char *chosen, int spoken,
                                           bool net);

/* Say once per process what is chained, or why something that was there is not. */
void st_next_say(enum st_next_kind kind, const struct st_next_library *library);

/* The name in the plugin's table. */
const char *st_next_name(const struct st_next_library *library);

/*
 * How NCCL looks for a plugin called ${name}: the ${index}-th thing to load, written to ${file} of
 * 256 bytes. ${prefix} is "libnccl-tuner" and the like. False past the last; an empty ${file} is
 * the program itself (STATIC_PLUGIN). An empty or no name is the prefix with ".so".
 */
bool st_next_file(const char *prefix, const char *name, int index, char *file);

#endif
