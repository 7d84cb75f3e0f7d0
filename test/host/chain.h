/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain.h - what the tests of chaining share: a tuner or profiler from test/host/fakes that
 * symtuner calls (it is "behind" symtuner), and calls and events as NCCL makes them.
 */
#ifndef TEST_HOST_CHAIN_H_
#define TEST_HOST_CHAIN_H_

#include "test/host/fakes/record.h"
#include "test/host/nccl.h"

extern const float chain_table[T_CELLS];

/* Open a fake tuner and return its record. chain_fake_version also sets SYMTUNER_NEXT_TUNER to the
 * fake that speaks interface version ${version}. */
struct tuner_record *chain_fake(const char *name);
struct tuner_record *chain_fake_version(int version);

/* Begin a test: set SYMTUNER_MACHINE, SYMTUNER_RULE (unless ${rule} is NULL), and NCCL's cost
 * constants 1, 2, 3 ..., which the tuner may change. */
void chain_begin(const char *rule);
void chain_said(const char *text); /* fails unless ${text} is in NCCL's log */

/* chain_question makes NCCL's question about ${func}, and chain_ask asks it. Unlike nccl_ask,
 * chain_ask checks nothing. */
struct question chain_question(int func);
int chain_ask(const struct comm *comm, struct question *question);

extern struct profiler_record *chain_next; /* the record of the profiler behind symtuner */
extern int chain_mask;                     /* the mask of events that NCCL reads */

void *chain_library(const char *fake);
void chain_behind(int version, int mask, int ledger);

/* Call only the profiler's init for a communicator. NCCL calls the tuner's init later. */
void *chain_open(void);
const struct nccl_abi_profiler_v5 *chain_profiler(void);

/* Return an event of any kind in the layout of the loaded release. The bytes behind its fields are
 * noise. */
struct nccl_abi_event_v7 chain_make(int type, void *parent, void *group);
void *chain_start(void *ctx, struct nccl_abi_event_v7 *event);

extern const int chain_kinds[]; /* [v]: number of event types in version v of NCCL's profiler
                                   interface */

#endif
