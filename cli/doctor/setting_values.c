/* SPDX-License-Identifier: Apache-2.0 */
/*
 * setting_values.c - the names of NCCL's variables that matter here, and how NCCL reads a value
 * that should be a number.
 *
 * NCCL reads numbers with strtoll and base 0, and ignores what follows the digits (read in NCCL's
 * param.cc, 2.27 to 2.30.7). So "0x10" is 16, "4M" is 4, and "true" is 0. It ignores an empty value
 * and a number that has too many digits.
 */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli/doctor/doctor.h"
#include "nccl/names.h"

/* The variables of NCCL that the doctor knows. The values of the first NUMBERS are numbers. */
static const char *const known[] = {
    "NCCL_SYM_CTAS", "NCCL_SYM_NOWIN_ENABLE", "NCCL_SYM_TMA_ENABLE", "NCCL_SYM_CE_THRESHOLD",
    "NCCL_WIN_ENABLE", "NCCL_WIN_STRIDE", "NCCL_CUMEM_ENABLE", "NCCL_CUMEM_HOST_ENABLE",
    "NCCL_LOCAL_REGISTER", "NCCL_GRAPH_REGISTER", "NCCL_NVLS_ENABLE", "NCCL_MIN_CTAS",
    "NCCL_MAX_CTAS", "NCCL_MIN_NCHANNELS", "NCCL_MAX_NCHANNELS", "NCCL_P2P_DISABLE",
    "NCCL_P2P_USE_CUDA_MEMCPY", "NCCL_LSA_TEAM_SIZE", "NCCL_BUFFSIZE",
    "NCCL_SINGLE_PROC_MEM_REG_ENABLE", "NCCL_ENQUEUE_REARCH_ENABLE", "NCCL_NTHREADS",
    "NCCL_MIN_NRINGS", "NCCL_MAX_NRINGS", "NCCL_NVB_DISABLE", "NCCL_PXN_DISABLE",
    "NCCL_SHM_DISABLE", "NCCL_IB_DISABLE",
    /* the variables whose values are no numbers */
    "NCCL_ALGO", "NCCL_PROTO", "NCCL_SYM_KERNEL", "NCCL_CTA_POLICY", "NCCL_P2P_LEVEL",
    "NCCL_TUNER_PLUGIN", "NCCL_PROFILER_PLUGIN", "NCCL_ENV_PLUGIN", "NCCL_NET_PLUGIN",
    "NCCL_TUNER_CONFIG_FILE", "NCCL_CONF_FILE", "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS",
    "NCCL_DEBUG_FILE", "NCCL_NO_CACHE", "NCCL_IB_HCA", "NCCL_NET", "NCCL_SOCKET_IFNAME"};
enum { NUMBERS = 28, KNOWN = sizeof known / sizeof *known };

const char *st_setting_known(int index)
{
    return index < KNOWN ? known[index] : NULL;
}

bool st_setting_number(const struct st_setting *setting, long long *number_out, bool *whole_out)
{
    char *end;

    for (int i = 0; i < NUMBERS; i++) {
        if (strcmp(known[i], setting->name) != 0)
            continue;
        errno = 0;
        *number_out = strtoll(setting->value, &end, 0);
        *whole_out = end != setting->value && errno == 0;
        while (isspace((unsigned char)*end))
            end++;
        *whole_out &= *end == '\0';
        return setting->value[0] != '\0' && errno == 0;
    }
    return false;
}

/* Is ${number} one of the numbers in ${list}, for example "1|2"? */
static bool number_listed(const char *list, long long number)
{
    for (char *end; *list; list = end + (*end == '|')) {
        long long one = strtoll(list, &end, 10);

        if (end != list && one == number)
            return true;
    }
    return false;
}

bool st_setting_holds(const struct st_setting *setting, enum st_when when, const char *operand)
{
    int (*compare)(const char *, const char *, size_t) = strncasecmp;
    long long number;
    bool whole, listed, numeric = st_setting_number(setting, &number, &whole);

    if (when == ST_WHEN_SET)
        return setting->value[0] != '\0';
    if (when == ST_WHEN_BELOW)
        return numeric && number < atoi(operand);
    if (strncmp(setting->name, "SYMTUNER_", 9) == 0)
        compare = strncmp; /* case matters in SYMTUNER_* variables, not in NCCL_* */
    listed = numeric ? number_listed(operand, number)
                     : st_word_listed(operand, setting->value, compare);
    return listed == (when == ST_WHEN_IS);
}
