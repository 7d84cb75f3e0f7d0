/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sizes.h - byte counts as people write them: 4096, 64KiB, 1.5GB.
 *
 * KiB, MiB, GiB and TiB are powers of 1024. kB, MB, GB and TB are powers of 1000. "B" or no unit
 * means bytes. "K" and "KB" are refused, because they could mean 1000 or 1024. Pure. Threads: any.
 */
#ifndef ST_SIZES_H_
#define ST_SIZES_H_

#include <stddef.h>
#include <stdint.h>

/* Read a size from the ${len} bytes at ${text}. Returns NULL on success, or an error text. */
const char *st_size_read(const char *text, size_t len, uint64_t *bytes_out);

/* Write ${bytes} to ${text} with the largest unit (B, KiB, MiB, GiB, TiB) that is exact, such as
 * "64KiB" or "1000B". Returns ${text}. */
char *st_size_write(uint64_t bytes, char *text, size_t size);

#endif
