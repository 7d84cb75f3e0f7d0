/* SPDX-License-Identifier: Apache-2.0 */
/*
 * meet.h - do all ranks of a communicator have the drop-in, and are they on one host?
 *
 * To find out, the ranks "meet" in a shared memory object that is named after the communicator. A
 * rank without the drop-in never comes, and a rank on another host finds another object. A
 * collective of NCCL could not find this out, because a rank without the drop-in would not take
 * part. One word of the object holds the answer. It is written once, by compare and exchange, so
 * all ranks read the same answer.
 *
 * Each rank enters the meeting before NCCL makes the communicator (st_meet_enter), and comes to it
 * afterwards (st_meet_come). NCCL makes a communicator, also by split or shrink, only after all
 * ranks have called NCCL: init.cc of 2.27.3 to 2.30.7 has an all-gather for this. So when the first
 * rank comes, all ranks that will ever come have entered. If fewer ranks have entered than the
 * communicator has, a rank that comes knows at once that one is missing, and does not wait for it.
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

/* What each rank writes into the object for the others. */
struct st_meet_entry {
    uint64_t settings; /* hash of version and options, must be the same on all ranks   */
    uint32_t able;     /* 1: this rank could use our kernels                           */
    uint32_t single;   /* 1: the rank's thread drives no other rank of the communicator */
};

enum st_meet_answer { ST_MEET_OPEN, ST_MEET_ALL, ST_MEET_MISSING, ST_MEET_UNABLE, ST_MEET_DIFFER };

struct st_meet;

/* Enter the meeting of the communicator that ${key} identifies. ${count}: how many of its ranks
 * this thread drives. Does not wait. Returns NULL if there is no shared memory. */
struct st_meet *st_meet_enter(uint64_t key, int count);

/* Come to the meeting, after NCCL has made the communicator, which has ${ranks} ranks. ${count}
 * ranks of this thread come, all with the same ${entry}. Does not wait. */
void st_meet_come(struct st_meet *meet, int ranks, int count, const struct st_meet_entry *entry);

/* Wait until all ranks have come, or until it is known that one never will, but at most until ${ms}
 * after st_meet_come. Returns the answer, which is the same on all ranks. */
enum st_meet_answer st_meet_wait(struct st_meet *meet, int ms);

/* Ask a second question: did each rank get its handle? Every thread calls this once, after the
 * answer ST_MEET_ALL. ${done} is the thread's answer for all ${ranks} ranks that it drives. Returns
 * true on all ranks if all said yes within ${ms}, else false on all ranks. */
bool st_meet_done(struct st_meet *meet, int ranks, bool done, int ms);

/*
 * st_meet_vote(meet, yes, most, ms):
 * Vote yes or no, and wait for the votes of all ranks. Each rank must call this itself, and all
 * ranks equally often, at most ST_MEET_VOTES times. Returns true on all ranks if all voted yes
 * within ${ms}, else false on all ranks. Each rank passes a number in *most, which must not be
 * negative, and gets back the largest of all ranks' numbers.
 */
bool st_meet_vote(struct st_meet *meet, bool yes, double *most, int ms);

/* Was this rank the first to come? The first rank prints the warnings for all. */
bool st_meet_first(const struct st_meet *meet);

/* Does each rank have a thread of its own? Call this only after the answer ST_MEET_ALL. */
bool st_meet_single(const struct st_meet *meet);

/* Let a thread that waits in a vote give up. From then on no vote waits: it returns false unless
 * all ranks have voted yes already. Threads: any. */
void st_meet_give_up(struct st_meet *meet);

/* Leave the meeting. If this rank has not called st_meet_come, the others learn that it never will.
 * ${meet} may be NULL. */
void st_meet_leave(struct st_meet *meet);

/* Return the answer of a meeting of ${ranks} ranks to which ${count} have come so far, with these
 * entries. Pure. */
enum st_meet_answer st_meet_judge(const struct st_meet_entry *entry, int count, int ranks);

#endif
