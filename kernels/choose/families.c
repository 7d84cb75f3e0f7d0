/* SPDX-License-Identifier: Apache-2.0 */
/* families.c - defines the table of kernel families. */
#include "kernels/choose/families.h"

#include <string.h>

#include "kernels/shared/args.h"

const struct ar_family_row ar_families[AR_FAMILIES] = {
#define X(family, word, ...) [family] = {.name = #word, __VA_ARGS__},
    AR_FAMILY_MAP(X)
#undef X
};

const char *ar_family_name(int family)
{
    return family < 0 || family >= AR_FAMILIES ? NULL : ar_families[family].name;
}

int ar_family_by_name(const char *name)
{
    for (int f = 0; f < AR_FAMILIES; f++)
        if (strcmp(ar_families[f].name, name) == 0)
            return f;
    return -1;
}
