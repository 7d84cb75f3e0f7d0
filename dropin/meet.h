/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet.h - do all ranks of a communicator have the drop-in, and are they on one host?
 *
 * The ranks meet in shared memory that is named after the communicator. A rank without the drop-in
 * never comes, and a rank on another host comes to another object. So the ranks need no NCCL call,
 * which a rank without the drop-in would never join. One word of the object holds the answer; it is
 * written once, by compare and exchange, so all ranks read the same one.
 *
 * Each rank enters the meeting before NCCL makes the communicator, and comes to it afterwards. NCCL
 * makes no communicator, also not by split or shrink, before it has heard of all ranks (init.cc has
 * an all-gather of its own for this, 2.27.3 to 2.30.7). So a rank that comes knows immediately if
 * some rank never will, and waits only for ranks that will come.
 *
 * Units      times are milliseconds.
 * Ownership  st_meet_leave frees what st_meet_enter returned. The object loses its name when the
 *            first rank comes or leaves, so it stays in /dev/shm only if all ranks are killed
 *            while NCCL makes the communicator.
 */
#ifndef ST_MEET_H_
#define ST_MEET_H_

#include <stdbool.h>
#include <stdint.h>

enum { ST_MEET_MS = 5000, ST_MEET_VOTES = 3000 };

/* What one rank says. */
struct st_meet_entry {
    uint64_t settings; /* must be the same on all ranks: version and options          */
    uint32_t able;     /* 1: this rank could use our kernels                          */
    uint32_t single;   /* 1: its thread drives no other rank of the communicator       */
};

enum st_meet_answer { ST_MEET_OPEN, ST_MEET_ALL, ST_MEET_MISSING, ST_MEET_UNABLE, ST_MEET_DIFFER };

struct st_meet;

/* Say that ${count} ranks are about to make the communicator that ${key} names. Does not wait.
 * Returns NULL if there is no shared memory. */
struct st_meet *st_meet_enter(uint64_t key, int count);

/* NCCL has made the communicator, of ${ranks} ranks: ${count} of them, which this thread drives and
 * which have entered, say ${entry}. Does not wait. */
void st_meet_come(struct st_meet *meet, int ranks, int count, const struct st_meet_entry *entry);

/* Wait until all ranks have come, it is known that one never will, or ${ms} have passed since
 * st_meet_come; return the answer, which is the same on all ranks. */
enum st_meet_answer st_meet_wait(struct st_meet *meet, int ms);

/* Ask a second question: did each rank get its handle? Every thread calls this after ST_MEET_ALL,
 * for all ${ranks} ranks that it drives; returns false on all ranks if one said no or did not come
 * within ${ms}. */
bool st_meet_done(struct st_meet *meet, int ranks, bool done, int ms);

/*
 * st_meet_vote(meet, yes, most, ms):
 * Vote once more, and wait for all ranks; each rank calls it as often as the others, at most
 * ST_MEET_VOTES times, with one call per rank. Returns true if all said yes within ${ms}, on all
 * ranks alike; then sets ${most} to the largest one of all ranks, none of which is negative.
 */
bool st_meet_vote(struct st_meet *meet, bool yes, double *most, int ms);

/* Has this rank come first? The first rank prints the warnings for all. */
bool st_meet_first(const struct st_meet *meet);

/* After ST_MEET_ALL: has each rank a thread of its own? */
bool st_meet_single(const struct st_meet *meet);

/* Let a thread that waits in a vote give up the vote; every later vote is lost, too. Threads:
 * any. */
void st_meet_give_up(struct st_meet *meet);

/* Leave the meeting. If called before st_meet_come, no other rank need wait for this one. ${meet}
 * may be NULL. */
void st_meet_leave(struct st_meet *meet);

/* What the entries say when ${count} of ${ranks} have come. Pure. */
enum st_meet_answer st_meet_judge(const struct st_meet_entry *entry, int count, int ranks);

#endif
