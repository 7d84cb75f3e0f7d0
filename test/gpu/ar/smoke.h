/* SPDX-License-Identifier: Apache-2.0 */
/* smoke.h - what the parts of ar_smoke share. */
#ifndef AR_SMOKE_H_
#define AR_SMOKE_H_

#include "bench/must.h"

/* Make calls of more than 2^32 elements. Returns 0 if every byte is right. */
int smoke_huge(int ranks, int gpus, int transport);

#endif
