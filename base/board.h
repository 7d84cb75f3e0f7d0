/* SPDX-License-Identifier: Apache-2.0 */
/*
 * board.h - memory that the processes of one user on one host share.
 *
 * A board is a POSIX shared memory object of fixed size, all zeros at first. A process uses a board
 * only if the board belongs to the process's user and no other user may read it. All memory of a
 * board is reserved when the board is made. Otherwise a later store could find /dev/shm full, and
 * SIGBUS would end the job.
 *
 * Ownership  the caller unmaps what st_board_map mapped. st_board_leave releases all that
 *            st_board_join took.
 * Threads    any thread may call; only one thread at a time may use a struct st_board.
 */
#ifndef ST_BOARD_H_
#define ST_BOARD_H_

#include <stdbool.h>
#include <stddef.h>

/* Map the object ${name}, which begins with "/" and has ${size} bytes, and set ${*at_out} to the
 * address of the mapping. With ${create}, make the object, which must not exist yet. Without
 * ${create}, the object must exist. Returns 0, or an errno number on failure. */
int st_board_map(const char *name, size_t size, bool create, void **at_out);

struct st_board {
    void *at; /* address of the memory; NULL: not joined */
    size_t size;
    int fd; /* the open object, with our lock on it; -1 after st_board_hide */
    char name[64];
};

/* Map the object ${name}. If the object does not exist yet, make it. Every process that joins holds
 * a lock on the object until st_board_hide, and the operating system releases the locks of killed
 * processes. An object that nobody has locked was left behind by killed processes; the next process
 * to join sets it to zeros. On failure, removes the object if nobody else has locked it, and
 * returns false. */
bool st_board_join(struct st_board *board_out, const char *name, size_t size);

/* Remove the object's name, so that no other process can join. The memory stays mapped. */
void st_board_hide(struct st_board *board);

/* Hide and unmap the board. */
void st_board_leave(struct st_board *board);

#endif
