/* SPDX-License-Identifier: Apache-2.0 */
/* nccl.h - what the files of the fake NCCL share. */
#ifndef TEST_DROPIN_NCCL_H_
#define TEST_DROPIN_NCCL_H_

#include "dropin/entry/known.h"
#include "test/dropin/fake/record.h"

#define EXPORT __attribute__((visibility("default")))

#define X(name) EXPORT int nccl##name(void);
ST_PLAIN_MAP(X)
#undef X
#define X(name, params, args) EXPORT int nccl##name params;
ST_KNOWN_MAP(X)
#undef X
#define X(name, coll, collective, factor, params, args) EXPORT int nccl##name params;
ST_FORWARDED_MAP(X)
#undef X

/* Record a call of a collective, and return its result. An error inside a group makes ncclGroupEnd
 * fail, as in NCCL. */
__attribute__((visibility("hidden"))) int fake_run(const char *name, size_t count);

#endif
