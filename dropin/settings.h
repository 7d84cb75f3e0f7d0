/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - the drop-in's variables, its one warning, and this process's slot for counters.
 */
#ifndef ST_SETTINGS_H_
#define ST_SETTINGS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dropin/tally.h"

struct st_settings {
    bool observe;    /* SYMTUNER_MODE=observe: every call goes to NCCL        */
    bool wrong;      /* a variable has a wrong value: every call goes to NCCL */
    unsigned only;   /* bit c: collective c may run on our kernels            */
    uint32_t verify; /* SYMTUNER_VERIFY: how many calls of each collective to verify */
    int max_comms;   /* SYMTUNER_MAX_COMMS; -1: not set                       */
    bool usual;         /* no variable sets rules, a kernel or a CTA count */
    const char *ledger; /* SYMTUNER_LEDGER; NULL: not set                     */
    uint64_t hash;   /* hash of what must be the same on all ranks            */
};

/* True if SYMTUNER_MODE is off. Then every call goes straight to NCCL. The drop-in reads
 * SYMTUNER_MODE for this when it is loaded. */
extern bool st_off;

/* Return the settings. The first call reads the variables, and warns if a value is wrong. */
const struct st_settings *st_settings(void);

/* Return how many handles the communicators of GPU number ${device} may have at a time. After a
 * call of st_settings_keep() this is one less. */
int st_settings_comms(int device);
/* The calls of a GPU's first handle may have all the thread blocks that the library allows. Calls
 * of further handles get fewer. Return the limit for further handles on GPU number ${device}, as a
 * value for config.max_ctas (symtuner_ar.h). If SYMTUNER_AR_MAX_CTAS is set, returns 0, and the
 * library takes the limit from that variable. */
int st_settings_further(int device);
/* From now on reserve one of the handles that each GPU may have (st_settings_comms) for the groups
 * of JAX (entry/jax.h). st_settings_kept tells whether this was called. */
void st_settings_keep(void);
bool st_settings_kept(void);

/* Print "symtuner: warning: ..." on stderr, unless this process has warned before or SYMTUNER_LOG
 * is off. Also keep the text of the first warning for the summary of symtuner run. */
void st_warn_once(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Return this process's slot in the file that SYMTUNER_RUN_FILE names, or NULL if it has none. */
struct st_tally_slot *st_slot(void);
/* Claim a slot for this process, unless it has one. Called whenever a communicator has been made,
 * and with ${nccl} 0 whenever a group of JAX was opened. The first communicator also writes the
 * release ${nccl} and the path ${library} of its NCCL into the slot. */
void st_slot_claim(int rank, int ranks, int nccl, const char *library);

#endif
