/* SPDX-License-Identifier: Apache-2.0 */
/* members.c - a list of those ranks of a new group whose handles one thread creates. */
#include "kernels/scratch/members.h"

#include <stdarg.h>
#include <stdio.h>
#include <sys/mman.h>

#include "kernels/group/bootstrap.h"

ncclResult_t ar_members_fail(struct ar_members *m, ncclResult_t result, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(m->why, sizeof m->why, format, args);
    va_end(args);
    return result;
}

ncclResult_t ar_members_agree(struct ar_members *m, ncclResult_t result)
{
    bool met;

    if (m->nccl == NULL)
        return result;
    result = ar_bootstrap_agree(m->nccl, m->endpoints, m->n, result, 0, m->why, &met);
    m->lost = m->lost || !met;
    return result;
}

void ar_members_gate(struct ar_members *m, const char *why)
{
    for (int i = 0; i < m->n; i++) {
        snprintf(m->handles[i]->gate_text, sizeof m->handles[i]->gate_text, "%s", why);
        m->handles[i]->gate = m->handles[i]->gate_text;
    }
}

ncclResult_t ar_members_open(struct ar_members *m, const char *word,
                             ncclResult_t (*open)(symtuner_ar *h, const char *name, bool create,
                                                  char *why))
{
    char name[64];
    ncclResult_t result = ncclSuccess;

    snprintf(name, sizeof name, "/symtuner-ar-%016llx%s", (unsigned long long)m->handles[0]->group,
             word);
    for (int create = 1; create >= 0 && result == ncclSuccess; create--) {
        for (int i = 0; i < m->n && result == ncclSuccess; i++)
            if ((m->handles[i]->me == 0) == create)
                result = open(m->handles[i], name, create, m->why);
        result = ar_members_agree(m, result);
    }
    for (int i = 0; i < m->n; i++)
        if (m->handles[i]->me == 0)
            shm_unlink(name); /* all ranks have opened it by now, or none will */
    return result;
}
