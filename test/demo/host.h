/* SPDX-License-Identifier: Apache-2.0 */
/*
 * host.h - plays NCCL's side of the plugin interfaces. It loads libsymtuner.so as a given release
 * would, opens a communicator, and asks about calls, in the order in which that release does this.
 *
 *   2.28.7 and later   env init, profiler init, tuner init, [cost model], collectives
 *   2.27               profiler init, [cost model], tuner init, collectives
 *
 * All ranks are in one process, as in JAX. Use one host per process, because the plugin keeps
 * state.
 */
#ifndef DEMO_HOST_H_
#define DEMO_HOST_H_

#include "test/demo/record.h"

struct host;

/* The result of one call: ${kernel} is set for a symmetric kernel, ${algo} and ${proto} for a
 * general one. */
struct outcome {
    bool symmetric;
    const char *kernel;       /* name of a symmetric kernel */
    int algo, proto;          /* numbers of a general kernel */
    int channels;             /* channels or CTAs; 0: not recorded for this choice    */
};

/* Load ${library} as ${release} ("2.28.9") does: because of NCCL_ENV_PLUGIN if ${by_env} is set,
 * otherwise because of NCCL_TUNER_PLUGIN. ${heard} gets each line that the plugin logs. On failure,
 * prints a line on stderr and returns NULL. */
struct host *host_open(const char *library, const char *release, bool by_env, int ranks,
                       void (*heard)(const char *line));

/* Return the interfaces that are in use, such as "env v1, profiler v5, tuner v5". */
const char *host_interfaces(const struct host *host);

/* Return the value of NCCL_SYM_CTAS that NCCL reads when it first picks a symmetric kernel. Returns
 * "" if the variable is unset. */
const char *host_sym_ctas(struct host *host);

/* Play one recorded call on all ranks. Returns 0, or -1 if two ranks decided differently. */
int host_call(struct host *host, const struct record *all, int count, const struct record *call,
              struct outcome *outcome_out);

void host_close(struct host *host);

#endif
