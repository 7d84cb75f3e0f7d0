/* SPDX-License-Identifier: Apache-2.0 */
/* param.h - the numbers in NCCL's environment variables. Pure. Threads: any. */
#ifndef ST_PARAM_H_
#define ST_PARAM_H_

#include <errno.h>
#include <stdlib.h>

/* Return the number in ${text}, the value of a variable, as NCCL reads it (ncclLoadParam in
 * param.cc of 2.28.3 to 2.30.7): text that is no number counts as 0. Returns ${otherwise} if
 * ${text} is NULL or empty, or if the number does not fit into 64 bits. */
static inline long long st_param(const char *text, long long otherwise)
{
    long long value;

    if (!text || !*text)
        return otherwise;
    errno = 0;
    value = strtoll(text, NULL, 0);
    return errno ? otherwise : value;
}

#endif
