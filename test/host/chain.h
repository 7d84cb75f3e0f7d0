/* SPDX-License-Identifier: Apache-2.0 */
/*
 * chain.h - what the chaining tests share: tuners and profilers of test/host/fakes behind ours, and
 * calls and events as NCCL makes them.
 */
#ifndef TEST_HOST_CHAIN_H_
#define TEST_HOST_CHAIN_H_

#include "test/host/fakes/record.h"
#include "test/host/nccl.h"

extern const float chain_table[T_CELLS];

/* The record of a fake, and of the one of ${version}, which SYMTUNER_NEXT_TUNER then names. */
struct tuner_record *chain_fake(const char *name);
struct tuner_record *chain_fake_version(int version);

/* A box, a rule or NULL, and cost constants 1, 2, 3 ... that may be changed. */
void chain_begin(const char *rule);
void chain_said(const char *text); /* fails unless NCCL's log has it */

/* Ask as NCCL does; unlike nccl_ask it checks nothing. */
struct question chain_question(int func);
int chain_ask(const struct comm *comm, struct question *question);

extern struct profiler_record *chain_next; /* of the profiler behind ours */
extern int chain_mask;                     /* NCCL's one mask             */

void *chain_library(const char *fake);
void chain_behind(int version, int mask, int ledger);

/* A communicator of the profiler interface alone: the tuner's init comes later in NCCL. */
void *chain_open(void);
const struct nccl_abi_profiler_v5 *chain_profiler(void);

/* An event of every kind, in the layout of the release; the bytes behind it are noise. */
struct nccl_abi_event_v7 chain_make(int type, void *parent, void *group);
void *chain_start(void *ctx, struct nccl_abi_event_v7 *event);

extern const int chain_kinds[]; /* how many kinds of events a version of NCCL has */

#endif
