/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - what tuner, profiler and env interface share: options, rules, NCCL's release and
 * machine. Each process has one struct st_process.
 *
 * The struct is set up once, in the first init of any interface (pthread_once), and constant
 * afterwards. The library is linked with -z nodelete, so that strings given to NCCL outlive every
 * communicator.
 */
#ifndef ST_PROCESS_H_
#define ST_PROCESS_H_

#include "nccl_abi/base.h"
#include "nccl/release.h"
#include "plugin/options.h"
#include "rules/rules.h"

struct st_process {
    struct st_options options;
    symtuner_rules *rules;  /* the user's; NULL if none or wrong            */
    symtuner_rules *unfit;  /* the user's, if for another machine           */
    bool rules_wrong;       /* no rule applies; with SYMTUNER_STRICT: fail  */
    uint64_t rules_hash;    /* of the rules in force                        */
    bool env_interface;     /* NCCL asks us for its variables               */
    bool mixed;             /* NCCL_ENQUEUE_REARCH_ENABLE=1                 */
    int nccl;               /* release; 0 until known                       */
    const struct st_era *era;
    struct symtuner_machine machine;
    int default_ctas;       /* built in for this box and release; 0 none    */
    int min_ctas;           /* answer to NCCL_MIN_CTAS; 0 none              */
    int sym_ctas;           /* what [process] rules want; 0 none            */
    const char *ctas_from;  /* "rules", "built-in", "NCCL", or the variable */
                            /* that keeps us from giving a count            */
};

/* Return the NCCL_MIN_CTAS that is built in for this box and release, 0 if they were not measured
 * (defaults.c). */
int st_default_ctas(int nccl, const struct symtuner_machine *machine);

/* Is a count built in for this release and GPU, in a box of whatever size and links? */
bool st_default_gpu(int nccl, const struct symtuner_machine *machine);

/* Return the process's options and rules, which the first call reads. Never NULL, never fails. */
const struct st_process *st_process(void);

/* Return the same struct with release and machine filled in, and log once what was found. Call this
 * only in an init that NCCL calls after it has set up CUDA. ${abi} is the version of the tuner
 * interface; if nothing else tells the release, we assume the oldest one with that version. */
const struct st_process *st_process_start(nccl_abi_logger logger, int abi);

/* Store the release, and the fact that NCCL asks us for variables. The env interface calls this
 * first. */
void st_process_env(int nccl);

/* Do what st_process_start does, but log nothing. For the env interface, after st_process_env. */
const struct st_process *st_process_asked(void);

/* Return the number of rules that are for calls, not for [process] or [kernels]. */
int st_process_call_rules(void);

/* Does our tuner, or our profiler, have anything to do? If not, NCCL loads the plugin that it would
 * have loaded without us. Call st_process_asked first. */
bool st_process_wants_tuner(void);
bool st_process_wants_profiler(void);

/* Return ${ctas}, 1 to 64, as a static string. */
const char *st_ctas_text(int ctas);

#endif
