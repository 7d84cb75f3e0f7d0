/* SPDX-License-Identifier: Apache-2.0 */
/* families.c - prints what the table of kernel families says of shared memory and CTAs, for
 * resources.sh. */
#include "kernels/choose/families.h"

#include <stdio.h>

int main(void)
{
    for (int i = 0; i < AR_FAMILIES; i++) {
        const struct ar_family_row *f = &ar_families[i];
        char ctas[16] = "by row"; /* the row of the selection table has the number */

        if (i == AR_NCCL)
            continue;
        if (f->ctas != 0)
            snprintf(ctas, sizeof ctas, "%d", f->ctas);
        printf("family %-12s dynamic shared %6d  CTAs %-6s at most %3d\n", f->name, f->shared, ctas,
               f->max_ctas != 0 ? f->max_ctas : AR_MAX_CTAS);
    }
    return 0;
}
