/* SPDX-License-Identifier: Apache-2.0 */
/*
 * process.h - what our tuner, profiler and env plugin share: options, rules, NCCL's release and the
 * machine. Each process has one struct st_process.
 *
 * Each part of the struct is filled in once and is constant afterwards: first the options and
 * rules, then NCCL's release, then the machine. The library is linked with -z nodelete, so that
 * strings given to NCCL outlive every communicator.
 */
#ifndef ST_PROCESS_H_
#define ST_PROCESS_H_

#include "nccl_abi/base.h"
#include "nccl/release.h"
#include "plugin/options.h"
#include "rules/rules.h"

struct st_process {
    struct st_options options;
    symtuner_rules *rules;  /* the user's rules; NULL if there are none, or they are wrong */
    bool rules_wrong;       /* the user's rules have an error, so no rule applies */
    bool mixed;             /* NCCL_ENQUEUE_REARCH_ENABLE=1 is set */
    int nccl;               /* release of the process's first NCCL; 0 until we know it */
    struct symtuner_machine machine;
};

/* What holds for the NCCL of one release. A process can have several copies of NCCL, for example
 * torch's and jax's, and ranks may start the copies in different orders. So what one copy gets
 * never depends on which other copies there are. */
struct st_for_nccl {
    int nccl;
    const struct st_era *era;
    bool asks;              /* this NCCL asks us for its variables */
    symtuner_rules *rules;  /* the rules that apply; NULL: none does                       */
    /* there are rules, but none applies: they have an error, or are for another box or release */
    bool rules_wrong;
    uint64_t rules_hash;    /* hash of ${rules} */
    int default_ctas;       /* CTA count built in for this box and release; 0: none */
    int min_ctas;           /* CTA count that this NCCL gets as NCCL_MIN_CTAS; 0: none */
    int sym_ctas;           /* CTA count that the [process] rules want; 0: none, or a setting of the
                               user keeps us from giving it */
    const char *ctas_from;  /* where the CTA count is from: "rules", "built-in" or "NCCL"; or the
                               name of the variable that keeps us from giving a count             */
};

/* Return the NCCL_MIN_CTAS that is built in for this box and release. Returns 0 if the box was not
 * measured with this release (defaults.c). */
int st_default_ctas(int nccl, const struct symtuner_machine *machine);

/* Is a count built in for this release and this GPU, in any box? The number of GPUs and the links
 * do not matter. */
bool st_default_gpu(int nccl, const struct symtuner_machine *machine);

/* Return the process's options and rules. The first call reads them. Never returns NULL. */
const struct st_process *st_process(void);

/* Return the same struct as st_process, with release and machine filled in. Call this only in an
 * init that NCCL calls after it has set up CUDA. The first call in a process logs which settings
 * are wrong. The first call for each release logs whether the rules are for this release, which CTA
 * count it gets, and its faults. ${abi} is the version of the tuner interface. If nothing else
 * tells NCCL's release, we assume the oldest release that has this version. */
const struct st_process *st_process_start(nccl_abi_logger logger, int abi);

/* Return the rules and the CTA counts for an NCCL of release ${nccl}. Before the first call of
 * st_process_start or st_process_asked there are none. */
struct st_for_nccl st_process_for(int nccl);

/* Return the release of the NCCL that has the logger ${logger}. If a process has several copies of
 * NCCL, this may differ from the member nccl, which has the release of the first of them. */
int st_process_caller(nccl_abi_logger logger);

/* Store that an NCCL of release ${nccl} asks us for variables. The init of the env plugin calls
 * this. */
void st_process_env(int nccl);

/* Return the same struct as st_process_start, but log nothing. The env plugin calls this after
 * st_process_env. */
const struct st_process *st_process_asked(void);

/* Return the number of rules that apply to calls: all but those of [process] and [kernels]. */
int st_process_call_rules(const struct st_for_nccl *here);

/* Does our tuner have anything to do for an NCCL of release ${nccl}? If not, NCCL loads the tuner
 * that it would have loaded without us. st_process_wants_profiler answers the same question for our
 * profiler. Call st_process_asked first. */
bool st_process_wants_tuner(int nccl);
bool st_process_wants_profiler(void);

/* Return ${ctas}, 1 to 64, as a static string. */
const char *st_ctas_text(int ctas);

#endif
