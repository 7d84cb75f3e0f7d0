/* SPDX-License-Identifier: Apache-2.0 */
/*
 * record.h - recorded NCCL decisions, read from a CSV with the columns of test/data/README.md.
 *
 * Units: microseconds, and bytes as in that file (for AllGather and ReduceScatter, bytes per rank).
 * Errors: functions print a line on stderr that names the file and what is wrong, and return -1.
 */
#ifndef DEMO_RECORD_H_
#define DEMO_RECORD_H_

#include <stdbool.h>
#include <stdint.h>

enum { CELLS = 7 * 3 };

struct record {
    char release[12]; /* "2.28.9" */
    char coll[16], dtype[8], op[8];
    char env[40];     /* the NCCL variable that was set; "": none */
    char kernel[40];  /* name of the symmetric kernel that ran */
    uint64_t bytes;
    int ranks;
    bool windows;     /* both buffers lie in symmetric windows */
    bool symmetric;   /* a symmetric kernel ran; otherwise a general one ran */
    int algo, proto, channels;
    /* what NCCL passes to a tuner */
    int asked, reg_buff, pipe_ops;
    uint64_t tuner_bytes;
    float table[CELLS];
};

/* Read at most ${max} records. Returns their number, or -1. */
int record_read(const char *path, struct record *record_out, int max);

/* Return the record of the same call with the NCCL variable ${env} ("NAME=VALUE"), or NULL. */
const struct record *record_with(const struct record *all, int count, const struct record *call,
                                 const char *env);

extern const char *const algo_name[7], *const proto_name[3];

#endif
