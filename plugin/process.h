/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - what the three interfaces share: options, rules, release, machine; one per process.
 *
 * Set up once, in the first init of any interface (pthread_once), and constant afterwards. The
 * library is linked with -z nodelete: strings given to NCCL outlive every communicator.
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

/* NCCL_MIN_CTAS for a box and release that was measured, 0 for any other (defaults.c). */
int st_default_ctas(int nccl, const struct symtuner_machine *machine);

/* Would this GPU get such a count with this release if its box had the measured size? */
bool st_default_gpu(int nccl, const struct symtuner_machine *machine);

/* Options and rules; the first call reads them. Never NULL, never fails. */
const struct st_process *st_process(void);

/* The same, with release and machine: only for an init that NCCL calls after it has set up CUDA.
 * The tuner version, ${abi}, tells the release if nothing else does. */
const struct st_process *st_process_start(nccl_abi_logger logger, int abi);

/* For the env interface, before any other call: the release. */
void st_process_env(int nccl);

/* For the env interface, after st_process_env: as st_process_start, but logs nothing. */
const struct st_process *st_process_asked(void);

/* The number of rules for calls. */
int st_process_call_rules(void);

/* Does our tuner, or our profiler, have anything to do? If not, NCCL loads what it would have
 * loaded without us. Call st_process_asked first. */
bool st_process_wants_tuner(void);
bool st_process_wants_profiler(void);

/* ${ctas}, 1 to 64, as a static string. */
const char *st_ctas_text(int ctas);

#endif
