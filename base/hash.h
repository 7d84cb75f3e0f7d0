/* SPDX-License-Identifier: Apache-2.0 */
/* hash.h - 64-bit FNV-1a, the hash of rules, settings, files and other data. Pure. */
#ifndef ST_HASH_H_
#define ST_HASH_H_

#include <stddef.h>
#include <stdint.h>

#define ST_HASH_START UINT64_C(0xcbf29ce484222325)

/* Add ${size} bytes to ${hash} and return the new hash. The first call gets ST_HASH_START. */
static inline uint64_t st_hash(uint64_t hash, const void *data, size_t size)
{
    for (const unsigned char *at = data; size > 0; at++, size--)
        hash = (hash ^ *at) * UINT64_C(0x100000001b3);
    return hash;
}

#endif
