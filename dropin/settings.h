/* SPDX-License-Identifier: Apache-2.0 */
/*
 * settings.h - the drop-in's variables, its one warning, and the counters of this process.
 */
#ifndef ST_SETTINGS_H_
#define ST_SETTINGS_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "dropin/tally.h"

struct st_settings {
    bool observe;
    bool wrong;       /* a variable has a wrong value: every call goes to NCCL */
    unsigned only;    /* bit c: collective c may run on our kernels            */
    uint32_t verify;  /* SYMTUNER_VERIFY                                       */
    int max_comms;    /* SYMTUNER_MAX_COMMS                                    */
    uint64_t hash;    /* of what all ranks must have alike                     */
};

/* Is SYMTUNER_MODE=off? The library reads this variable when it is loaded, and does nothing else
 * then. */
extern bool st_off;

/* Return the settings; the first call reads them and warns of a wrong one. */
const struct st_settings *st_settings(void);

/* Print "symtuner: warning: ..." on stderr if this process has not warned before; keep the text for
 * the summary of symtuner run. */
void st_warn_once(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Return this process's slot in the file of SYMTUNER_RUN_FILE, or NULL. st_slot_claim claims it
 * when the first communicator is made. */
struct st_tally_slot *st_slot(void);
void st_slot_claim(int rank, int ranks, int nccl, const char *library);

#endif
