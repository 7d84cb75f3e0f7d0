/* SPDX-License-Identifier: Apache-2.0 */
/*
 * open.h - find and load the tuner or profiler that NCCL would have loaded without us.
 *
 * NCCL loads one tuner and one profiler. If NCCL loads ours, we load the one that NCCL would have
 * loaded without us, and pass calls on to it. This is called chaining: the other plugin is behind
 * ours. We look for a tuner in this order (docs/reference/chaining.md has the same list):
 *
 *   1  SYMTUNER_NEXT_TUNER, if set; "none" chains nothing
 *   2  NCCL_TUNER_PLUGIN of the environment, if it names another library; "none" chains nothing
 *   3  libnccl-tuner.so, if the variable of step 2 is unset or names symtuner
 *   4  the NET library (network plugin) that NCCL has loaded (NCCL_NET_PLUGIN or libnccl-net.so)
 *
 * The order for a profiler is the same, with PROFILER and profiler in the names, but with NCCL 2.27
 * without step 4. As in NCCL, a library that loads but has no plugin table ends the search. A
 * library that cannot be loaded ends the search only if step 1 named it. symtuner itself, by any
 * name, is not chained; if step 1 names it, the search ends.
 *
 * Ownership  the library stays loaded until the process ends.
 * Threads    any thread may search; a second search does not wait for the first.
 * Hazard     st_next_find loads libraries, so never call it while NCCL holds a lock.
 */
#ifndef ST_NEXT_OPEN_H_
#define ST_NEXT_OPEN_H_

#include <stdbool.h>

enum st_next_kind { ST_NEXT_TUNER, ST_NEXT_PROFILER, ST_NEXT_KINDS };

struct st_next_library {
    const void *table; /* the plugin's table; NULL: there is no plugin        */
    int version;       /* version of NCCL's interface that the table has      */
    char path[256];    /* path of the library, for messages                   */
    char note[512];    /* why a library that was found is not used, or ""     */
    bool wrong;        /* the value of SYMTUNER_NEXT_* is wrong: warn         */
};

/*
 * Find the library to chain. ${chosen} is the value of SYMTUNER_NEXT_TUNER or
 * SYMTUNER_NEXT_PROFILER. ${spoken} is the version of the plugin interface that NCCL uses to call
 * us, at most 7. ${net}: also look into NCCL's NET library (step 4), which NCCL loads only when a
 * communicator is made. Later calls with the same ${spoken} return the same result, with one
 * exception: if a search without ${net} found nothing, the first call with ${net} continues with
 * step 4. Never returns NULL.
 */
const struct st_next_library *st_next_find(enum st_next_kind kind, const char *chosen, int spoken,
                                           bool net);

/* Log which library is chained, or why a library that was found is not chained; once for each
 * result of st_next_find. */
void st_next_say(enum st_next_kind kind, const struct st_next_library *library);

/* Return the plugin's name, which is the first member of its table. */
const char *st_next_name(const struct st_next_library *library);

/*
 * NCCL tries several file names for a plugin called ${name}. Write number ${index} of them (from 0)
 * to ${file}, which has 256 bytes. Returns false if there is no such number. ${prefix} is
 * "libnccl-tuner", "libnccl-profiler" or "libnccl-net". An empty ${file} stands for the program
 * itself (STATIC_PLUGIN). If ${name} is NULL or empty, the file is the prefix and ".so".
 */
bool st_next_file(const char *prefix, const char *name, int index, char *file);

#endif
