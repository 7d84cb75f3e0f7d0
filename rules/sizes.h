/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sizes.h - byte counts as people write them: 4096, 64KiB, 1.5GB.
 *
 * KiB, MiB, GiB, TiB are powers of 1024; kB, MB, GB, TB powers of 1000; B or nothing is bytes. "K"
 * and "KB" are refused because they could mean either. Pure; threads: any.
 */
#ifndef ST_SIZES_H_
#define ST_SIZES_H_

#include <stddef.h>
#include <stdint.h>

/* Read a size from the ${len} bytes at ${text}. Returns NULL on success, else an error text. */
const char *st_size_read(const char *text, size_t len, uint64_t *bytes_out);

/* Write ${bytes} in the shortest exact form ("64KiB", "1000B") into ${text}; returns ${text}. */
char *st_size_write(uint64_t bytes, char *text, size_t size);

#endif
