/* SPDX-License-Identifier: Apache-2.0 */
/* create.c - the steps that symtuner_ar_create and symtuner_ar_create_local share. */
#include "kernels/host/create.h"

#include <stdio.h>
#include <string.h>

#include "kernels/group/error.h"
#include "kernels/group/nccl.h"
#include "kernels/ipc/ipc.h"

_Static_assert((int)SYMTUNER_AR_UNKNOWN == AR_BESIDE_UNKNOWN &&
                   (int)SYMTUNER_AR_ALONE == AR_BESIDE_NOTHING &&
                   (int)SYMTUNER_AR_BESIDE_COMPUTE == AR_BESIDE_COMPUTE,
               "enum ar_beside has the values of enum symtuner_ar_beside");

int symtuner_ar_version(void)
{
    return SYMTUNER_AR_VERSION;
}

ncclResult_t symtuner_ar_use_nccl(void *library)
{
    if (library == NULL)
        return ar_fail(NULL, ncclInvalidArgument, "library is NULL");
    return ar_nccl_choose(library)
               ? ncclSuccess
               : ar_fail(NULL, ncclInvalidUsage, "this process already uses another NCCL");
}

ncclResult_t ar_config_check(const struct symtuner_ar_config *given,
                             struct symtuner_ar_config *config, struct ar_options *options)
{
    char why[200];

    memset(config, 0, sizeof *config);
    memset(options, 0, sizeof *options);
    if (given != NULL) {
        if (given->size < sizeof given->size || given->size > sizeof *given)
            return ar_fail(NULL, ncclInvalidArgument,
                           "config.size is %zu; set it to sizeof(struct symtuner_ar_config) = %zu",
                           given->size, sizeof *given);
        memcpy(config, given, given->size);
    }
    if (config->transport < SYMTUNER_AR_AUTO || config->transport > SYMTUNER_AR_HOST)
        return ar_fail(NULL, ncclInvalidArgument, "config.transport %d is unknown; write 0, 1 or 2",
                       config->transport);
    if (config->max_ctas < 0 || config->max_ctas > AR_MAX_CTAS)
        return ar_fail(NULL, ncclInvalidArgument, "config.max_ctas %d; write 1 to %d, or 0",
                       config->max_ctas, AR_MAX_CTAS);
    if (config->beside < SYMTUNER_AR_UNKNOWN || config->beside > SYMTUNER_AR_BESIDE_COMPUTE)
        return ar_fail(NULL, ncclInvalidArgument, "config.beside %d is unknown; write 0, 1 or 2",
                       config->beside);
    if (config->first_epoch >> 38 != 0)
        return ar_fail(NULL, ncclInvalidArgument, "config.first_epoch must be below 2^38");
    if (ar_options_read(options, why, sizeof why) != 0)
        return ar_fail(NULL, ncclInvalidArgument, "%s", why);
    if (config->transport == SYMTUNER_AR_AUTO)
        config->transport = options->transport;
    options->alone = config->beside == SYMTUNER_AR_ALONE;
    if (options->beside >= 0)
        config->beside = options->beside;
    return ncclSuccess;
}

uint64_t ar_rules_hash(const symtuner_ar *h)
{
    return h->rules != NULL ? symtuner_rules_hash(h->rules) : 0;
}

void ar_rules_drop(symtuner_ar **handles, int n, int other)
{
    char text[AR_RULES_NOTE];

    snprintf(text, sizeof text,
             "not used: ranks 0 and %d have different [kernels] rules; give all ranks one file",
             other);
    for (int i = 0; i < n; i++) {
        symtuner_rules_free(handles[i]->rules);
        handles[i]->rules = NULL;
        memcpy(handles[i]->rules_note, text, sizeof text);
        if (handles[i]->me == 0)
            ar_rules_warn(text);
    }
}

static ncclResult_t open_ipc(symtuner_ar *h, const char *name, bool create, char *why)
{
    return ar_ipc_open(h, name, create) == 0
               ? ncclSuccess
               : ar_why(why, AR_WHY, ncclSystemError, "shared memory or GPU memory");
}

ncclResult_t ar_ipc_share(struct ar_members *m)
{
    ncclResult_t result;

    if (m->handles[0]->ipc_mode == AR_IPC_OFF)
        return ncclSuccess;
    result = ar_members_open(m, "-ipc", open_ipc);
    if (m->lost)
        return result;
    for (int i = 0; i < m->n && result != ncclSuccess; i++)
        ar_ipc_end(m->handles[i]);
    return ncclSuccess;
}
