/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board.h - shared memory in which the processes of one user on one host meet.
 *
 * A board is a POSIX shared memory object of fixed size, all zeros at first. It is used only if it
 * belongs to this user and nobody else may read it. Its memory is reserved when it is made: a
 * store into a full /dev/shm would end the job by SIGBUS.
 *
 * Ownership  st_board_map: the caller unmaps. st_board_join: st_board_leave gives all back.
 * Threads    any; a struct st_board belongs to one thread at a time.
 */
#ifndef ST_BOARD_H_
#define ST_BOARD_H_

#include <stdbool.h>
#include <stddef.h>

/* Map the object ${name}, "/..." , of ${size} bytes, in ${at_out}. If ${create}, make it, and it must
 * not be there; else it must. Returns 0, or errno's number of what failed. */
int st_board_map(const char *name, size_t size, bool create, void **at_out);

struct st_board {
    void *at; /* NULL: not joined */
    size_t size;
    int fd; /* holds a lock, -1 once the name is gone */
    char name[64];
};

/* Map the object ${name}; the first process makes it. One that killed processes have left behind
 * begins with zeros again: every process holds a lock on it until it is hidden, and the kernel
 * takes the locks of killed processes back. Returns false if that fails. */
bool st_board_join(struct st_board *board_out, const char *name, size_t size);

/* Take the name away, so that no other process can join. */
void st_board_hide(struct st_board *board);

/* Hide and unmap the board. */
void st_board_leave(struct st_board *board);

#endif
