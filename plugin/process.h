/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - what the three interfaces share: options, rules, release, machine; one per process.
 *
 * Found once, in the first init of any interface (pthread_once), constant afterwards. The library
 * is linked with -z nodelete: strings given to NCCL outlive every communicator.
 */
#ifndef ST_PROCESS_H_
#define ST_PROCESS_H_

#include "nccl_abi/base.h"
#include "nccl/release.h"
#include "plugin/options.h"
#include "rules/rules.h"

struct st_process {
    struct st_options options;
    symtuner_rules *rules;  /* the user's, NULL when none or wrong          */
    symtuner_rules *unfit;  /* the user's, when made for another machine    */
    bool rules_wrong;       /* pass-through; with SYMTUNER_STRICT, failure  */
    uint64_t rules_hash;    /* of what is in force                          */
    bool env_interface;     /* NCCL asks us for its variables               */
    bool mixed;             /* NCCL_ENQUEUE_REARCH_ENABLE=1                 */
    int nccl;               /* release; 0 until known                       */
    const struct st_era *era;
    struct symtuner_machine machine;
    int default_ctas;       /* built in for this box and release; 0 none    */
    int min_ctas;           /* of these, what NCCL is told; 0 nothing       */
    int sym_ctas;           /* what [process] rules want; 0 nothing         */
    const char *ctas_from;  /* "rules", "built-in", "NCCL", or the variable */
                            /* that keeps us from giving a count            */
};

/* NCCL_MIN_CTAS for a box and release that was measured, 0 for any other (defaults.c). */
int st_default_ctas(int nccl, const struct symtuner_machine *machine);

/* Is it a GPU that has such a count with this release, in a box of the right size? */
bool st_default_gpu(int nccl, const struct symtuner_machine *machine);

/* Options and rules, read on the first call. Never NULL, never fails. */
const struct st_process *st_process(void);

/* The same with release and machine known as well: only from an init that runs after CUDA is up.
 * ${abi}, the tuner version, is the last hint at the release. */
const struct st_process *st_process_start(nccl_abi_logger logger, int abi);

/* Env interface only: the release, told before anything else runs. */
void st_process_env(int nccl);

/* Env interface only, after st_process_env: the same as st_process_start, but nothing is logged. */
const struct st_process *st_process_asked(void);

/* How many rules are about calls. */
int st_process_call_rules(void);

/* Is there anything that a tuner or a profiler of ours would do? Where there is not, NCCL loads
 * what it would have loaded without us. After st_process_asked. */
bool st_process_wants_tuner(void);
bool st_process_wants_profiler(void);

/* A static string for 1..64. */
const char *st_ctas_text(int ctas);

#endif
